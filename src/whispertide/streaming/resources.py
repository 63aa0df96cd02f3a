"""Resources of rounds: a model, a framing, and what goes with them. Knows no round and no session."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Protocol

from whispertide.checkpoint.tokenizer import KindOf, token_kinds
from whispertide.decoding.language import DetectedLanguage, choose_language, detect_language
from whispertide.decoding.longform import pad_or_trim
from whispertide.decoding.rules import Rules, build_rules, suppressed_tokens
from whispertide.decoding.search import Cost
from whispertide.features import Features
from whispertide.model.engine import Encoded, EncoderState
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions, Task
from whispertide.streaming.framing import Framing
from whispertide.types import N_FRAMES, FloatArray


class WordEndDetector(Protocol):
    """Looks at the encoder's output of the frames with real audio (Simul-Whisper; Wang et al. 2024)."""

    def fires(self, hidden: FloatArray) -> bool:
        """True if a word boundary lies at the end of `hidden`, [frames, width]: then the last word is whole."""


@dataclass(frozen=True, slots=True)
class EncodedWindow:
    """The first stage's result for the second: the features of the round, and its first window encoded.

    `hushed` is whether a hush word is after that window.
    """

    features: Features
    encoded: Encoded
    cost: Cost
    hushed: bool


@dataclass(slots=True)
class RoundResources:
    """Resources to compute the rounds of any number of sessions, one at a time; they know nothing of any session.

    model     decodes, and where there is no `encoder` also encodes
    frame     how a window becomes encoder input
    suffix    the samples of a hush word, if one goes after every window
    detector  tells whether the last word was spoken to its end
    encoder   runs the first stage, if that is not to be `model`
    """

    model: WhisperModel
    frame: Framing
    suffix: FloatArray | None = None
    detector: WordEndDetector | None = None
    encoder: WhisperModel | None = None
    kinds: Callable[[str | None], KindOf] = field(init=False, repr=False)  # words from punctuation in a language
    start: Callable[[str | None, Task], tuple[int, ...]] = field(init=False, repr=False)  # what begins a transcript
    _rules: Callable[[tuple[int, ...] | None, bool, tuple[str, ...]], Rules] = field(init=False, repr=False)
    _languages: dict[str | None, DetectedLanguage] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        tokenizer = self.model.tokenizer
        # Caches of its own in place of cached methods, which would keep every resources alive.
        self.kinds = lru_cache(maxsize=8)(partial(token_kinds, tokenizer))
        self.start = lru_cache(maxsize=8)(lambda language, task: tokenizer.sot_sequence(language, task, False))
        self._rules = lru_cache(maxsize=8)(self._make_rules)

    def language(self, encoded: Encoded, options: DecodeOptions) -> DetectedLanguage:
        """The wanted language, English where there is no other, else the one detected in `encoded`.

        Raises `UnknownLanguageError` for a wanted language that the checkpoint cannot write.
        """
        # Never kept: what is heard may be another language in the next round.
        if options.language is None and self.model.tokenizer.is_multilingual:
            return detect_language(self.model, encoded, options.languages)
        if options.language not in self._languages:
            self._languages[options.language] = choose_language(self.model, lambda: encoded, options.language)
        return self._languages[options.language]

    def padded_language(self, mel: FloatArray, options: DecodeOptions, costs: list[Cost]) -> DetectedLanguage:
        """The language detected in a window that is padded to 30 s; what that took is added to the costs.

        In a short form of the padding base takes a third of the clips with a heavy accent for another language, in this
        one none (lab/log).
        """
        began = time.perf_counter()
        encoded = pad_or_trim(self.model, mel)
        costs.append(Cost("encode", time.perf_counter() - began, encoded.computed))
        return detect_language(self.model, encoded, options.languages)

    @property
    def encodes(self) -> WhisperModel:
        """The engine that runs the first stage."""
        return self.encoder or self.model

    def open_whole(self, audio: FloatArray, state: EncoderState | None) -> EncodedWindow | None:
        """Encode `audio` [n] by itself, at most 30 s of it; None: there is less than 10 ms. See `open`."""
        began = time.perf_counter()
        features = Features.of([audio], self.encodes.dims.n_mels, self.suffix)
        return self.open(features, min(features.frames, N_FRAMES), state, began=began) if features.frames else None

    def open(
        self,
        features: Features,
        frames: int,
        state: EncoderState | None,
        taps: Sequence[int] = (),
        frame: Framing | None = None,
        *,
        began: float,
    ) -> EncodedWindow:
        """Encode the first `frames` mel frames of a round, after what left `state`, and note what that took since the
        features `began`; `frame`: in another framing.
        """
        mel = features.followed(0, frames)
        features_s = time.perf_counter() - began
        encoded = (frame or self.frame).after(self.encodes, mel, state, taps=taps)
        cost = Cost("encode", time.perf_counter() - began, encoded.computed, features_s=features_s)
        # Only a hush word makes the features longer than the window.
        return EncodedWindow(features, encoded, cost, hushed=mel.shape[1] > frames)

    def rules(self, options: DecodeOptions, must_speak: bool) -> Rules:
        """Text only: no timestamps, languages or other special tokens."""
        return self._rules(options.suppress_tokens, must_speak, options.keyterms)

    def _make_rules(self, suppress: tuple[int, ...] | None, must_speak: bool, keyterms: tuple[str, ...]) -> Rules:
        tokenizer = self.model.tokenizer
        never = suppressed_tokens(tokenizer, suppress, self.model.generation.suppress_tokens)
        special = range(tokenizer.eot + 1, self.model.dims.n_vocab)
        # Whisper's rule against a blank beginning forbids the end of text as the first token, too.
        options = DecodeOptions(
            timestamps=False,
            suppress_blank=must_speak,
            suppress_tokens=tuple(sorted({*never, *special})),
            keyterms=keyterms,
        )
        return build_rules(self.model, options)
