"""Where a recipe wants its rounds computed; `executor` and `pipelined` do it."""

from dataclasses import dataclass
from typing import ClassVar

from whispertide.errors import OptionError
from whispertide.streaming.choice import Choice, setting
from whispertide.streaming.offramp import Offramp, Signal, is_trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Where(Choice):
    """Where, and only where.

    overlaps  whether rounds overlap: one is planned while the one before it is decoded
    ahead     whether a round is planned before the one before it is done, though they are computed one after the other
    """

    overlaps: ClassVar[bool] = False
    ahead: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial(Where):
    """One round after the other."""

    kind: ClassVar[str] = "serial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipelined(Where):
    """A round is encoded while the one before it is decoded, each by a worker of its own (WhisperFlow)."""

    kind: ClassVar[str] = "pipelined"
    overlaps: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(Where):
    """Whatever `whispertide profile` found best on this machine."""

    kind: ClassVar[str] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid(Where):
    """In the background, one round after the other; the last of an utterance here or on a server (pilot inference).

    Which server is no part of a recipe: `WHISPERTIDE_REMOTE` says it (`hybrid`). Without one all is heard here.
    """

    kind: ClassVar[str] = "hybrid"
    ahead: ClassVar[bool] = True
    offramp: Signal = setting(
        "perplexity",
        'what sends an utterance there: the newest pilot\'s "perplexity", the "entropy" of its first token, '
        '"bilstm", "cnn" or "linear" (networks of `whispertide train offramp`), or "random" choice',
    )
    threshold: float = setting(2.0, "it is sent where that is more than this (0 = always)", least=0, most=1e6)
    remote_s: float = setting(2.0, "so long after the end of speech its answer counts", least=0.05, most=60)
    tries: int = setting(2, "requests in all, as long as there is time", least=1, most=10)
    early: bool = setting(False, "uploads begin while somebody speaks, where the pilots are that unlikely")

    def check(self) -> None:
        """A trained offramp gives probabilities, and chance numbers from 0 to 1."""
        Where.check(self)
        if (is_trained(self.offramp) or self.offramp == "random") and self.threshold >= 1:
            raise OptionError(
                f"expected a threshold below 1 for offramp={self.offramp}, whose numbers all are; got "
                f"{self.threshold:g}: choose threshold=0.5, for instance"
            )

    def decides(self) -> Offramp:
        """What decides."""
        return Offramp(self.offramp, self.threshold)
