"""Choices of the search that finds the tokens of a round; the searches themselves are in `decoding`."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from whispertide.decoding.draft import Align, Follows, Reference
from whispertide.errors import OptionError
from whispertide.options import DecodeOptions
from whispertide.streaming.choice import Choice, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Search(Choice):
    """A way to find tokens.

    hypotheses  how many are kept at most
    reuse       how the text of an earlier round is used, as a reference without a text; None: not at all
    """

    hypotheses: int = field(init=False, repr=False, compare=False)
    reuse: Reference | None = field(init=False, repr=False, compare=False)

    def derive(self) -> dict[str, Any]:
        """One hypothesis, and nothing of earlier rounds."""
        return {"hypotheses": 1, "reuse": None}

    def options(self, wanted: DecodeOptions) -> DecodeOptions:
        """The options of a decode: `beam` is the search's affair, what is written down the user's.

        Raises `OptionError` for a patience with which no hypothesis of that beam could end.
        """
        beam = self.hypotheses
        if beam > 1 and round(beam * wanted.patience) < 1:
            raise OptionError(f"expected beam * patience >= 1; got {beam} and {wanted.patience:g}")
        return replace(wanted, beam=beam)

    def narrowed(self) -> "Search":
        """The same with one hypothesis, for a machine that is too slow."""
        return self if self.hypotheses == 1 else Greedy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy(Search):
    """The likeliest token at each step."""

    kind: ClassVar[str] = "greedy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beam(Search):
    """Beam search."""

    kind: ClassVar[str] = "beam"
    beam: int = setting(5, "number of hypotheses", least=1, most=64)

    @classmethod
    def instead_of(cls, other: Choice, **changes: Any) -> Self:
        """A beam of one is another search's, and does not stay."""
        if type(other) is not cls and getattr(other, "beam", 1) == 1:
            changes = {"beam": 5} | changes
        return super(Beam, cls).instead_of(other, **changes)

    def derive(self) -> dict[str, Any]:
        """As many hypotheses as `beam`."""
        return {"hypotheses": self.beam, "reuse": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(Beam):
    """One hypothesis while it agrees with the previous round's text, else `beam` (WhisperFlow)."""

    kind: ClassVar[str] = "pruned"
    align: Align = setting(
        "bigram",
        'how the place in the previous round\'s text is found: by two equal pieces in a row ("bigram"), by the '
        'equal piece nearest in "time", or by the "first" equal one (WhisperFlow)',
    )
    recover: bool = setting(
        True,
        "whether a beam closes again when its best hypothesis returns to the previous round's text "
        "(WhisperFlow: never)",
    )
    follows: Follows = setting(
        "heard",
        'for local agreement: the text that the search follows, all words of the previous round ("heard"), or '
        'the confirmed words and the hypothesis ("shown", WhisperFlow)',
    )

    def derive(self) -> dict[str, Any]:
        """The text is followed token by token."""
        reuse = Reference(align=self.align, recover=self.recover, follows=self.follows)
        return {"hypotheses": self.beam, "reuse": reuse}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(Pruned):
    """Like `pruned`, with the previous round's text checked as one block: with one hypothesis it finds what greedy
    search finds. `tide` checks the hypothesis of the round before, whose place it knows.
    """

    kind: ClassVar[str] = "verified"

    def derive(self) -> dict[str, Any]:
        """The text is checked as one block."""
        reuse = Reference(align=self.align, recover=self.recover, block=True, follows=self.follows)
        return {"hypotheses": self.beam, "reuse": reuse}
