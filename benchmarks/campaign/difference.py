"""What became of the words: said, and confirmed to the client."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True)
class Difference:
    """Words that are missing, that nobody said or that are out of place, and that are there more than once."""

    lost: int = 0
    changed: int = 0
    repeated: int = 0

    def __add__(self, other: "Difference") -> "Difference":
        return Difference(self.lost + other.lost, self.changed + other.changed, self.repeated + other.repeated)


def difference(said: Sequence[str], heard: Sequence[str]) -> Difference:
    """For words that are all different, as those of the model that knows its words: each is accounted for."""
    place = {word: index for index, word in enumerate(said)}
    counted = Counter(heard)
    order = [place[word] for word in dict.fromkeys(heard) if word in place]
    return Difference(
        lost=len(place.keys() - counted.keys()),
        changed=sum(count for word, count in counted.items() if word not in place) + len(order) - _longest_rise(order),
        repeated=sum(count - 1 for word, count in counted.items() if word in place),
    )


def _longest_rise(numbers: Sequence[int]) -> int:
    """How many of the numbers are in order, at most."""
    least: list[int] = []  # the smallest end of a rise of each length
    for number in numbers:
        at = bisect_left(least, number)
        least[at : at + 1] = [number]
    return len(least)


def other_words(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words of `one` are not in their place in `other`: for speech, where words come again."""
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return len(one) - sum(block.size for block in blocks)
