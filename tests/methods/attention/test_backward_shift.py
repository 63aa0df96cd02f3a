"""NPUsper's guard on attention that is written down."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_ramps import asked, looking_at, scene
from each_row import each_row
from whispertide.decoding.guards import Halt
from whispertide.errors import OptionError
from whispertide.methods.attention.backward_shift import BackwardShift, BackwardShiftGuard, smooth

FRAMES = 150
PIECE, MARK = 100, 200


def guard(forced: tuple[int, ...] = (), opening: int = 2, **rule: object) -> BackwardShiftGuard:
    return BackwardShiftGuard(BackwardShift(**rule), scene(FRAMES, opening=opening, forced=forced), [0, 1])  # type: ignore[arg-type]


@given(st.lists(st.integers(8, 25), min_size=1, max_size=5), st.integers(5, 20))
def test_attention_that_moves_on_never_fires(steps: list[int], start: int) -> None:
    places = [0, start, *(start + np.cumsum(steps)).tolist()]
    assert asked(guard(), list(range(len(places) - 1)), places, FRAMES) is None


def test_one_leftward_jump_fires_at_that_token() -> None:
    watching = guard()
    assert asked(watching, [1, 2, 3, 4, 5], [0, 20, 50, 80, 30, 110], FRAMES) == 3
    assert watching.halt == Halt("backward-shift", 3, 4)


def test_attention_that_stays_where_it_is_does_not_fire() -> None:
    """Then nothing has changed anywhere: what comes and what goes are in the same place."""
    watching = guard()
    still = looking_at([0, 20, 20], FRAMES)
    still[:, 2] = still[:, 1]
    assert [watching.check([1, 2][:count], still[:, : count + 1]) for count in (1, 2)] == [None, None]
    assert watching.last_frame == 0


def test_with_the_published_row_the_token_is_judged_one_step_later() -> None:
    """Query i + 1 is where token i was fed in; here it is that query that jumps."""
    watching = guard(row="fed")
    assert asked(watching, [1, 2, 3, 4, 5], [0, 20, 50, 80, 30, 110], FRAMES) == 2
    assert watching.halt == Halt("backward-shift", 2, 3)


def test_without_the_filter_of_tokens_marks_and_pieces_are_compared_too() -> None:
    """The rows of NPUsper's table 2 that skip nothing, or punctuation alone."""
    places = [0, 20, 60, 25, 30, 90]  # the second and third tokens look back, but are no content
    tokens = [1, 2, MARK, PIECE, 3]
    assert asked(guard(compared="all"), tokens, places, FRAMES) == 2
    assert asked(guard(compared="no-marks"), tokens, places, FRAMES) == 3
    assert asked(guard(compared="no-marks"), [1, 2, MARK, 3, 4], [0, 20, 60, 25, 90, 120], FRAMES) is None


def test_punctuation_and_pieces_between_are_passed_over() -> None:
    places = [0, 20, 60, 25, 30, 90]  # the second and third tokens look back, but are no content
    assert asked(guard(), [1, 2, MARK, PIECE, 3], places, FRAMES) is None
    assert asked(guard(), [1, 2, 3, PIECE, 4], places, FRAMES) == 2


def test_the_first_word_is_compared_with_the_carried_one() -> None:
    places = [0, 60, 20]  # the query that predicts the forced token, then the one that predicts token 1
    assert asked(guard(forced=(9,), opening=3), [1], places, FRAMES, opening=3) == 0
    assert asked(guard(forced=(MARK,), opening=3), [1], places, FRAMES, opening=3) is None
    assert asked(guard(forced=(9,)), [1], places[1:], FRAMES) == 0
    alone = guard(forced=(9, MARK))  # nothing came before the forced tokens, so no query predicted the first
    assert asked(alone, [1], places[1:], FRAMES) is None
    assert alone.last_frame == pytest.approx(20, abs=10), "it was not compared with its own attention"


def test_each_word_is_compared_with_the_one_before_it() -> None:
    places = [0, 20, 100, 60]  # after the second, not after the carried one
    assert asked(guard(forced=(9,), opening=3), [1, 2], places, FRAMES, opening=3) == 1
    two_carried = guard(forced=(8, 9), opening=4)
    assert asked(two_carried, [1], [10, 30, 100, 60], FRAMES, opening=4) == 0
    assert two_carried.last_frame == pytest.approx(60, abs=10)


def test_it_watches_all_heads_of_the_last_layer_and_no_others() -> None:
    model: Any = SimpleNamespace(dims=SimpleNamespace(n_text_layer=4, n_text_head=2))
    rule, heads = BackwardShift(), ((0, 0), (3, 0), (3, 1))
    assert rule.heads(model) == heads[1:]
    onward, back = (looking_at(places, FRAMES, heads=1) for places in ([0, 20, 60, 100], [0, 20, 60, 30]))
    for rows, fires in (((onward, back, back), 2), ((back, onward, onward), None)):
        watching = rule.guard(replace(scene(FRAMES), heads=heads), model)
        attention = np.concatenate(rows)
        found = [watching.check([1, 2, 3][:count], attention[:, : count + 1]) for count in (1, 2, 3)]
        assert found == [None, None, fires]


def test_arrival_is_looked_for_in_the_last_frame_of_a_window_that_ends_before() -> None:
    watching = BackwardShiftGuard(BackwardShift(search_from=15, average=1), scene(10), [0, 1])
    assert asked(watching, [1], [0, 8], 10) is None
    assert watching.last_frame == 9


def test_arrival_is_looked_for_from_a_frame_on() -> None:
    """The published code overlooks arrivals in the first 0.3 s: a jump back to there is told by the rest alone."""
    places = [0, 60, 5]
    assert asked(guard(), [1, 2], places, FRAMES) == 1
    late = guard(search_from=80)
    assert asked(late, [1, 2], places, FRAMES) is None
    assert late.last_frame is not None
    assert late.last_frame >= 80


def test_detection_can_be_switched_off() -> None:
    watching = guard(detect=False)
    assert asked(watching, [1, 2, 3], [0, 60, 20, 10], FRAMES) is None
    assert watching.last_frame == pytest.approx(10, abs=10)  # but it still looks


def test_near_the_end_the_token_is_kept() -> None:
    watching = guard(near_end=30)
    assert asked(watching, [1, 2, 3, 4], [0, 30, 80, 130, 140], FRAMES) == 3
    assert watching.halt == Halt("near-end", 2, 3)
    assert watching.last_frame is not None
    before_the_end = FRAMES - watching.last_frame
    assert asked(guard(near_end=before_the_end), [1, 2, 3], [0, 30, 80, 130], FRAMES) is None
    assert asked(guard(near_end=before_the_end + 1), [1, 2, 3], [0, 30, 80, 130], FRAMES) == 3


def test_near_the_end_a_word_is_finished() -> None:
    finishing = partial(guard, near_end=30, finish_word=True)
    assert asked(finishing(), [1, 2, PIECE, MARK, 4], [0, 30, 130, 135, 140, 141], FRAMES) == 4
    assert asked(finishing(), [1, 2, 4], [0, 30, 130, 135], FRAMES) == 2
    assert asked(finishing(row="fed"), [1, 2, PIECE, 4], [0, 9, 30, 130, 140], FRAMES) == 3
    assert asked(finishing(row="fed"), [1, 2, 4], [0, 9, 30, 130], FRAMES) == 2  # it was whole
    search_ends_by_itself = asked(finishing(), [1, 2, PIECE], [0, 30, 130, 135], FRAMES)
    assert search_ends_by_itself is None


@each_row(("median", "average"), [(1, 1), (7, 10), (3, 1), (1, 2), (1, 4), (15, 20)])
def test_filters_agree_with_their_definition(median: int, average: int) -> None:
    change = np.random.default_rng(7).normal(size=60).astype(np.float32)
    half = median // 2
    mirrored = np.concatenate([change[half:0:-1], change, change[-2 : -2 - half : -1]]) if half else change
    middle = np.array([np.median(mirrored[i : i + median]) for i in range(60)])
    taps = range(-(average // 2), average - average // 2)  # ten: i - 5 to i + 4
    expected = [sum(middle[i + tap] for tap in taps if 0 <= i + tap < 60) / average for i in range(60)]
    np.testing.assert_allclose(smooth(change, median, average), expected, atol=1e-5)


def test_a_window_that_the_median_does_not_fit_into_twice_is_left_as_it_is() -> None:
    """There is too little of it to be mirrored."""
    change = np.array([5.0, 1.0, 9.0, 2.0], np.float32)
    np.testing.assert_array_equal(smooth(change[:3], 7, 1), change[:3])
    assert smooth(change, 7, 1)[0] != change[0]


def test_short_windows_are_no_error() -> None:
    watching = BackwardShiftGuard(BackwardShift(), scene(2), [0, 1])
    assert watching.check([1], looking_at([0, 1], 2)) is None


def test_it_watches_the_last_layer_or_the_one_that_is_named() -> None:
    model: Any = SimpleNamespace(dims=SimpleNamespace(n_text_layer=3, n_text_head=2))
    assert BackwardShift().heads(model) == ((2, 0), (2, 1))
    assert BackwardShift(layer=1).heads(model) == ((1, 0), (1, 1))
    with pytest.raises(OptionError, match="from 0 to 2; got 3"):
        BackwardShift(layer=3).heads(model)


def test_impossible_settings_are_refused() -> None:
    assert BackwardShift(median=1, average=1, search_from=0).median == 1
    for rule in ({"median": 4}, {"median": -1}, {"average": 0}, {"search_from": -1}, {"row": "next"}):
        with pytest.raises(OptionError):
            BackwardShift(**rule)
    with pytest.raises(ValueError, match="attention of a layer"):
        guard().check([1], None)
