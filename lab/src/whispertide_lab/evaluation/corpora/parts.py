"""Parts of a corpus: what fits into a given time, and what is in certain languages. Each is a corpus with its own
hash.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import ceil

from whispertide.errors import CorpusError, OptionError
from whispertide.plural import counted
from whispertide.types import seconds, to_samples
from whispertide_lab.speech.utterance import Beginnings, Corpus, Recordings, Utterance, by_turns

PIECES = 16  # of an excerpt as a rule: so many voices where there are as many
SHORTEST_S = 20.0  # of a piece; the last may be half of that
_SHORTEST_TALK_S = 240.0  # talks are longer than that
_LONGEST_BEGINNING_S = 900.0  # and most are shorter than that
_SPARE = 2  # recordings: pieces end with a word, so that a little is missing of each


class Excerpt:
    """So many seconds of a corpus, in as many voices as there is room for: the beginnings of its utterances.

    Group after group gives one utterance, in the corpus's order, until the time is up. It is cut into `pieces`, as a
    rule, but none is shorter than 20 s, and they are longer where the corpus has too few utterances; each ends after a
    word. An utterance whose words have no times cannot be cut: it is taken whole, or left out.
    """

    def __init__(self, corpus: Corpus, length_s: float, pieces: int = PIECES) -> None:
        if length_s <= 0:
            raise OptionError(f"expected an excerpt of more than 0 s; got {length_s:g}")
        if pieces < 1:
            raise OptionError(f"expected an excerpt in at least 1 piece; got {pieces}")
        self._corpus = corpus
        self.length_s, self.pieces = length_s, pieces
        self._length = to_samples(length_s)
        self.name = f"{corpus.name}-{length_s:g}s" + (f"-in-{pieces}" if pieces != PIECES else "")
        self.hash = _hash(corpus, self._length, pieces, SHORTEST_S)

    def utterances(self) -> Iterator[Utterance]:
        """In the corpus's order. Raises `CorpusError` where nothing fits."""
        every = list(self._corpus.utterances())
        piece = _piece([to_samples(utterance.seconds) for utterance in every], self._length, self.pieces)
        left = self._length
        chosen: dict[int, Utterance] = {}
        for place in by_turns([utterance.group for utterance in every]):
            part = _part(every[place], min(piece, left), left)
            if part is not None and (part is every[place] or not chosen or 2 * part.seconds >= SHORTEST_S):
                chosen[place] = part
                left -= to_samples(part.seconds)
        if not chosen:
            raise CorpusError(
                f"expected utterances of {self._corpus.name} that fit into {seconds(self._length):g} s; there is none, "
                "and those without word times cannot be cut: use a longer excerpt"
            )
        return (chosen[place] for place in sorted(chosen))


def beginnings_for(length_s: float, pieces: int = PIECES) -> Beginnings | None:
    """What must be made for an excerpt of so many seconds; None where that is the whole corpus."""
    piece_s = max(length_s / pieces, SHORTEST_S)
    if length_s <= 0 or piece_s > _LONGEST_BEGINNING_S:
        return None
    # a talk may end before its piece is full; then others have to make up for it
    return Beginnings(ceil(length_s / min(piece_s, _SHORTEST_TALK_S)) + _SPARE, to_samples(piece_s))


def in_languages(corpus: Corpus, languages: Collection[str]) -> Recordings:
    """Those utterances of a corpus that are in one of some languages."""
    names = sorted(set(languages))
    items = tuple(utterance for utterance in corpus.utterances() if utterance.language in names)
    return Recordings(f"{corpus.name}-{'+'.join(names)}", _hash(corpus, *names), items)


def part_of(
    corpus: Corpus, languages: Collection[str], length_s: float | None, pieces: int = PIECES, *, writer: str
) -> tuple[Corpus, list[str]]:
    """What is in some languages, and of that so many seconds (None, or no more than there is: all); and what is left
    out, a line each. `writer` is the name of the model that writes these languages. Raises `CorpusError` where none is.
    """
    left_out: list[str] = []
    every = list(corpus.utterances())
    others = [item.language for item in every if item.language not in languages]
    if others:
        what = f"left out: {counted(len(others), 'recording')} of {corpus.name} in {', '.join(sorted(set(others)))}"
        if len(others) == len(every):
            raise CorpusError(
                f"expected recordings in a language that {writer} writes; all {len(every)} of {corpus.name} are in "
                f"{', '.join(sorted(set(others)))}: use a multilingual model, for example base, or another corpus"
            )
        left_out.append(f"{what}: {writer} does not write that")
        corpus = in_languages(corpus, languages)
        every = list(corpus.items)
    if length_s is None or sum(item.seconds for item in every) <= length_s:
        return corpus, left_out
    whole = [item for item in every if item.seconds > length_s and not _can_be_cut(item)]
    if whole:
        left_out.append(
            f"left out: {counted(len(whole), 'recording')} of {corpus.name} of more than {length_s:g} s, which cannot "
            "be cut without word times; --excerpt all takes everything"
        )
    return Excerpt(corpus, length_s, pieces), left_out


def part_label(corpus: Corpus) -> str:
    """How much of a corpus it is, to stand after its name."""
    if not isinstance(corpus, Excerpt):
        return ""
    return f" {corpus.length_s:g} s" + (f" in {corpus.pieces}" if corpus.pieces != PIECES else "")


def _hash(corpus: Corpus, *facts: object) -> str:
    return hashlib.sha256(repr((corpus.hash, *facts)).encode()).hexdigest()[:12]


def _piece(lengths: Sequence[int], wanted: int, pieces: int) -> int:
    """How much of each utterance is taken, at most, so that all together are as long as wanted."""
    piece = max(wanted // pieces, to_samples(SHORTEST_S))
    while sum(min(piece, length) for length in lengths) < min(wanted, sum(lengths)):
        piece += piece // 16
    return piece


def _part(utterance: Utterance, samples: int, most: int) -> Utterance | None:
    """The utterance, or its beginning: at most `samples` if it can be cut, else at most `most`; None if it is
    longer.
    """
    length = to_samples(utterance.seconds)
    if not _can_be_cut(utterance):
        return utterance if length <= most else None
    if length <= samples:
        return utterance
    ends = [word.end for word in utterance.words if word.end is not None]
    count = sum(end <= samples for end in ends)
    end = ends[count - 1] if count and count < len(ends) else samples
    return replace(
        utterance,
        id=f"{utterance.id}-first{end}",
        words=utterance.words[:count],
        seconds=seconds(end),
        audio=lambda: utterance.audio()[:end],
    )


def _can_be_cut(utterance: Utterance) -> bool:
    return all(word.end is not None for word in utterance.words)
