"""The early stop of WhisperKit: a decode whose newest tokens repeat themselves is not worth finishing.

Its rule is Whisper's for whole windows (openai/whisper, `compression_ratio_threshold`), applied while decoding: text
that compresses well is a loop. As published the check runs next to the decoding, so that where it stops depends on the
machine; here it is a guard, and a decode stops at the same token everywhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from whispertide.checkpoint.generation import Head
from whispertide.decoding.fallback import compression_ratio
from whispertide.decoding.guards import Halt, Scene
from whispertide.errors import OptionError
from whispertide.model.whisper import WhisperModel
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class EarlyStop:
    """A `guards.Watch` that looks at tokens alone: the newest `tokens` of them may not compress better than `ratio`."""

    tokens: int = 60
    ratio: float = 2.4

    def __post_init__(self) -> None:
        if self.tokens < 2 or self.ratio <= 1:
            raise OptionError(f"expected tokens >= 2 and ratio > 1; got {self.tokens} and {self.ratio:g}")

    def heads(self, model: WhisperModel) -> tuple[Head, ...]:
        """None: attention is not looked at."""
        return ()

    def guard(self, scene: Scene, model: WhisperModel) -> "EarlyStopGuard":
        """A fresh guard."""
        return EarlyStopGuard(self, model.tokenizer.decode)


@dataclass(slots=True)
class EarlyStopGuard:
    """Ends a decode whose newest tokens repeat themselves, and drops these."""

    rule: EarlyStop
    decode: Callable[[Sequence[int]], str]
    halt: Halt | None = None
    last_frame: int | None = field(default=None, init=False)

    def check(self, tokens: Sequence[int], attention: FloatArray | None = None, logprob: float = 0) -> int | None:
        """The number of tokens before the repeated ones, else None."""
        if len(tokens) < self.rule.tokens:
            return None
        newest = self.decode(list(tokens[-self.rule.tokens :]))
        if compression_ratio(newest) <= self.rule.ratio:
            return None
        keep = len(tokens) - self.rule.tokens
        self.halt = Halt("early-stop", keep, tokens[keep])
        return keep
