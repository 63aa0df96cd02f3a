"""How a text is written: case and punctuation against another text of the same words.

Word errors do not see a sentence that is broken in the middle ("my fellow Americans. Ask not"), a full stop that is
missing or a capital in the wrong place; a reader does. So what is heard live is held against what the same weights
write offline. The words of both are aligned. Those that have the same letters are compared, the others are word errors
and do not count here: one error where the case of letters differs, another where the marks before or after the word do.
A mark that stands alone between spaces is not seen.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from whispertide_lab.evaluation.wer import equal_pairs

_PARTS = re.compile(r"^([^\w]*)(.*?)([^\w]*)$", re.DOTALL)
_ALIKE = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "..."})


@dataclass(frozen=True, slots=True)
class WritingErrors:
    """Of `compared` words of a text, those whose case differs, and those whose punctuation does."""

    compared: int = 0
    case: int = 0
    punctuation: int = 0

    def __add__(self, other: "WritingErrors") -> "WritingErrors":
        return WritingErrors(
            self.compared + other.compared, self.case + other.case, self.punctuation + other.punctuation
        )

    @property
    def per_100(self) -> float:
        """Errors of both kinds per 100 words that both texts have."""
        return 100 * (self.case + self.punctuation) / max(1, self.compared)


def writing_errors(reference: Sequence[str], heard: Sequence[str]) -> WritingErrors:
    """Those of the written words `heard`, against the written words `reference`. Either may be empty."""
    ours, theirs = ([parts for word in words if (parts := _parts(word))[1]] for words in (reference, heard))
    pairs = list(equal_pairs(*([letters.casefold() for _, letters, _ in words] for words in (ours, theirs))))
    return WritingErrors(
        compared=len(pairs),
        case=sum(ours[at][1] != theirs[found][1] for at, found in pairs),
        punctuation=sum(ours[at][::2] != theirs[found][::2] for at, found in pairs),
    )


def _parts(word: str) -> tuple[str, str, str]:
    """The marks before a word, its letters with what stands between them, and the marks after it."""
    found = _PARTS.match(word.translate(_ALIKE))
    assert found is not None, "any text has three such parts"
    before, letters, after = found.groups()
    return before, letters, after
