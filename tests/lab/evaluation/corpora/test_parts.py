from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.errors import CorpusError, OptionError
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.corpora.parts import (
    SHORTEST_S,
    Excerpt,
    beginnings_for,
    in_languages,
    part_label,
    part_of,
)
from whispertide_lab.speech.utterance import Beginnings, Recordings, RefWord, Utterance, by_turns


def audio_of(length: int) -> Callable[[], FloatArray]:
    return lambda: np.zeros(length * SAMPLE_RATE, np.float32)


HASH = "0123456789ab"


def talks(lengths: tuple[int, ...], groups: Sequence[str] = (), timed: bool = True) -> Recordings:
    """Recordings of so many seconds with a word per second."""
    items = []
    for number, length in enumerate(lengths):
        ends = [(at + 1) * SAMPLE_RATE - 100 if timed else None for at in range(length)]
        words = tuple(RefWord(f"word{at}", None if end is None else end - 8000, end) for at, end in enumerate(ends))
        group = groups[number] if groups else f"voice {number}"
        items.append(Utterance(f"talk/{number}", words, float(length), audio_of(length), timed, group))
    return Recordings("talks", HASH, tuple(items))


@given(
    st.lists(st.integers(1, 90), min_size=1, max_size=12),
    st.lists(st.sampled_from("abc"), min_size=12, max_size=12),
    st.floats(5, 300),
)
def test_an_excerpt_is_as_long_as_asked_and_whole_word_by_word(
    lengths: list[int], groups: list[str], wanted: float
) -> None:
    corpus = talks(tuple(lengths), groups[: len(lengths)])
    found = list(Excerpt(corpus, wanted).utterances())
    total = sum(item.seconds for item in found)
    assert total <= wanted + 1e-3
    assert total >= min(wanted, sum(lengths)) - SHORTEST_S / 2 - 1 - len(found)
    assert [item.id.split("-")[0] for item in found] == sorted(
        (item.id.split("-")[0] for item in found), key=lambda name: int(name.split("/")[1])
    )
    for item in found:
        assert len(item.audio()) == round(item.seconds * SAMPLE_RATE)
        assert [word.text for word in item.words] == [f"word{at}" for at in range(len(item.words))]
        assert all(word.end is not None and word.end <= len(item.audio()) for word in item.words)
        assert len(item.words) >= int(item.seconds), "no word that was said whole is missing"


def test_an_excerpt_has_as_many_voices_as_there_is_room_for() -> None:
    corpus = talks((600,) * 6, ("a", "a", "a", "b", "b", "c"))
    assert [item.group for item in Excerpt(corpus, 60).utterances()] == ["a", "b", "c"]
    whole = list(Excerpt(corpus, 600).utterances())
    assert [item.group for item in whole] == ["a", "a", "a", "b", "b", "c"]
    assert all(90 <= item.seconds <= 110 for item in whole[:2])


def test_an_excerpt_longer_than_the_corpus_is_the_corpus() -> None:
    corpus = talks((40, 5))
    assert [item.id for item in Excerpt(corpus, 1000).utterances()] == ["talk/0", "talk/1"]


def test_what_has_no_word_times_is_taken_whole_or_left_out() -> None:
    corpus = talks((30, 300, 25), timed=False)
    assert [item.id for item in Excerpt(corpus, 60).utterances()] == ["talk/0", "talk/2"]
    with pytest.raises(CorpusError, match="use a longer excerpt"):
        Excerpt(corpus, 20).utterances()


def test_where_nobody_speaks_a_cut_harms_nobody() -> None:
    corpus = talks((60, 60))
    corpus = replace(corpus, items=tuple(replace(item, words=(), exact_times=False) for item in corpus.items))
    assert [item.seconds for item in Excerpt(corpus, 40).utterances()] == [20.0, 20.0]


def test_the_hash_follows_corpus_and_length() -> None:
    corpus = talks((60,))
    hashes = {corpus.hash, Excerpt(corpus, 10).hash, Excerpt(corpus, 11).hash}
    assert len(hashes | {Excerpt(replace(corpus, hash="f"), 10).hash}) == 4
    assert Excerpt(corpus, 10).hash == Excerpt(talks((60,)), 10).hash
    with pytest.raises(OptionError, match="more than 0 s"):
        Excerpt(corpus, 0)


def test_languages() -> None:
    corpus = talks((5, 5, 5))
    spoken = [replace(item, language=name) for item, name in zip(corpus.items, ("en", "de", "en"), strict=True)]
    corpus = replace(corpus, items=tuple(spoken))
    english = in_languages(corpus, {"en"})
    assert [item.id for item in english.utterances()] == ["talk/0", "talk/2"]
    assert (english.name, len(english.hash)) == ("talks-en", 12)
    assert english.hash != in_languages(corpus, {"en", "de"}).hash != corpus.hash


def test_a_part_is_the_whole_where_there_is_no_more() -> None:
    corpus = talks((40, 20))
    for length in (None, 60.0, 900.0):
        part, left_out = part_of(corpus, {"en"}, length, writer="nano.en")
        assert (part, left_out, part_label(part)) == (corpus, [], "")
    part, left_out = part_of(corpus, {"en"}, 50.0, writer="nano.en")
    assert (part_label(part), left_out) == (" 50 s", [])


def test_what_a_part_leaves_out_is_told() -> None:
    corpus = talks((30, 300, 25), timed=False)
    part, left_out = part_of(corpus, {"en"}, 60.0, writer="nano.en")
    assert [item.seconds for item in part.utterances()] == [30.0, 25.0]
    (line,) = left_out
    assert "left out: 1 recording of talks of more than 60 s, which cannot be cut without word times" in line
    assert "--excerpt all" in line
    german = replace(corpus, items=(*corpus.items, replace(corpus.items[0], id="rede", language="de")))
    part, (line,) = part_of(german, {"en"}, None, writer="nano.en")
    assert line == "left out: 1 recording of talks in de: nano.en does not write that"
    assert "rede" not in {item.id for item in part.utterances()}
    with pytest.raises(CorpusError, match="all 3 of talks are in en: use a multilingual model"):
        part_of(corpus, {"de"}, None, writer="nano.en")


def test_by_turns() -> None:
    assert by_turns(["a", "a", "b", "a", "c", "b"]) == [0, 2, 4, 1, 5, 3]
    assert by_turns([]) == []


@pytest.mark.slow
@given(st.integers(1, 4000), st.lists(st.sampled_from("abcdef"), min_size=32, max_size=32))
def test_of_the_beginnings_an_excerpt_is_what_it_is_of_the_whole(length_s: int, groups: list[str]) -> None:
    """Talks of 250 s or more; what was made of a talk ends some words after the piece."""
    beginnings = beginnings_for(length_s)
    if beginnings is None:
        assert length_s > 16 * 240
        return
    whole = talks(tuple(250 + 7 * number for number in range(32)), groups)
    made = [
        replace(item, words=item.words[: upto + 3], seconds=upto + 3.0, audio=audio_of(upto + 3))
        for place, item in enumerate(whole.utterances())
        if place in beginnings.places(groups)
        for upto in [-(-beginnings.samples // SAMPLE_RATE)]
    ]
    assert len(made) <= length_s / max(SHORTEST_S, length_s / 16) + 3
    found, expected = (Excerpt(corpus, length_s).utterances() for corpus in (replace(whole, items=tuple(made)), whole))
    assert [(item.id, item.words, item.seconds) for item in found] == [
        (item.id, item.words, item.seconds) for item in expected
    ]


def test_beginnings_are_of_as_many_voices_as_can_be() -> None:
    assert Beginnings(3, 100).places("abacb") == [0, 1, 3]
    assert Beginnings(9, 100).places("ab") == [0, 1]


def test_an_excerpt_in_few_long_pieces() -> None:
    corpus = talks((300, 700, 650, 700))
    usual, long = Excerpt(corpus, 1200), Excerpt(corpus, 1200, 2)
    assert [item.seconds for item in long.utterances()] == pytest.approx([300, 599, 301], abs=2)
    assert (
        len({usual.hash, long.hash}) == len({usual.name, long.name}) == len({part_label(usual), part_label(long)}) == 2
    )
    assert part_label(long) == " 1200 s in 2"
    with pytest.raises(OptionError, match="at least 1 piece"):
        Excerpt(corpus, 1200, 0)


def test_more_talks_are_made_than_there_are_long_pieces() -> None:
    found = beginnings_for(1200, 2)
    assert found is not None
    assert found.samples == 600 * SAMPLE_RATE
    assert found.count * 240 >= 1200
    assert beginnings_for(1200, 1) is None
