import re

import pytest

from card_values import RIGHT, WRONG, Counted, make_card, make_result
from whispertide_lab.evaluation.card.page import page
from whispertide_lab.evaluation.card.sets import PADDED_TIMES, UNPADDED

RUN_AWAY: Counted = (8, 2, 0, 12)


def test_every_table_is_whole() -> None:
    card = make_card(
        make_result([RIGHT, WRONG] * 15),
        make_result([RIGHT, WRONG] * 15, mode=PADDED_TIMES.name, timing=(((10, 20),),) * 30),
        make_result([(0, 0, 0, 1)] * 30, part="no speech", kind="nonspeech"),
    )
    tables = re.findall(r"(?:^\|.*\n?)+", page(card), re.MULTILINE)
    assert len(tables) == 5
    for table in tables:
        widths = {len(line.split(" | ")) for line in table.strip().splitlines()}
        assert len(widths) == 1, table


def test_what_the_figures_say() -> None:
    text = page(make_card(make_result([RIGHT] * 29 + [WRONG]), make_result([RUN_AWAY] * 30, mode=UNPADDED.name)))
    assert "| trained voices, grammar | no | 30 | 300 | 1.0 (0.0 to 3.0) |" in text
    assert "| trained voices, grammar | 1.0 | 140.0 | +139.0 (137.0 to 140.0) | 0.3 | 120.0 | 0.0 | 100.0 |" in text
    assert "at least 20 utterances): trained voices, grammar." in text


def test_padding_changes_what_is_heard_in_silence() -> None:
    quiet, loud = ([(0, 0, 0, words)] * 6 for words in (0, 1))
    silent = make_result(quiet, part="no speech", kind="nonspeech")
    text = page(make_card(silent, make_result(loud, part="no speech", kind="nonspeech", mode=UNPADDED.name)))
    assert "| no speech | padded | 0.3 | 0 | 0.00 (0.00 to 0.00) | 0 of 6 |" in text
    assert "- no speech: +20.0 (20.0 to 20.0)" in text


def test_no_disease_no_claim() -> None:
    text = page(make_card(make_result([WRONG] * 30), make_result([WRONG] * 30, mode=UNPADDED.name)))
    assert "at least 20 utterances): none." in text
    few = page(make_card(make_result([RIGHT] * 6), make_result([WRONG] * 6, mode=UNPADDED.name)))
    assert "at least 20 utterances): none." in few


def test_what_intervals_are_over_is_said() -> None:
    """30 utterances of 10 people are few."""
    assert "bootstraps over utterances (95 %)" in page(make_card(make_result([RIGHT] * 30)))
    people = tuple(f"speaker {n % 10}" for n in range(30))
    text = page(make_card(make_result([RIGHT] * 30, kind="real", speakers=people)))
    assert "bootstraps over speakers (recordings where nobody speaks, utterances where nobody knows who" in text
    assert "| 30 ! | 300 |" in text


def test_few_utterances_are_marked_and_very_few_have_no_interval() -> None:
    assert "| 19 ! | 190 | 0.0 (0.0 to 0.0) |" in page(make_card(make_result([RIGHT] * 19)))
    assert "| 2 ! | 20 | 0.0 |" in page(make_card(make_result([RIGHT] * 2)))
    assert "!" not in page(make_card(make_result([RIGHT] * 20))).split("## Accuracy")[1].split("##")[0]


@pytest.mark.parametrize(
    ("counts", "said"),
    [(RIGHT, "It is fit to try on human speech"), (WRONG, "It is not fit to transcribe human speech")],
)
def test_what_it_is_for_follows_from_human_speech(counts: Counted, said: str) -> None:
    real = make_result([counts] * 30, kind="real", mode=PADDED_TIMES.name)
    assert said in page(make_card(real, purpose="Made for tests."))
    assert "not measured for this card" in page(make_card(make_result([counts] * 30)))


def test_training_is_told() -> None:
    result = make_result([RIGHT] * 30)
    text = page(make_card(result, licence="Apache-2.0", hours=12.5, sources=[{"name": "flite"}], odd="kept"))
    assert "| Licence | Apache-2.0 |" in text
    assert "- Speech, hours (distinct): 12.5" in text
    assert "- Sources: name flite" in text
    assert "- odd: kept" in text
    assert "no training.json" in page(make_card(result))
    assert "A quick run" in page(make_card(result, quick=True))


def test_next_to_the_previous_one() -> None:
    text = page(make_card(make_result([RIGHT] * 30)), make_card(make_result([WRONG] * 30), name="older"))
    assert "## Against the previous checkpoint (feedfeedfeed)" in text
    assert "| trained voices, grammar | WER | 30.0 | 0.0 | -30.0 (-30.0 to -30.0) | better |" in text
