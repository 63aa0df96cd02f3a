"""A transcript as subtitle cues, by the usual rules for them (BBC and Netflix subtitle guides).

A cue has at most two lines of 42 characters (`SubtitleOptions` changes that) and stays for 1 to 7 seconds. It ends at
the end of a sentence or at a pause where it can, else between two phrases, also in scripts without spaces (`phrases`).
Cues follow each other and never overlap; every word is in one of them. Where to break is a shortest path: each cue has
a cost, and the cheapest way through all words is taken, as TeX does with lines (Knuth & Plass 1981).

Pure: knows nothing of file formats. Time is in samples. `server/web/subtitles.js` is the same for the page, with lines
of 42 characters and words that always come in order; a test compares what the two write.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import accumulate, pairwise

from whispertide.formats.document import Document, Limits, is_inseparable, segment_words
from whispertide.formats.phrases import starts
from whispertide.options import SubtitleOptions
from whispertide.punctuation import (
    CHINESE_OR_JAPANESE,
    CLAUSE_ENDS,
    CLOSING,
    SENTENCE_ENDS,
    belong_together,
    is_abbreviation,
)
from whispertide.types import SAMPLE_RATE, Word, seconds

SUBTITLES = SubtitleOptions()
SHORTEST, LONGEST = SAMPLE_RATE, 7 * SAMPLE_RATE
# Only words without times of their own leave less room than this: then the next cue comes that much later.
_LEAST = SAMPLE_RATE // 10
_BREATH = 3 * SAMPLE_RATE // 10  # a gap between words that tells phrases apart
_PHRASES = Limits(chars=10**9, span=10**12)  # cut at sentence ends and pauses alone

# Characters of Chinese, Japanese and Korean, and pictures.
_WIDE = re.compile(
    "[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff60\uffe0-\uffe6"
    "\U0001f300-\U0001faff\U00020000-\U0003fffd]"
)

# A character of a script without spaces (Thai, Lao, Burmese, Khmer, Japanese, Chinese), or a piece of anything else.
_UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u312f\u3400-\u9fff\uf900-\ufaff\uff01-\uff9d\U00020000-\U0003fffd"
)
_PIECES = re.compile(f"[{_UNSPACED_SCRIPTS}]|[^{_UNSPACED_SCRIPTS}]+")

_ENDS = (*CLAUSE_ENDS, *SENTENCE_ENDS)
_NOT_FIRST = (*_ENDS, *CLOSING)  # in a line

# What a break costs. The unit is that of a break at a comma.
_AT_COMMA, _AT_BREATH, _ANYWHERE = 1.0, 1.5, 4.0
_AFTER_SHORT_WORD = 3.0  # "of", "the", "und", "Dr.": they belong to what follows
_IN_PHRASE, _IN_WORD = 6.0, 50.0  # in scripts without spaces; of lines as well: only where there is no room
_TWO_PHRASES = 3.0  # in one cue; as much again for each second of silence between them
_TOO_SHORT = 8.0  # for a cue that flashes by, less the nearer it is to a second
_UNSPACED = "\u0e00"  # from here on there are scripts without spaces: Thai, Lao, Khmer, Chinese, Japanese


@dataclass(frozen=True, slots=True)
class Cue:
    """A text of one or two lines that is shown from `start` to `end`, in samples; `speaker` is its voice's number."""

    start: int
    end: int
    text: str
    speaker: int | None = None


@dataclass(frozen=True, slots=True)
class _Unit:
    """A piece that is never broken: a word, or several that nothing separates. `sized`: its times are known.

    `closes` where a sentence ends or a pause follows. `torn` is what a break before it costs besides, where it does not
    begin a phrase, or not even a word. `label` is what is written before it: whose voice it is.
    """

    text: str
    spaced: bool
    start: int
    end: int
    closes: bool = False
    torn: float = 0.0
    speaker: int | None = None
    label: str = ""

    @property
    def shown(self) -> str:
        return self.label + self.text

    @property
    def sized(self) -> bool:
        return self.end > self.start

    @property
    def is_short(self) -> bool:
        short = len(self.text) <= 3 and self.text[-1].isalpha() and self.text[-1] < _UNSPACED
        return short or is_abbreviation(self.text)

    @property
    def ends_clause(self) -> bool:
        return self.text.rstrip(CLOSING + " ").endswith(_ENDS) and not is_abbreviation(self.text)


def cues(
    document: Document,
    clean: Callable[[str], str] = str,
    options: SubtitleOptions = SUBTITLES,
    label: Callable[[int | None], str] = lambda _: "",
) -> list[Cue]:
    """Make the cues of a transcript; `clean` removes from a text what its file format cannot hold, `label` is what that
    shows before the text of a voice where the voice changes.

    A segment without words that fits stays as it is: cues that were read from a file are the same cues again. No cue
    has the words of two voices.
    """
    found: list[Sequence[_Unit]] = []
    run: list[_Unit] = []

    def labelled(units: Sequence[_Unit]) -> Sequence[_Unit]:
        return _labelled(units, label, found[-1] if found else ())

    for segment in document.segments:
        if run and run[-1].speaker != segment.speaker:
            found += _cut(labelled(run), options)
            run = []
        if segment.words:
            for phrase in segment_words(segment.words, _PHRASES):
                run += _units(phrase.words, clean, document.language, run[-1].text if run else "")
            continue
        found += _cut(labelled(run), options)
        run = []
        whole = Word(segment.text, segment.start, segment.end, speaker=segment.speaker)
        alone = labelled(_units(_line_pieces(whole, options), clean, document.language))
        found += [alone] if alone and _stays(alone, options) else _cut(alone, options)
    found += _cut(labelled(run), options)
    return _time_cues(list(_labelled_again(_by_time(found), label, options)), options)


def _by_time(found: Sequence[Sequence[_Unit]]) -> list[Sequence[_Unit]]:
    """Cues of voices that speak at once in the order in which they begin; those of one voice stay in theirs."""
    voices: dict[int | None, list[Sequence[_Unit]]] = {}
    for units in found:
        voices.setdefault(units[0].speaker, []).append(units)
    return list(merge(*voices.values(), key=_start))


def _labelled(units: Sequence[_Unit], label: Callable[[int | None], str], before: Sequence[_Unit]) -> Sequence[_Unit]:
    """Label the voice of units that come after those `before`, if it is another one."""
    if not units:
        return units
    first = units[0]
    changes = not before or before[-1].speaker != first.speaker
    return [replace(first, label=label(first.speaker) if changes else ""), *units[1:]]


def _labelled_again(
    found: Sequence[Sequence[_Unit]], label: Callable[[int | None], str], options: SubtitleOptions
) -> Iterator[Sequence[_Unit]]:
    """Label voices where they change now that cues are in the order of their times: one that goes on after another has
    interrupted it has a label more, for which it may have to be cut.
    """
    before: Sequence[_Unit] = ()
    for units in found:
        units = _labelled(units, label, before)
        yield from [units] if _break(units, options) is not None else _cut(units, options)
        before = units


# --- words -> units --------------------------------------------------------------------------------------------------


def _units(
    words: Sequence[Word], clean: Callable[[str], str], language: str | None, preceding: str = ""
) -> list[_Unit]:
    """Group the words of one phrase, which follows the text `preceding`, so that no line breaks between inseparable
    ones.
    """
    units: list[_Unit] = []
    for part in _parts(words, preceding):
        if units and not _may_break(units[-1], part):
            before = units.pop()
            sized = [unit for unit in (before, part) if unit.sized] or [before]
            joined = _Unit(_join((before, part)), before.spaced, sized[0].start, sized[-1].end)
            units.append(replace(joined, speaker=before.speaker))
        else:
            units.append(part)
    cleaned = [replace(unit, text=text) for unit in _mark_breaks(units, language) if (text := clean(unit.text))]
    if cleaned:
        cleaned[-1] = replace(cleaned[-1], closes=True)
    return cleaned


def _line_pieces(whole: Word, options: SubtitleOptions) -> list[Word]:
    """A text whose words nobody knows, by character where it has no spaces and does not fit into lines as it is; the
    time is shared out.
    """
    if all(_width_of(piece) <= options.line_width for piece in whole.text.split()):
        return [whole]
    pieces = _PIECES.findall(whole.text)
    ends = accumulate(map(len, pieces), initial=0)
    times = [whole.start + (whole.end - whole.start) * end // len(whole.text) for end in ends]
    return [Word(piece, *span, speaker=whole.speaker) for piece, span in zip(pieces, pairwise(times), strict=True)]


def _mark_breaks(units: Sequence[_Unit], language: str | None) -> list[_Unit]:
    """Add the cost of a break before each unit that does not begin a phrase or word."""
    marked: list[_Unit] = []
    first = 0
    while first < len(units):  # from space to space
        last = next((n for n in range(first + 1, len(units)) if units[n].spaced), len(units))
        stretch = units[first:last]
        found = starts("".join(unit.text for unit in stretch), language) if len(stretch) > 1 else ()
        for unit, at in zip(stretch, accumulate((len(unit.text) for unit in stretch), initial=0), strict=False):
            known = [number for number, offsets in enumerate(found) if at in offsets]
            torn = 0.0 if not at or not found or 0 in known else _IN_PHRASE if known else _IN_WORD
            marked.append(replace(unit, torn=torn))
        first = last
    return marked


def _parts(words: Sequence[Word], preceding: str) -> Iterator[_Unit]:
    """Split words at white space in them, and strip it around them; the time is shared out."""
    # Phrases are parted by a space also where nobody wrote one, but not in Chinese and Japanese.
    spaced = not (CHINESE_OR_JAPANESE.match(preceding[::-1]) and CHINESE_OR_JAPANESE.match(words[0].text))
    for word in words:
        pieces = word.text.split()
        spaced = spaced or word.text[:1].isspace()
        ends = [0, *accumulate(len(piece) for piece in pieces)]
        length = max(word.end - word.start, 0)
        for piece, (first, last) in zip(pieces, pairwise(ends), strict=True):
            start, end = (word.start + length * at // ends[-1] for at in (first, last))
            yield _Unit(piece, spaced, start, end, speaker=word.speaker)
            spaced = True
        spaced = word.text[-1:].isspace() or (spaced and not pieces)


def _may_break(before: _Unit, after: _Unit) -> bool:
    """True if a line may end between two words: at a space, with few exceptions, or where a script has none."""
    if after.spaced:
        return not belong_together(before.text, after.text)
    unspaced = before.text[-1] >= _UNSPACED and after.text[0] >= _UNSPACED
    return unspaced and after.text[0] not in _NOT_FIRST and not is_inseparable(before.text, after.text)


def _width_of(text: str) -> int:
    """The width of a text on the screen, in characters of the Latin alphabet: Chinese ones are as wide as two."""
    if text.isascii():
        return len(text)
    none = ("Mn", "Me", "Cf")  # marks on a character, and what joins several
    return sum(0 if unicodedata.category(char) in none else 1 + bool(_WIDE.match(char)) for char in text)


def _join(units: Sequence[_Unit]) -> str:
    return "".join(" " * (unit.spaced and number > 0) + unit.shown for number, unit in enumerate(units))


# --- units -> cues ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """Units that follow each other; `edges[n]` is how wide the first n are, each with the space before it."""

    units: Sequence[_Unit]
    edges: Sequence[int]
    options: SubtitleOptions

    @classmethod
    def of(cls, units: Sequence[_Unit], options: SubtitleOptions) -> "_Run":
        return cls(units, [0, *accumulate(_width_of(unit.shown) + unit.spaced for unit in units)], options)

    def width(self, first: int, last: int) -> int:
        """The width of the line of `units[first:last]`, which is not empty."""
        return self.edges[last] - self.edges[first] - self.units[first].spaced

    def fits(self, first: int, last: int) -> bool:
        """True if `units[first:last]` fit into a line."""
        return self.width(first, last) <= self.options.line_width


def _cut(units: Sequence[_Unit], options: SubtitleOptions) -> list[Sequence[_Unit]]:
    """Cut `units` into cues in the cheapest way: `best[n]` is that of the first n."""
    run = _Run.of(units, options)
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end in range(1, len(units) + 1):
        best.append(min((best[start][0] + _cost(run, start, end), start) for start in _starts(run, end)))
    cut: list[Sequence[_Unit]] = []
    end = len(units)
    while end:
        start = best[end][1]
        cut.append(units[start:end])
        end = start
    return cut[::-1]


def _starts(run: _Run, end: int) -> Iterator[int]:
    """The possible first units of a cue that ends before unit `end`, so that it fits."""
    yield end - 1
    line = end - 1  # where its last line starts: as early as that fits, so that the first has most room
    if not run.fits(line, end):
        return
    for start in range(end - 2, -1, -1):
        if line == start + 1 and run.fits(start, end):
            line = start
        cue = run.units[start:end]
        has_room = line == start or (run.options.lines > 1 and run.fits(start, line))
        if not has_room or _end(cue) - _start(cue) > LONGEST:
            return
        yield start


def _cost(run: _Run, start: int, end: int) -> float:
    """The cost of the cue of `units[start:end]`: its end, the phrases that it joins, its haste, and its empty room."""
    units, cue, last = run.units, run.units[start:end], run.units[end - 1]
    empty = 1 - min(1.0, run.width(start, end) / (run.options.lines * run.options.line_width))
    cost = empty * empty + _tear(run, start, end)
    for unit, after in pairwise(cue):
        if unit.closes:
            cost += _TWO_PHRASES * (1 + seconds(max(0, after.start - unit.end)))
    if end == len(units):
        return cost
    cost += units[end].torn
    if not last.closes:
        breath = last.sized and units[end].sized and units[end].start - last.end >= _BREATH
        anywhere = _ANYWHERE + _AFTER_SHORT_WORD * last.is_short
        cost += _AT_COMMA if last.ends_clause else _AT_BREATH if breath else anywhere
    shown = _start(units, end) - _start(cue)
    return cost + _TOO_SHORT * (1 - min(SHORTEST, max(0, shown)) / SHORTEST)


def _tear(run: _Run, start: int, end: int) -> float:
    """The cost if the lines of the cue of `units[start:end]` can only be broken in a phrase or word."""
    if run.fits(start, end) or not any(unit.torn for unit in run.units[start:end]):
        return 0.0
    parted = (run.units[at].torn for at in range(start + 1, end) if run.fits(start, at) and run.fits(at, end))
    return min(parted, default=0.0)


def _start(units: Sequence[_Unit], first: int = 0) -> int:
    """The start of a cue: of its first word whose time is known, as one without length may lie anywhere before."""
    return next((units[number].start for number in range(first, len(units)) if units[number].sized), units[first].start)


def _end(units: Sequence[_Unit]) -> int:
    return max(unit.end for unit in units)


# --- cues on the screen ----------------------------------------------------------------------------------------------


def _stays(units: Sequence[_Unit], options: SubtitleOptions) -> bool:
    """True if all units fit into one cue without a line that ends in a word."""
    at = _break(units, options)
    return at is not None and (at == len(units) or units[at].torn < _IN_WORD)


def _break(units: Sequence[_Unit], options: SubtitleOptions) -> int | None:
    """The first unit of the second line of a cue (its length: there is none); None if it does not fit."""
    run, count = _Run.of(units, options), len(units)
    if count == 1 or run.fits(0, count):
        return count
    choices = []
    for at in range(1, count if options.lines > 1 else 1):
        if run.fits(0, at) and run.fits(at, count):
            last = units[at - 1]
            uneven = abs(run.width(0, at) - run.width(at, count)) / 20
            clumsy = (not last.ends_clause) + 1.5 * last.is_short + units[at].torn
            choices.append((uneven + clumsy, at))
    return min(choices)[1] if choices else None


def _time_cues(found: Sequence[Sequence[_Unit]], options: SubtitleOptions) -> list[Cue]:
    """Give cues their lines and times: each stays for a second at least, unless the next one comes sooner."""
    starts = _in_order([_start(units) for units in found])
    cues = []
    for units, start, after in zip(found, starts, [*starts, None][1:], strict=True):
        end = min(max(_end(units), start + SHORTEST), start + LONGEST)
        at = _break(units, options) or len(units)
        text = "\n".join(_join(line) for line in (units[:at], units[at:]) if line)
        cues.append(Cue(start, end if after is None else min(end, after), text, units[0].speaker))
    return cues


def _in_order(starts: Sequence[int]) -> list[int]:
    """Move starts so that each comes after the one before it. One that lies after both that follow it is misplaced: it
    comes with the next one, or it would push back all that follow.
    """
    ordered: list[int] = []
    for number, start in enumerate(starts):
        after = starts[number + 1 : number + 3]
        placed = after[0] if after and start > max(after) else start
        ordered.append(max(placed, ordered[-1] + _LEAST if ordered else 0))
    return ordered
