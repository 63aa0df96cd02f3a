"""Which search finds the tokens of a round, as a recipe says it; the searches themselves are in `decoding`."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from whispertide.decoding.draft import Align, Follows, Reference
from whispertide.streaming.choice import Choice, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Search(Choice):
    """How tokens are found."""

    @property
    def hypotheses(self) -> int:
        """How many hypotheses are kept at most."""
        return 1

    @property
    def reuse(self) -> Reference | None:
        """How the text of an earlier round is used, as a reference without a text; None: not at all."""
        return None

    def narrowed(self) -> "Search":
        """The same with one hypothesis, for a machine that is too slow."""
        return self if self.hypotheses == 1 else Greedy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy(Search):
    """The likeliest token, each time."""

    kind: ClassVar[str] = "greedy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beam(Search):
    """Several hypotheses next to each other."""

    kind: ClassVar[str] = "beam"
    beam: int = setting(5, "hypotheses", least=1, most=64)

    @classmethod
    def instead_of(cls, other: Choice, **changes: Any) -> Self:
        """A beam of one is another search's, and does not stay."""
        if type(other) is not cls and getattr(other, "beam", 1) == 1:
            changes = {"beam": 5} | changes
        return super(Beam, cls).instead_of(other, **changes)

    @property
    def hypotheses(self) -> int:
        """As many as `beam`."""
        return self.beam


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(Beam):
    """One hypothesis as long as it says what the round before heard, else `beam` (WhisperFlow)."""

    kind: ClassVar[str] = "pruned"
    align: Align = setting(
        "bigram",
        'how the place in what was heard is found: by two equal pieces in a row ("bigram"), by the equal piece nearest '
        'in "time", or by the "first" equal one (WhisperFlow)',
    )
    recover: bool = setting(
        True, "a search that has left what was heard gets narrow again once it is back (WhisperFlow: never)"
    )
    follows: Follows = setting(
        "heard",
        'for local agreement: what is followed, all that the round before "heard" in the window, or what was "shown": '
        "confirmed words and the guess after them (WhisperFlow)",
    )

    @property
    def reuse(self) -> Reference | None:
        """The text is followed token by token."""
        return Reference(align=self.align, recover=self.recover, follows=self.follows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(Pruned):
    """Likewise, and what the round before heard is checked as one block: with one hypothesis it finds what greedy
    finds. AlignAtt checks the guess of the round before, whose place it knows.
    """

    kind: ClassVar[str] = "verified"

    @property
    def reuse(self) -> Reference | None:
        """The text is checked as one block."""
        return Reference(align=self.align, recover=self.recover, block=True, follows=self.follows)
