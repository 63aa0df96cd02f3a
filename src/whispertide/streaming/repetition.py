"""Words that a policy must not confirm yet, or not at all: loops, words that more audio may still change, and
stretches of unlikely words.

The guard against loops cuts down words that repeat as only a decoder in a loop repeats them.

Whisper in silence or noise writes the same again and again; two rounds agree on it, and fed back as prompt it never
ends. People repeat themselves too ("no no no", "very very good"), but in human time and not without end. So this guard
looks at how often *and* how fast. With a guess, which is there for a moment, it is stricter.

With little audio after it the decoder guesses (lab/log): so an improbable word near the end `waits`.

In noise a model writes sentences that nobody spoke. A single unlikely word is often right, above all one that is said
alone or begins a sentence; of several in a row that are unlikely on average few are, and the likely ones among them
("of", "as") are as wrong as the others. What tells noise are the words themselves: where audio is clear, a stretch of
unlikely words is most often a name or a mistake in a word or two, and nothing is left out. Ours; what that costs and
gains is in lab/log. All of this sees words and their times, no tokens and no audio.
"""

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar

from whispertide.types import SAMPLE_RATE, Word

MAX_PHRASE = 12  # words in the longest phrase whose repetition is noticed
MAX_RATE = 10.0  # words per second; conversation has 2 to 4, the fastest speakers 6, "no no no no" up to 8
_MIN_WORD = SAMPLE_RATE // 20  # 50 ms: a copy whose words are shorter than that on average was not spoken
LOOP_LIKE = 3  # copies in a row that are no prompt, and in a guess are shown once, plausible or not
CONTEXT = 64  # confirmed words in front of the new ones that a loop may have begun in
BEFORE = 12  # words before one that tell whether it is noisy: if they and it are less likely than
NOISY = 0.5  # on average
NEAR = 2  # words before one and after it that say with it whether it was said
_LEAST = 3  # fewer, with itself, tell nothing
_IMPOSSIBLE = 1e-3  # one word alone does not decide about its neighbours


@lru_cache(maxsize=1024)  # a round compares every word of its window again; a stream has ever new ones
def normalise(text: str) -> str:
    """The part of a word that counts in comparisons: letters, digits and marks, without case or width."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Marks count: the vowel signs of many scripts are marks, and words that differ in nothing else are different words.
    return "".join(c for c in folded if c.isalnum() or unicodedata.category(c).startswith("M"))


def _most_copies(phrase: int) -> int:
    """The most times that people say a phrase of that many words in a row."""
    if phrase == 1:
        return 6
    return 4 if phrase <= 3 else 3


@dataclass(frozen=True, slots=True)
class Run:
    """`copies` of `phrase` words in a row, from word `start` on; `end` is after them and a last, broken copy."""

    start: int
    phrase: int
    copies: int
    end: int


@dataclass(frozen=True, slots=True)
class Guarded:
    """The `words` that may go on.

    `suspect` says of each of them, and `suspect_context` of each word of the context (its last `CONTEXT`), whether it
    must not become prompt: somebody may have said it, but a decoder that is shown a loop goes on with it.
    """

    words: tuple[Word, ...]
    suspect: tuple[bool, ...]
    suspect_context: tuple[bool, ...] = ()


def cut_loops(
    context: Sequence[Word], words: Sequence[Word], key: Callable[[str], str], *, guess: bool = False
) -> Guarded:
    """`words` without the surplus copies of loops; the loops may have begun in `context`, the words before them.

    `key` maps a word's text to what is compared. Of a `guess` one copy is left of whatever looks like a loop: if the
    speaker did repeat it, the words come when they are confirmed.
    """
    context = context[-CONTEXT:]
    everything = [*context, *words]
    dropped: set[int] = set()
    suspect: set[int] = set()
    for run in runs([key(word.text) for word in everything]):
        begun = -(-(run.end - run.start) // run.phrase)  # copies, and the broken one after them
        allowed = 1 if guess and begun >= LOOP_LIKE else _plausible_copies(everything, run)
        if allowed < run.copies:
            dropped.update(range(run.start + allowed * run.phrase, run.end))
        if allowed < run.copies or run.copies >= LOOP_LIKE:
            suspect.update(range(run.start, run.end))
    kept = [i for i in range(len(context), len(everything)) if i not in dropped]
    return Guarded(
        tuple(everything[i] for i in kept),
        tuple(i in suspect for i in kept),
        tuple(i in suspect for i in range(len(context))),
    )


class Worded(Protocol):
    """Something that is a word, and more."""

    @property
    def word(self) -> Word:
        """The word."""


W = TypeVar("W", bound=Worded)


def without_loops(said: Sequence[Word], words: Sequence[W]) -> list[W]:
    """Those of `words` that may be confirmed after what was `said`: without the surplus copies of loops."""
    kept = cut_loops(said, [one.word for one in words], normalise).words
    # By identity, since equal words may stand in the text several times.
    ids = {id(word) for word in kept}
    return [one for one in words if id(one.word) in ids]


def _plausible_copies(words: Sequence[Word], run: Run) -> int:
    """The number of copies of the run that somebody may really have spoken: at least one, at most all."""
    # "very very", "I think I think": two copies of so little are no loop, however fast.
    if run.copies == 2 and run.phrase < 3:
        return 2
    copies = [words[run.start + i * run.phrase : run.start + (i + 1) * run.phrase] for i in range(run.copies)]
    spoken = max(copies[-1][-1].end - copies[0][0].start, 1)
    if run.copies * run.phrase * SAMPLE_RATE > MAX_RATE * spoken:
        return 1
    # Word times that a decoder made up pile up in one place, whatever the run as a whole looks like.
    collapsed = sum(copy[-1].end - copy[0].start < run.phrase * _MIN_WORD for copy in copies)
    plausible = run.copies - collapsed if collapsed >= 2 else run.copies
    return max(1, min(plausible, _most_copies(run.phrase)))


def runs(keys: Sequence[str]) -> Iterator[Run]:
    """The repetitions in `keys` from left to right, not overlapping; of several readings the one that covers most."""
    start = 0
    while start < len(keys):
        found = _run_at(keys, start)
        if found is None:
            start += 1
        else:
            yield found
            start = found.end


def _run_at(keys: Sequence[str], start: int) -> Run | None:
    best: Run | None = None
    # A phrase that is repeated is there twice, so it has at most half of the words.
    for phrase in range(1, min(MAX_PHRASE, (len(keys) - start) // 2) + 1):
        same = 0  # words after the first copy that repeat the word one phrase before them
        while start + phrase + same < len(keys) and keys[start + phrase + same] == keys[start + same]:
            same += 1
        if same < phrase:
            continue
        whole = (1 + same // phrase) * phrase
        # A broken copy belongs to the loop only where the words end: in mid-text it may begin something else.
        end = start + (phrase + same if start + phrase + same == len(keys) else whole)
        if best is None or whole > best.phrase * best.copies:
            best = Run(start, phrase, whole // phrase, end)
    return best


def waits(probability: float, at: int, end: int, *, below: float, settle: int) -> bool:
    """True if a word that is spoken up to sample `at` may still change with more audio than up to `end`.

    It may where it is less probable than `below` (0: none is) and lies in the last `settle` samples.
    """
    return probability < below and at > end - settle


def without_unlikely(
    words: Sequence[Word], below: float, *, before: Sequence[float] = (), own: int = 0, after: Sequence[Word] = ()
) -> tuple[Word, ...]:
    """`words` without those in a stretch that is less likely than `below`, where it is noisy.

    The stretch is a word, which counts twice, the two before it and the two after it. Noisy it is where the last words,
    this one included, are less likely than `NOISY`. Both are geometric means. `before` are the probabilities of the
    words before them, the last `own` of which are of the same utterance; `after` are the words that follow.
    """
    if not below:
        return tuple(words)
    known = [*before, *(word.probability for word in (*words, *after))]
    logs = [math.log(max(probability, _IMPOSSIBLE)) for probability in known]
    first = max(len(before) - own, 0)
    return tuple(word for at, word in enumerate(words, start=len(before)) if not _is_unlikely(logs, at, first, below))


def _is_unlikely(logs: Sequence[float], at: int, first: int, below: float) -> bool:
    recent = logs[max(0, at - BEFORE) : at + 1]
    stretch = [*logs[max(first, at - NEAR) : at + NEAR + 1], logs[at]]
    if len(stretch) <= _LEAST or math.fsum(recent) >= math.log(NOISY) * len(recent):
        return False
    return math.fsum(stretch) < math.log(below) * len(stretch)
