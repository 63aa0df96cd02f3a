from card_values import RIGHT, WRONG, Counted, make_card, make_result
from whispertide_lab.evaluation.card.compare import INVENTED, TIMING, WER, changes, verdict
from whispertide_lab.evaluation.card.results import Card
from whispertide_lab.evaluation.card.sets import PADDED_TIMES

MUTE: Counted = (0, 0, 0, 0)
CHATTY: Counted = (0, 0, 0, 3)


def test_better_worse_and_open() -> None:
    before = make_card(
        make_result([WRONG] * 30, part="one"),
        make_result([RIGHT] * 30, part="two"),
        make_result([RIGHT, WRONG] * 15, part="three"),
        make_result([CHATTY] * 30, part="noise", kind="nonspeech"),
    )
    after = make_card(
        make_result([RIGHT] * 30, part="one"),
        make_result([WRONG] * 30, part="two"),
        make_result([WRONG, RIGHT] * 15, part="three"),
        make_result([MUTE] * 30, part="noise", kind="nonspeech"),
    )
    found = changes(after, before)
    by_name = {(change.part, change.measure): change for change in found}
    assert by_name["one", WER].better
    assert by_name["two", WER].worse
    assert not by_name["three", WER].better
    assert not by_name["three", WER].worse
    assert by_name["noise", INVENTED].better
    assert ("noise", WER) not in by_name
    better, worse, same = verdict(found).splitlines()
    assert better.startswith("Better on: one (WER -30.0 points, -30.0 to -30.0)")
    assert "noise" in better
    assert worse.startswith("Worse on: two")
    assert "three (WER)" in same


def test_word_times_are_compared_where_they_were_measured() -> None:
    def timed(error: int) -> tuple[tuple[tuple[int, int], ...], ...]:
        return (((error, error),),) * 25

    def card_with(error: int) -> Card:
        plain = make_result([RIGHT] * 25)
        return make_card(plain, make_result([RIGHT] * 25, mode=PADDED_TIMES.name, timing=timed(error)))

    before, after = card_with(80), card_with(50)
    found = [change for change in changes(after, before) if change.measure is TIMING]
    assert [change.better for change in found] == [True]
    assert found[0].difference.difference == -30


def test_a_long_recording_counts_with_timestamps() -> None:
    before = make_card(make_result([WRONG] * 25, mode=PADDED_TIMES.name, kind="real"))
    after = make_card(make_result([RIGHT] * 25, mode=PADDED_TIMES.name, kind="real"))
    assert [change.measure for change in changes(after, before)] == [WER]


def test_nothing_in_common() -> None:
    before, after = (make_card(make_result([RIGHT] * 5, corpus_hash=digest)) for digest in "ab")
    assert changes(after, before) == []
    assert "they cannot be compared" in verdict([])
