import re
from pathlib import Path

import numpy as np
import pytest

from whispertide.errors import OptionError
from whispertide.evaluation import paper, paper_items
from whispertide.evaluation.paper import PAPERS, Item, get_paper, listing, missing_line, only
from whispertide.evaluation.trace import RefWord, Utterance
from whispertide.types import SAMPLE_RATE

DOCS = Path(__file__).parents[2] / "docs" / "papers.md"
WANTED = {
    "whisperflow": ("table", (1, 2, 4), "figure", (7, 8, 9, 10, 11, 12)),
    "npusper": ("table", range(1, 9), "figure", (2, 3, 5, 7, 8, 9, 10, 12, 13, 14)),
    "whisperkit": ("table", (1, 2), "figure", (4, 6, 7, 8)),
    "whisperrt": ("table", (), "figure", (3, 4, 5)),
    "xyz": ("table", (3, 4, 5), "figure", (4, 5, 6)),
}
ITEMS = [pytest.param(item, id=f"{name} {item.id}") for name, found in PAPERS.items() for item in found.items]


def test_the_documentation_agrees_with_the_list() -> None:
    """If this fails: `python -c 'from whispertide.evaluation.paper import listing; print(listing())'` has the text."""
    text = DOCS.read_text(encoding="utf-8")
    assert text[text.index("## ") :].strip() == listing().strip()


@pytest.mark.parametrize("name", WANTED)
def test_every_table_and_figure_is_listed_once(name: str) -> None:
    tables, numbers, figures, more = WANTED[name]
    wanted = [f"{tables} {n}" for n in numbers] + [f"{figures} {n}" for n in more]
    assert sorted(item.id for item in get_paper(name).items) == sorted(wanted)


@pytest.mark.parametrize("item", ITEMS)
def test_every_item_can_be_made_or_says_what_it_lacks(item: Item) -> None:
    assert (item.function() is None) == (item.state == "missing")
    assert bool(missing_line(item)) == (item.state != "whole")
    if item.state == "part":
        assert item.covers
        assert item.missing


def test_an_item_becomes_whole_with_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    item = Item("figure 1", "title", ("recipe dream", "framing=pad30", "a sound studio"), "step_figure", "half")
    assert item.missing == ("recipe dream", "a sound studio")
    assert missing_line(item) == "figure 1 (title): in part (half); missing: recipe dream, a sound studio"
    monkeypatch.setattr(paper, "RECIPES", {"dream": object()})
    assert Item("figure 1", "title", ("recipe dream", "framing=pad30"), "step_figure").state == "whole"
    assert Item("figure 1", "title", ("recipe dream",)).lacks == "its measurement"


def test_some_items_alone() -> None:
    chosen = only(get_paper("whisperflow"), ("figure 11", "table 1"))
    assert [item.id for item in chosen.items] == ["table 1", "figure 11"]
    with pytest.raises(OptionError, match=r"table 1, table 2.*got table 9"):
        only(get_paper("whisperflow"), ("table 9", "table 1"))


def test_an_unknown_paper_lists_the_known_ones() -> None:
    with pytest.raises(OptionError, match=re.escape(", ".join(PAPERS))):
        get_paper("whisperfloe")


def utterance(spans: list[tuple[float, float]], length: float) -> Utterance:
    words = tuple(
        RefWord(f"w{n}", round(start * SAMPLE_RATE), round(end * SAMPLE_RATE)) for n, (start, end) in enumerate(spans)
    )
    audio = np.arange(round(length * SAMPLE_RATE), dtype=np.float32)
    return Utterance("u", words, length, lambda: audio, exact_times=True)


def test_clips_have_every_word_once_and_its_whole_sound() -> None:
    dice = np.random.default_rng(3)
    spans, now = [], 0.3
    for _ in range(200):
        spans.append((now, now + 0.3))
        now += 0.3 + float(dice.choice([0.0, 0.1, 0.6, 4.0], p=[0.5, 0.35, 0.14, 0.01]))
    whole = utterance(spans, now + 20)
    found = list(paper_items.clips(whole))
    assert [word for words, _ in found for word in words] == [word.text for word in whole.words]
    assert len(found) > 5
    ends = {word.text: (word.start, word.end) for word in whole.words}
    for words, audio in found:
        first, last = ends[words[0]], ends[words[-1]]
        assert first[0] is not None
        assert last[1] is not None
        assert audio[0] <= first[0]
        assert audio[-1] >= last[1] - 1
        assert len(audio) <= 11.5 * SAMPLE_RATE


def test_without_exact_times_a_clip_is_a_whole_recording_that_a_window_holds() -> None:
    words = (RefWord("one"), RefWord("two"))

    def recording(length: float) -> Utterance:
        return Utterance("u", words, length, lambda: np.zeros(round(length * SAMPLE_RATE), np.float32))

    assert [(said, len(audio)) for said, audio in paper_items.clips(recording(30))] == [(("one", "two"), 480_000)]
    assert not list(paper_items.clips(recording(30.1)))


def test_where_nothing_is_said_clips_are_cut_anywhere() -> None:
    silent = Utterance("u", (), 25, lambda: np.arange(25 * SAMPLE_RATE, dtype=np.float32))
    found = list(paper_items.clips(silent))
    assert [(said, len(audio) / SAMPLE_RATE) for said, audio in found] == [((), 10.0), ((), 10.0), ((), 5.0)]
    np.testing.assert_array_equal(np.concatenate([audio for _, audio in found]), silent.audio())


def test_clips_are_cut_in_the_middle_of_a_pause() -> None:
    found = list(paper_items.clips(utterance([(0.0, 1.0), (1.1, 2.5), (3.5, 4.0)], 5.0)))
    assert [words for words, _ in found] == [("w0", "w1"), ("w2",)]
    assert found[0][1][-1] == 3.0 * SAMPLE_RATE - 1
    assert found[1][1][-1] == 5.0 * SAMPLE_RATE - 1
