"""OpenBench's cursor latency by hand, clamped and not."""

import pytest

from evaluation_traces import reference, trace
from whispertide_lab.evaluation.cursor import Cursor, cursor_latency

SAID = reference(("the", 0.5, 1.0), ("cat", 1.0, 2.0), ("sat", 2.0, 3.0), seconds=4.0)


def test_the_middle_of_both_bounds_weighted_by_new_audio() -> None:
    record = trace((1.5, "", "the"), (3.5, "", "the cat sat"), (9.0, "the cat sat", ""), audio_s=4.0)
    found = cursor_latency(SAID, record)
    # 1st: A 1.5, C 1.0: between 0.5 and 1.5 (no cursor before), weight 0.5; 2nd: A 3.5, C 3.0: 0.5 to 2.5, weight 2.0
    assert found.results == 2  # the third changes nothing
    assert found.weight == pytest.approx(2.5)
    assert found.clamped_s == pytest.approx((1.0 * 0.5 + 1.5 * 2.0) / 2.5)
    assert found.unclamped_s == found.clamped_s


def test_clamping_hides_a_guess_ahead_of_time() -> None:
    record = trace((0.6, "", "the"), (1.5, "", "the cat"), (9.0, "the cat sat", ""), audio_s=4.0)
    found = cursor_latency(SAID, record)
    # A 0.6, C 1.0: -0.4 and 0.6; A 1.5, C 2.0: -0.5 and 0.5; A 4.0 (all sent), C 3.0: 1.0 and 2.0
    assert found.unclamped == pytest.approx(0.5 * 0.1 + 1.0 * 0.0 + 1.0 * 1.5)
    assert found.clamped == pytest.approx(0.5 * 0.3 + 1.0 * 0.25 + 1.0 * 1.5)


def test_a_word_is_not_matched_with_one_that_nobody_has_said_yet() -> None:
    twice = reference(("the", 0.5, 1.0), ("cat", 1.0, 2.0), ("ate", 2.0, 2.5), ("the", 2.5, 3.0), seconds=4.0)
    record = trace((1.5, "", "a the"), audio_s=4.0)
    assert cursor_latency(twice, record).unclamped == pytest.approx(0.5 * (0.5 + 1.5) / 2)


def test_audio_is_sent_in_packets() -> None:
    record = trace((1.019, "", "the"), audio_s=4.0)
    assert cursor_latency(SAID, record).clamped == pytest.approx(0.5 * (0.0 + 1.0) / 2)


def test_a_result_whose_change_is_only_a_removal_does_not_count() -> None:
    record = trace((2.5, "", "the cat"), (3.0, "", "the"), audio_s=4.0)
    assert cursor_latency(SAID, record).results == 1


def test_confirmed_text_alone() -> None:
    record = trace((1.5, "", "the"), (2.5, "the", "cat"), audio_s=4.0)
    found = cursor_latency(SAID, record, "confirmed")
    assert found.results == 1
    assert found.clamped_s == pytest.approx((1.5 + 2.5) / 2)


def test_nothing_without_exact_times_or_without_a_right_word() -> None:
    vague = reference(("the", 0.5, 1.0), exact=False)
    assert cursor_latency(vague, trace((1.5, "the", ""))) == Cursor()
    assert cursor_latency(SAID, trace((1.5, "dog", ""))).clamped_s is None
    assert cursor_latency(SAID, trace()) == Cursor()
