"""What a viewer had before their eyes, view by view, in written words.

A recogniser shows pieces of text: its confirmed ones are final, the rest is a guess. Here pieces become words between
spaces (" well" and "-known" are one), or letters where a language has no spaces. Words get a key by which two spellings
of a word are the same, and what was shown at the same moment is one view, because nobody can see what stood for no
time.

How a text is put together: if any piece begins with a space, pieces carry their own spaces; else each piece is a word.
Knows nothing of references.
"""

from bisect import bisect_right
from dataclasses import dataclass

from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.evaluation.wer import find_words, normalise_word, split_words


@dataclass(frozen=True, slots=True)
class View:
    """What stands there from `at_s` on: the first `fixed` words of the final text, and the keys of what follows.

    Words without a key (pure punctuation, "um") are not in `tail`.
    """

    at_s: float
    fixed: int
    tail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Viewing:
    """All that was seen of one trace. `keys[i]` belongs to `words[i]`, the words of the final text."""

    words: tuple[str, ...]
    keys: tuple[str, ...]
    views: tuple[View, ...]

    @property
    def end_s(self) -> float:
        """When the last view began; 0 if nothing was ever shown."""
        return self.views[-1].at_s if self.views else 0.0

    def keyed(self, start: int, end: int | None = None) -> list[int]:
        """Indices of the final words from `start` on (and before `end`) that have a key."""
        return [index for index in range(start, len(self.keys) if end is None else end) if self.keys[index]]


def look(trace: Trace, language: str = "en") -> Viewing:
    """The views of a trace; words are compared as `language` normalises them. See `Viewing`."""
    joiner = joiner_of(trace)
    text = joiner.join(trace.words)
    words = find_words(text, language)
    ends = [word.end() for word in words]
    views: list[View] = []
    written = 0  # letters of the final text that are confirmed
    for shown in trace.shown:
        written += sum(len(piece) + len(joiner) for piece in shown.confirmed)
        fixed = bisect_right(ends, written - len(joiner))  # a word that later letters were glued to does not count
        begun = text[words[fixed].start() : written] if fixed < len(words) else ""
        view = View(shown.at_s, fixed, _keys(begun + joiner.join(shown.hypothesis), language))
        if views and views[-1].at_s == view.at_s:
            views.pop()
        views.append(view)
    found = tuple(word.group() for word in words)
    return Viewing(found, tuple(normalise_word(word, language) for word in found), tuple(views))


def joiner_of(trace: Trace) -> str:
    """What stands between two pieces of a trace: nothing, if they carry their own spaces, else a space."""
    spaced = any(piece[:1].isspace() for shown in trace.shown for piece in (*shown.confirmed, *shown.hypothesis))
    return "" if spaced else " "


def _keys(text: str, language: str) -> tuple[str, ...]:
    return tuple(key for word in split_words(text, language) if (key := normalise_word(word, language)))
