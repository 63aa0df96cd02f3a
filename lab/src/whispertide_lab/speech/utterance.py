"""What is listened to: recordings with what was said in them, and corpora of such. Pure values."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from whispertide.types import FloatArray

ALIGNED = "aligned"  # word times by forced alignment, no basis for a claim about latency
NOBODY = frozenset({"", "-", "unknown", "nonspeech"})  # groups that are no speaker


@dataclass(frozen=True, slots=True)
class RefWord:
    """A word that was really said; times are None where nobody knows them exactly."""

    text: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Utterance:
    """One recording to be recognised, from a sentence to a talk. `audio` loads it: 16 kHz mono float32.

    exact_times   whether every word has the synthesizer's or hand-labelled times; only then latency may be claimed
    aligned_by    the model that placed the words by forced alignment, if nobody knows exact times; empty if none did
    group         the speaker, voice or session: what recordings of one have in common. See `NOBODY`
    intent        what the speaker of a command wants, where that is known
    prompted      whether the words are those that the speaker was asked to read, unchecked
    """

    id: str
    words: tuple[RefWord, ...]
    seconds: float
    audio: Callable[[], FloatArray]
    exact_times: bool = False
    group: str = ""
    language: str = "en"
    aligned_by: str = ""
    intent: str | None = None
    prompted: bool = False

    @property
    def word_times(self) -> str:
        """Where the words' times come from: "exact", "aligned by MODEL", or empty where nobody knows them."""
        return "exact" if self.exact_times else f"{ALIGNED} by {self.aligned_by}" if self.aligned_by else ""

    @property
    def timed(self) -> bool:
        """Whether there are words and each has its time, exact or aligned."""
        return bool(self.words and self.word_times) and all(word.end is not None for word in self.words)


class Corpus(Protocol):
    """Utterances with a name and a hash over audio and references, which every report prints."""

    @property
    def name(self) -> str:
        """The name that a report shows."""

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits over everything that is scored against."""

    def utterances(self) -> Iterator[Utterance]:
        """In a fixed order."""


@dataclass(frozen=True, slots=True)
class Recordings:
    """A corpus of these utterances, in their order."""

    name: str
    hash: str
    items: tuple[Utterance, ...]

    def utterances(self) -> Iterator[Utterance]:
        """In a fixed order."""
        return iter(self.items)


@dataclass(frozen=True, slots=True)
class Beginnings:
    """How much is made of a corpus: of `count` recordings the first `samples` or more, in as many voices as can be."""

    count: int
    samples: int

    def places(self, groups: Sequence[str]) -> list[int]:
        """Which recordings of a corpus with these groups, in the corpus's order."""
        return sorted(by_turns(groups)[: self.count])


def by_turns(groups: Sequence[str]) -> list[int]:
    """Places, the first of every group before the second of any."""
    seen: Counter[str] = Counter()
    turns = []
    for place, group in enumerate(groups):
        turns.append((seen[group], place))
        seen[group] += 1
    return [place for _, place in sorted(turns)]
