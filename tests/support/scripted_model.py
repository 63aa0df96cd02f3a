"""A model that says what it is told and attends where it is told, with the tokenizer of the bundled one.

Rounds and windows take milliseconds with it, and every figure that comes out is known beforehand. It keeps note of
what it is asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from multilingual_tokenizer import multilingual_tokenizer
from scripted_decoder import ScriptedDecoder
from whispertide.checkpoint import Checkpoint, Tokenizer, load_checkpoint
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.model.engine import LAST_LAYER, Encoded
from whispertide.options import EngineOptions
from whispertide.types import N_FRAMES, FloatArray

Story = Sequence[tuple[int, int]]  # tokens after the start sequence, and the frame that each is heard in
SURE = 20.0  # logits of the token that is said
HEADS = ((2, 1), (3, 3))  # those that follow the audio


@cache
def bundled() -> Checkpoint:
    """The facts and the tokenizer of nano.en."""
    return load_checkpoint(str(BUNDLED_DIR / "nano.en"))


@cache
def multilingual() -> Tokenizer:
    """A tokenizer of OpenAI's multilingual models."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "tokenizer.json").write_text(multilingual_tokenizer())
        tokenizer = Tokenizer.from_folder(Path(folder), 51_865)
        tokenizer.encode("read now")
    return tokenizer


def story(*words: tuple[str, int], tokenizer: Tokenizer | None = None) -> list[tuple[int, int]]:
    """(word, frame) -> its tokens, all heard there."""
    encode = (tokenizer or bundled().tokenizer).encode
    return [(token, frame) for word, frame in words for token in encode(word)]


def time(frame: int) -> tuple[int, int]:
    """A timestamp."""
    return bundled().tokenizer.timestamp_begin + frame, frame


@dataclass
class ScriptedModel:
    """`said` tells what is heard in a window, and `sure` how sure of it the model is."""

    said: Callable[[Encoded], Story]
    sure: Callable[[Encoded], float] = lambda encoded: SURE
    no_speech: float = 0.0  # logits of the token for silence
    next_best: int | None = None  # a token that is always likely
    language: str | None = None  # what is spoken; then the model is a multilingual one
    padded_language: str | None = None  # what it sounds like in windows of 30 s, if that is another one
    windows: list[Encoded] = field(default_factory=list)
    mels: list[FloatArray] = field(default_factory=list)
    decoders: list[ScriptedDecoder] = field(default_factory=list)
    heads: list[tuple[tuple[int, int], ...]] = field(default_factory=list)
    name: str = "scripted"
    content_hash: str = "0" * 64

    def __post_init__(self) -> None:
        self.checkpoint = bundled()
        self.tokenizer, self.dims = self.checkpoint.tokenizer, self.checkpoint.dims
        self.generation = replace(self.checkpoint.generation, alignment_heads=HEADS)
        self.alignment_heads = HEADS
        if self.language is not None:
            self.tokenizer, self.dims = multilingual(), replace(self.dims, n_vocab=51_865)
        self.options = EngineOptions(threads=1)

    @property
    def short(self) -> "ScriptedModel":
        return self

    def encode(self, mel: FloatArray, *, taps: Sequence[int] = (), **padding: Any) -> Encoded:
        frames = mel.shape[1] // 2
        assert set(taps) <= {LAST_LAYER}
        last = np.arange(4.0 * frames, dtype=np.float32).reshape(frames, 4)
        self.mels.append(mel)
        self.windows.append(Encoded((), (), frames, padding.get("valid_frames") or frames, dict.fromkeys(taps, last)))
        return self.windows[-1]

    def decoder(self, encoded: Encoded, *, heads: Sequence[tuple[int, int]] = ()) -> ScriptedDecoder:
        eot, sot, plain = self.tokenizer.eot, self.tokenizer.sot, self.tokenizer.no_timestamps
        everything = self.said(encoded)
        untimed = [item for item in everything if item[0] < eot]
        follow = [row for row, head in enumerate(heads) if head in HEADS]  # the others look nowhere

        def after_start(seen: tuple[int, ...]) -> tuple[Story, int]:
            """What is told, and how much of it was said."""
            after = len(seen) - seen[::-1].index(sot)
            start = [token for token in seen[after : after + 3] if eot < token < self.tokenizer.timestamp_begin]
            told = untimed if plain in start else everything
            return told, len(seen) - after - len(start)

        def script(seen: tuple[int, ...]) -> FloatArray:
            logits = np.zeros(self.dims.n_vocab, np.float32)
            told, at = after_start(seen)
            if self.next_best is not None:
                logits[self.next_best] = SURE / 4
            logits[told[at][0] if at < len(told) else eot] = self.sure(encoded)
            if seen[-1] == sot:
                logits[self.tokenizer.no_speech] = self.no_speech
                if self.language is not None:
                    is_padded = encoded.frames == N_FRAMES // 2
                    spoken = (is_padded and self.padded_language) or self.language
                    logits[self.tokenizer.language_tokens[spoken]] = 5.0
            return logits

        def attend(seen: tuple[int, ...]) -> FloatArray:
            """From its own frame to the next token's, ten frames where that one is earlier; the end of text is heard
            ten frames after the last token.
            """
            attention = np.full((len(heads), encoded.valid_frames), 1e-4, np.float32)
            told, at = after_start(seen) if sot in seen else ((), -1)
            if 0 <= at <= len(told):
                frames = [*(frame for _, frame in told[at : at + 2]), told[-1][1] + 10 if told else 0]
                begin, until = (*frames, encoded.valid_frames)[:2]
                until = until if until >= begin else begin + 10
                attention[follow, begin : max(until, begin + 1)] = 0.01
            return attention

        run = ScriptedDecoder(script, attend if heads else None, self.tokenizer.timestamp_begin)
        self.decoders.append(run)
        self.heads.append(tuple(heads))
        return run

    def view(self, options: EngineOptions) -> "ScriptedModel":
        return self


def telling(told: Story, **about: Any) -> ScriptedModel:
    """The same in every window."""
    return ScriptedModel(lambda encoded: told, **about)


def by_window(*stories: Story) -> ScriptedModel:
    """Says one story after the other, window by window."""
    model = ScriptedModel(lambda encoded: stories[[window is encoded for window in model.windows].index(True)])
    return model
