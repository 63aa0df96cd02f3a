"""The boundary before a round's new words: after those that were confirmed before and are found again.

Every round decodes the audio of confirmed words again, with slightly other times and sometimes other words. Two ways
to tell old from new: `fresh_by_time` is whisper_streaming's, `first_fresh` an alignment of words and times together,
which also gets "no, no, no" right. Knows words and times only.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from whispertide.types import SAMPLE_RATE, Word

Key = Callable[[str], str]

TOLERANCE = SAMPLE_RATE // 10  # word times of two rounds differ by about that much
_NEARBY = SAMPLE_RATE  # repeated words are looked for when the new ones begin within a second of the confirmed end
_MAX_NGRAM = 5

TAIL = 24  # confirmed words that are aligned
_MISPLACED = 0.9  # for a word on the wrong side of the confirmed end; less than 1, so that text outweighs time


def fresh_by_time(heard: Sequence[Word], confirmed: Sequence[Word], last_time: int, key: Key) -> tuple[Word, ...]:
    """The new words by the rule of whisper_streaming (`HypothesisBuffer.insert`).

    Words that begin more than 0.1 s before `last_time`, the end of the confirmed words, are old. If the first new one
    begins within a second of it, up to five words that repeat the last confirmed ones are old too; the shortest such
    repetition counts.
    """
    fresh = [word for word in heard if word.start > last_time - TOLERANCE]
    if not fresh or abs(fresh[0].start - last_time) >= _NEARBY:
        return tuple(fresh)
    for n in range(1, min(_MAX_NGRAM, len(confirmed), len(fresh)) + 1):
        if [key(word.text) for word in confirmed[-n:]] == [key(word.text) for word in fresh[:n]]:
            return tuple(fresh[n:])
    return tuple(fresh)


def first_fresh(
    heard: Sequence[Word], confirmed: Sequence[Word], *, window_start: int, last_time: int, key: Key
) -> int:
    """The number of the `heard` words that are `confirmed` ones found again; the rest is new.

    `confirmed` are the confirmed words whose audio is in the window. The split is where the edit distance between
    them and the words before the split, plus a cost for words on the wrong side of `last_time`, is least. What the
    edits cost is weighed in `_replacement`, `_omission` and `_insertion`.
    """
    confirmed = confirmed[-TAIL:]
    if not confirmed:
        return 0
    edits = _edits(heard, confirmed, window_start, last_time, key)
    if_old = accumulate((_late(word, last_time) for word in heard), initial=0.0)
    if_new = accumulate((_early(word, last_time) for word in heard), initial=0.0)  # saved by taking them for old
    totals = [edit + late - saved for edit, late, saved in zip(edits, if_old, if_new, strict=True)]
    # Where words and times leave it open, the original's rule decides.
    by_time = sum(word.start <= last_time - TOLERANCE for word in heard)
    return min(range(len(totals)), key=lambda k: (totals[k], abs(k - by_time)))


def _late(word: Word, last_time: int) -> float:
    """The cost of taking `word` for old, because of when it begins."""
    return _MISPLACED * min(max(word.start - last_time - TOLERANCE, 0) / TOLERANCE, 1.0)


def _early(word: Word, last_time: int) -> float:
    """The cost of taking `word` for new, because of when it begins and how much of it lies in confirmed audio."""
    begins = _MISPLACED * min(max(last_time - TOLERANCE - word.start, 0) / TOLERANCE, 1.0)
    return max(begins, 0.4 * _share_before(word, last_time))


def _share_before(word: Word, time: int) -> float:
    """The share of `word` that lies before `time`, 0 to 1."""
    return min(max((time - word.start) / max(word.end - word.start, 1), 0.0), 1.0)


def _edits(
    heard: Sequence[Word], confirmed: Sequence[Word], window_start: int, last_time: int, key: Key
) -> list[float]:
    """[k] = the least cost of turning all of `confirmed` into the first k words of `heard`."""
    same = [key(word.text) for word in heard]
    insertions = [_insertion(word, confirmed[0].start, last_time) for word in heard]
    # The usual edit distance, row by row: row k is that of the first k confirmed words to each beginning of `heard`.
    row = list(accumulate(insertions, initial=0.0))
    for old in confirmed:
        old_key, omission = key(old.text), _omission(old, window_start)
        above, row = row, [row[0] + omission]
        for j, word in enumerate(heard):
            replaced = above[j] + _replacement(old, word, same=same[j] == old_key)
            row.append(min(replaced, above[j + 1] + omission, row[j] + insertions[j]))
    return row


def _replacement(old: Word, word: Word, *, same: bool) -> float:
    """The same word elsewhere is perhaps another one; another word in the same place is perhaps the same misheard."""
    if same:
        return min(abs(word.start + word.end - old.start - old.end) / SAMPLE_RATE, 0.5)
    shared = min(old.end, word.end) - max(old.start, word.start)
    shorter = max(min(old.end - old.start, word.end - word.start), 1)
    return 2.0 - 1.5 * min(max(shared / shorter, 0.0), 1.0)


def _omission(old: Word, window_start: int) -> float:
    """A word that the window's start may have cut is often not heard again."""
    return 0.2 if old.start < window_start + TOLERANCE else 1.0


def _insertion(word: Word, oldest: int, last_time: int) -> float:
    """Words before the first that is aligned are older still. Others cost less, the more they lie in confirmed
    audio.
    """
    if word.end <= oldest + TOLERANCE:
        return 0.0
    return 1.0 - 0.7 * _share_before(word, last_time)
