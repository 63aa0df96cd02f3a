"""Removes copies of words: those found again in audio in which the same words were found before.

A decoder that has lost its place begins anew, most often with the sentence that it has just written, and its times
betray nothing: they only ever go on, so that the copy is squeezed into whatever audio is left. Its attention does: the
words of a copy attend to where the same words attended the first time. Who speaks a sentence twice makes new sound, and
the second attends to that.

Guards of attention (`decoding.guards`) see this while they decode, but must let small jumps pass, which are common
where windows are not padded. Here the text shows which jumps are copies. Ours.
"""

from collections.abc import Sequence
from dataclasses import replace

from whispertide.decoding.token_words import TokenWord
from whispertide.methods.attention.listening import HeardWords
from whispertide.streaming import repetition
from whispertide.streaming.repetition import LOOP_LIKE, normalise, runs
from whispertide.types import SAMPLE_RATE

LEAST = 2  # words of a copy: a single one may be said twice within the time that attention can tell apart
# So near to each other two words attend to the same sound; people say no two equal ones so fast.
NEAR = SAMPLE_RATE // 5
STEP = SAMPLE_RATE // 8  # "no no no" comes up to eight times a second


def without_copies(said: Sequence[TokenWord], heard: HeardWords) -> HeardWords:
    """The transcript without copies of the words before it or in itself."""
    kept = said_once(said, heard.words)
    return replace(heard, words=tuple(heard.words[at] for at in kept), firm=sum(at < heard.firm for at in kept))


def said_once(said: Sequence[TokenWord], words: Sequence[TokenWord]) -> list[int]:
    """The numbers of those of `words` that are no copies of what stands before them, be it in `said` or in `words`.

    A copy is a phrase most of whose words attend to where its first saying did, and with it, or by themselves where
    they differ, words in a row that each attend to where an equal one did. Without attention nothing is a copy.
    """
    everything = [*said, *words]
    keys = [normalise(word.word.text) for word in everything]
    phrases = _phrases(everything, keys, len(said))
    kept: list[int] = []
    run: list[int] = []  # words in a row that may be a copy
    for at in range(len(said), len(everything)):
        if at in phrases or _is_echo(everything, keys, at):
            run.append(at)
            continue
        kept += [*_left(run, phrases, keys), at]
        run = []
    kept += _left(run, phrases, keys)
    return [at - len(said) for at in kept]


def without_loops(said: Sequence[TokenWord], words: Sequence[TokenWord]) -> list[TokenWord]:
    """`words` without the copies in loops that were not said: those that attend to no sound after the copy before them.

    How often a word is said tells nothing: ten times "seven" may be a telephone number. A loop stays in its place. The
    second copy stands, since attention is not that exact. Without attention copies are counted.
    """
    everything = [*said, *words]
    places = [word.attended for word in everything if word.attended is not None]
    if len(places) < len(everything):
        return repetition.without_loops([one.word for one in said], words)
    dropped: set[int] = set()
    for run in runs([normalise(word.word.text) for word in everything]):
        newest: dict[int, int] = {}  # by the place in the phrase
        for at in range(run.start, run.end if run.copies >= LOOP_LIKE else run.start):
            word = (at - run.start) % run.phrase
            if at - run.start >= 2 * run.phrase and places[at] - newest[word] < STEP:
                dropped.add(at)
            else:
                newest[word] = places[at]
    return [word for at, word in enumerate(words, start=len(said)) if at not in dropped]


def _left(run: list[int], phrases: set[int], keys: Sequence[str]) -> list[int]:
    """The rest of words in a row that may be a copy: none if they are, else all. "No, no" may be spoken so fast."""
    is_copy = any(at in phrases for at in run) or len({keys[at] for at in run}) >= LEAST
    return [] if is_copy else run


def _is_echo(words: Sequence[TokenWord], keys: Sequence[str], at: int) -> bool:
    """True if an equal word was found before in the same audio."""
    return any(keys[before] == keys[at] and _same_audio(words[before], words[at]) for before in range(at))


def _phrases(words: Sequence[TokenWord], keys: Sequence[str], begin: int) -> set[int]:
    """The numbers of the words from `begin` on that are in a copied phrase."""
    found: set[int] = set()
    at = begin
    while at < len(words):
        copied = max((_copied(words, keys, first, at) for first in range(at)), default=0)
        found.update(range(at, at + copied))
        at += max(copied, 1)
    return found


def _copied(words: Sequence[TokenWord], keys: Sequence[str], first: int, second: int) -> int:
    """The number of words from `second` on that repeat those from `first` on, most of them in the same audio."""
    count = 0
    while second + count < len(keys) and first + count < second and keys[first + count] == keys[second + count]:
        count += 1
    again = sum(_same_audio(words[first + at], words[second + at]) for at in range(count))
    return count if count >= LEAST and 2 * again > count else 0


def _same_audio(one: TokenWord, other: TokenWord) -> bool:
    return one.attended is not None and other.attended is not None and abs(one.attended - other.attended) <= NEAR
