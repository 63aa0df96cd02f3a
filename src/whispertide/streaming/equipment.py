"""What rounds are computed with: a model, a framing, and what goes with them. Hearings use it (`round.Hearing`)."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from whispertide.decoding.draft import Drafter
from whispertide.decoding.longform import Cost, Features
from whispertide.decoding.rules import Rules, build_rules, suppressed_tokens
from whispertide.decoding.token_kinds import TokenKinds
from whispertide.decoding.word_end import WordEndDetector
from whispertide.graphs.chunks import layout_for, unrolled_decoder
from whispertide.graphs.store import GraphFiles
from whispertide.model.static import StaticEngine
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import Framing
from whispertide.types import FloatArray

if TYPE_CHECKING:
    from whispertide.model.engine import Encoded, EncoderState
    from whispertide.model.whisper import WhisperModel


@dataclass(frozen=True, slots=True)
class Opening:
    """What the first stage leaves to the second: the features of the round, and its first window encoded.

    `hushed` says whether a hush word is after that window.
    """

    features: Features
    encoded: "Encoded"
    cost: Cost
    hushed: bool


@dataclass(slots=True)
class Equipment:
    """What the rounds of any number of sessions are computed with, one at a time; it knows nothing of any of them.

    model     decodes, and where there is no `encoder` also encodes
    frame     how a window becomes encoder input
    suffix    the samples of a hush word, if one goes after every window
    detector  tells whether the last word was spoken to its end
    drafter   drafts ahead of greedy searches where a round has nothing to go by
    unrolled  static graphs of the decoder; None: built, or found in the cache, when a plan first asks for them
    encoder   runs the first stage, if that is not to be `model`
    """

    model: "WhisperModel"
    frame: Framing
    suffix: FloatArray | None = None
    detector: WordEndDetector | None = None
    unrolled: StaticEngine | None = None
    encoder: "WhisperModel | None" = None
    drafter: Drafter | None = None
    kinds: Callable[[str | None], TokenKinds] = field(init=False, repr=False)  # words from punctuation in a language
    _rules: Callable[[tuple[int, ...] | None, bool], Rules] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tokenizer = self.model.tokenizer
        self.kinds = lru_cache(maxsize=8)(lambda language: TokenKinds(tokenizer, language))
        self._rules = lru_cache(maxsize=8)(self._make_rules)

    @property
    def encodes(self) -> "WhisperModel":
        """What runs the first stage."""
        return self.encoder or self.model

    def open(self, features: Features, frames: int, state: "EncoderState | None", taps: Sequence[int] = ()) -> Opening:
        """Encode the first `frames` mel frames of a round, after what left `state`, and note what that took."""
        mel = features.followed(0, frames)
        began = time.perf_counter()
        encoded = self.frame.after(self.encodes, mel, state, taps=taps)
        cost = Cost("encode", time.perf_counter() - began, frames=encoded.frames)
        return Opening(features, encoded, cost, hushed=mel.shape[1] > frames)

    def open_unrolled(self) -> StaticEngine:
        """The static graphs of the model's decoder. Raises `GraphError` where they cannot be built."""
        if self.unrolled is None:
            checkpoint = self.model.checkpoint
            manifest = GraphFiles(checkpoint, "fp32")[unrolled_decoder(layout_for(checkpoint))]
            self.unrolled = StaticEngine(manifest.parent, checkpoint, self.model.options)
        return self.unrolled

    def rules(self, options: DecodeOptions, must_speak: bool) -> Rules:
        """Text only: no timestamps, languages or other special tokens."""
        return self._rules(options.suppress_tokens, must_speak)

    def _make_rules(self, suppress: tuple[int, ...] | None, must_speak: bool) -> Rules:
        tokenizer = self.model.tokenizer
        never = suppressed_tokens(tokenizer, suppress, self.model.generation.suppress_tokens)
        special = range(tokenizer.eot + 1, self.model.dims.n_vocab)
        options = DecodeOptions(
            timestamps=False, suppress_blank=must_speak, suppress_tokens=tuple(sorted({*never, *special}))
        )
        return build_rules(self.model, options)
