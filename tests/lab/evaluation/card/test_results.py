import json
from pathlib import Path

import pytest

from card_values import RIGHT, WRONG, make_card, make_result
from whispertide.errors import OptionError
from whispertide_lab.evaluation.card.measure import Record
from whispertide_lab.evaluation.card.results import Card, paired, pooled, read_card, result_of
from whispertide_lab.evaluation.card.sets import PADDED, PADDED_TIMES, Part
from whispertide_lab.evaluation.wer import Counts
from whispertide_lab.speech.utterance import RefWord, Utterance


def test_a_card_survives_its_json() -> None:
    timed = make_result([RIGHT, WRONG], mode=PADDED_TIMES.name, timing=(((20, 40),), ()))
    silent = make_result([(0, 0, 0, 2), (0, 0, 0, 0)], part="no speech", kind="nonspeech")
    card = make_card(make_result([RIGHT, WRONG]), timed, silent, hours=3.5, sources=["a", "b"])
    assert Card.from_json(card.to_json()) == card


def test_figures_are_in_the_json() -> None:
    text = make_card(make_result([RIGHT] * 3 + [WRONG], timing=(((20, 40),), (), (), ((10, 300), (30, 30))))).to_json()
    figures = json.loads(text)["results"][0]["figures"]
    assert figures["words"] == 40
    assert figures["wer"] == pytest.approx(3 / 40)
    low, high = figures["wer_interval"]
    assert low <= figures["wer"] <= high
    assert (figures["substitutions"], figures["deletions"], figures["insertions"]) == (1, 1, 1)
    assert figures["word_times_ms"]["words"] == 3
    assert figures["word_times_ms"]["median"] == 30
    assert figures["word_times_ms"]["end_median"] == 40


def test_invented_words_count_per_minute() -> None:
    figures = make_result([(0, 0, 0, 2), (0, 0, 0, 0)], kind="nonspeech").figures()
    assert figures["invented_words"] == 2
    assert figures["invented_per_minute"] == pytest.approx(20)  # in 6 s
    assert figures["utterances_with_words"] == 1
    assert "wer" not in figures


def test_records_become_a_result() -> None:
    said = (RefWord("one", 0, 1600), RefWord("two", 1600, 3200))
    utterances = tuple(
        Utterance(f"u{n}", said, 2.0, lambda: pytest.fail("not heard"), exact_times=True) for n in (0, 1)
    )
    part = Part("set", "synthetic", "corpus", "hash", utterances)
    some = Counts(1, 1, 0, 3)
    records = [
        Record("u0", PADDED.name, "one too many words here", some, Counts(9, 1, 0, 2), ((160, -320),)),
        Record("u1", PADDED.name, "one two", Counts(2), Counts(7)),
    ]
    found = result_of(part, PADDED.name, records)
    assert found.words == ((1, 1, 0, 3), (2, 0, 0, 0))
    assert found.characters == ((3, 10), (0, 7))
    assert found.timing == (((10, 20),), ())
    assert found.ran_away == (True, False)
    assert found.minutes == pytest.approx(4 / 60)


def test_pairs_are_those_of_the_same_recordings() -> None:
    before, after = make_result([WRONG] * 30), make_result([RIGHT] * 30)
    found = paired(before, after, "word_errors")
    assert found is not None
    assert found.difference == pytest.approx(-0.3)
    assert found.units == 30
    assert paired(before, make_result([RIGHT] * 30, corpus_hash="another"), "word_errors") is None
    assert paired(before, after, "timing_sums") is None  # neither has any
    fewer = paired(before, make_result([RIGHT] * 10), "word_errors")
    assert fewer is not None
    assert fewer.units == 10


def test_the_utterances_of_a_speaker_are_drawn_together() -> None:
    """Three utterances of each of 20 people, all alike: as wide as with one of each."""
    once = [RIGHT, WRONG] * 10
    people = tuple(f"speaker {n}" for n in range(20))
    alone = make_result(once, kind="real", speakers=people)
    thrice = make_result(once * 3, kind="real", speakers=people * 3)
    assert thrice.figures()["wer_interval"] == pytest.approx(alone.figures()["wer_interval"])
    better = make_result([RIGHT] * 60, kind="real")  # a card of an earlier version does not know who spoke
    for before, after in ((thrice, better), (better, thrice)):
        found = paired(before, after, "word_errors")
        assert found is not None
        assert found.units == 20
    assert len(set(pooled("all", [thrice, alone]).units)) == 20


def test_a_recording_that_was_cut_is_one_unit_and_synthetic_utterances_are_apart() -> None:
    said = tuple(
        Utterance(f"u{n}", (RefWord("one"),), 2.0, lambda: pytest.fail("not heard"), group="x") for n in (0, 1)
    )
    records = [Record(f"u{n}", PADDED.name, "one", Counts(1), Counts(3)) for n in (0, 1)]
    for kind, units in (("real", 1), ("nonspeech", 1), ("synthetic", 2)):
        part = Part("set", kind, "corpus", "hash", said)  # type: ignore[arg-type]
        assert len(set(result_of(part, PADDED.name, records).units)) == units


def test_pooled_sets_keep_every_utterance_apart() -> None:
    whole = pooled("all", [make_result([RIGHT] * 2, part="a"), make_result([WRONG] * 3, part="b")])
    assert len(set(whole.ids)) == 5
    assert whole.total == Counts(44, 3, 3, 3)
    assert whole.minutes == pytest.approx(0.25)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 0}', '{"format": 1, "model": {}}'])
def test_what_is_no_card(tmp_path: Path, content: str) -> None:
    (tmp_path / "card.json").write_text(content)
    with pytest.raises(OptionError, match=r"card\.json"):
        read_card(tmp_path / "card.json")
    with pytest.raises(OptionError, match="train card"):
        read_card(tmp_path / "missing.json")
