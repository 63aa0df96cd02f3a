"""Guards: loops end, text that attends to the end of the audio or turns back does not stand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_ramps import SLACK, asked, looking_at, scene
from slow_rows import slow_but
from whispertide.decoding.guards import (
    Frontier,
    FrontierGuard,
    Halt,
    RepetitionGuard,
    SameToken,
    attended_frame,
    with_loop_guard,
)
from whispertide.decoding.token_words import sharpen
from whispertide.errors import OptionError
from whispertide.types import FloatArray

TEXT_END = 1000
GUARD = RepetitionGuard(TEXT_END)


def stopped(tokens: list[int], guard: RepetitionGuard | SameToken = GUARD) -> list[int] | None:
    """What the guard leaves, asked after every token as a search does; None if it never fires."""
    for count in range(1, len(tokens) + 1):
        keep = guard.check(tokens[:count])
        if keep is not None:
            return tokens[:keep]
    return None


def test_a_loop_is_cut_to_its_first_copies() -> None:
    assert stopped([1, 2, *[7, 8, 9] * 20]) == [1, 2, 7, 8, 9, 7, 8, 9]


def test_one_token_over_and_over_is_a_loop() -> None:
    assert stopped([5, *[6] * 40]) == [5, 6, 6]


def test_it_fires_as_soon_as_the_loop_is_long_enough() -> None:
    assert GUARD.check([6] * 11) is None
    assert GUARD.check([6] * 12) == 2
    assert GUARD.check([6, 7, 8] * 4) == 6
    assert GUARD.check([6, 7, 8, 9, 10] * 4) == 10
    assert GUARD.check(([6, 7, 8, 9, 10] * 4)[:-1]) is None


def test_what_people_say_passes() -> None:
    no = 4
    assert stopped([no] * 8) is None
    assert stopped([1, 2, 3, 1, 2, 3, 9, 1, 2, 3, 1, 2, 3]) is None
    assert stopped([*range(10), *range(10), *range(10)]) is None


def test_timestamps_do_not_hide_a_loop() -> None:
    loop: list[int] = []
    for copy in range(8):
        loop += [TEXT_END + copy, 7, 8, 9, TEXT_END + copy + 1]
    assert stopped(loop) == [*loop[:9]]  # up to the second copy's last word


def test_the_first_token_after_text_is_no_text() -> None:
    loop = [token for copy in range(8) for token in (TEXT_END + copy % 2, 7, 8, 9)]
    assert stopped(loop) == loop[:8]


def test_a_timestamp_itself_never_fires() -> None:
    assert GUARD.check([*[6] * 12, TEXT_END + 1]) is None
    assert GUARD.check([*[6] * 12, TEXT_END]) is None


@given(st.lists(st.integers(0, 3), max_size=60))
def test_only_truncates_and_only_at_real_loops(tokens: list[int]) -> None:
    keep = GUARD.check(tokens)
    if keep is None:
        return
    assert 0 < keep < len(tokens)
    periods = [size for size in range(1, len(tokens)) if tokens[size:] == tokens[:-size]]
    tails = [tokens[start:] for start in range(len(tokens) - 11)]
    assert periods or any(tail[size:] == tail[:-size] for tail in tails for size in range(1, len(tail) // 4 + 1))


def test_a_phrase_that_is_too_long_for_four_copies_in_a_window_is_no_loop() -> None:
    assert stopped([*range(41)] * 9) is None
    assert stopped([*range(40)] * 9) == [*range(40)] * 2


def test_the_guard_against_loops_comes_after_the_others_where_it_is_wanted() -> None:
    other = SameToken()
    assert with_loop_guard((other,), TEXT_END, wanted=True) == [other, GUARD]
    assert with_loop_guard((other,), TEXT_END, wanted=False) == [other]


def test_the_same_token_three_times_ends_the_decode_and_leaves_none_of_them() -> None:
    guard = SameToken(3)
    assert stopped([1, 2, 7, 7, 7, 7, 3], guard) == [1, 2]
    assert stopped([7, 7, 7], guard) == []
    assert stopped([7, 7, 1, 7, 7, 1, 7, 8, 7, 8, 7, 8], guard) is None
    assert stopped([1, 7, 7, 2], SameToken(2)) == [1]
    with pytest.raises(OptionError, match="copies"):
        SameToken(1)


FRAMES = 200


def guard(forced: tuple[int, ...] = (), **rule: object) -> FrontierGuard:
    return FrontierGuard(Frontier(**rule), scene(FRAMES, forced=forced), [0, 1])  # type: ignore[arg-type]


def ramp(last: int, step: int = 10) -> list[int]:
    """Two prompt queries, then one query per token, `step` frames apart; the second predicts the first token."""
    return [0, *range(20, last + 1, step)]


def test_the_frame_is_that_of_the_newest_query() -> None:
    attention = looking_at([5, 40, 90, 130], FRAMES)
    assert attended_frame(attention, FRAMES) == pytest.approx(130, abs=SLACK)
    assert attended_frame(attention[:, :3], FRAMES) == pytest.approx(90, abs=SLACK)


def test_frames_after_the_audio_do_not_count() -> None:
    attention = looking_at([5, 40, 150], FRAMES)
    assert attended_frame(attention, 100) < 100


def test_it_is_the_alignment_s_own_reading() -> None:
    rng = np.random.default_rng(3)
    attention = rng.random((3, 9, 64)).astype(np.float32)
    attention /= attention.sum(axis=-1, keepdims=True)
    assert attended_frame(attention, 64) == sharpen(attention)[-1].argmax()


def test_it_stops_at_the_first_token_within_the_margin_and_drops_it() -> None:
    watching = guard(margin=25)
    places = ramp(190)
    assert asked(watching, list(range(30)), places, FRAMES) == 16
    assert places[1 + 16] == 180  # 200 - 180 <= 25; the one before, at 170, is not
    assert watching.halt == Halt("frontier", 16, 16)
    assert watching.last_frame == pytest.approx(180, abs=SLACK)  # what the dropped token attended to


@pytest.mark.parametrize(("margin", "kept"), [(0, None), (5, None), (15, 17), (105, 8)])
def test_the_margin_counts_from_the_end_of_the_audio(margin: int, kept: int | None) -> None:
    assert asked(guard(margin=margin), list(range(18)), ramp(190), FRAMES) == kept


@pytest.mark.parametrize("place", [60, 100, 199])  # at the word before, far back, at the end of the audio
def test_a_mark_after_a_word_may_look_anywhere_where_that_is_wanted(place: int) -> None:
    tokens, places = [1, 2, 3, 200], [0, 60, 100, 140, place]
    watching = guard(margin=20, rewind=30, marks=True)
    assert asked(watching, tokens, places, FRAMES) is None
    assert watching.last_frame == pytest.approx(140, abs=SLACK)  # a mark is no place to turn back from
    assert asked(guard(margin=120, marks=True), [200], [0, 100], FRAMES) == 0  # after no word there is none
    assert asked(guard((7,), margin=120, marks=True), [200], [0, 100], FRAMES) is None


def test_a_token_just_at_the_margin_is_dropped() -> None:
    places = [0, 100]
    away = FRAMES - attended_frame(looking_at(places, FRAMES), FRAMES)
    assert asked(guard(margin=away - 1), [1], places, FRAMES) is None
    assert asked(guard(margin=away), [1], places, FRAMES) == 0


def test_a_jump_far_back_voids_the_round() -> None:
    watching = guard(margin=4, rewind=60)
    assert asked(watching, [1, 2, 3, 4], [0, 100, 120, 130, 50], FRAMES) == 0
    assert watching.halt == Halt("rewind", 3, 4)


def test_a_small_step_back_does_not() -> None:
    assert asked(guard(margin=4, rewind=60), [1, 2, 3, 4], [0, 100, 120, 130, 80], FRAMES) is None
    assert asked(guard(margin=4, rewind=None), [1, 2, 3, 4], [0, 150, 120, 130, 8], FRAMES) is None


def test_the_round_before_counts_too() -> None:
    assert asked(guard(forced=(7,), margin=4, rewind=60, last_frame=150), [1], [0, 50], FRAMES) == 0
    assert asked(guard(forced=(7,), margin=4, rewind=60, last_frame=100), [1], [0, 50], FRAMES) is None


def test_after_a_special_token_a_jump_back_is_accepted() -> None:
    """Without a forced prefix the token before the first one is a special token."""
    watching = guard(margin=4, rewind=60, last_frame=150)
    assert asked(watching, [1], [0, 50], FRAMES) is None
    assert watching.last_frame == pytest.approx(50, abs=SLACK)


def test_a_guess_may_follow_after_the_frontier() -> None:
    watching = guard(margin=25, lookahead_tokens=2)
    assert asked(watching, list(range(30)), [*ramp(190), 191, 192, 193], FRAMES) == 18
    assert watching.halt == Halt("frontier", 16, 16)  # firm are those before it


@pytest.mark.parametrize(("unlikely", "kept"), [((), 25), ((3, 12), 25), ((18,), 19), ((16, 17), 17)])
def test_a_guess_ends_with_its_first_unlikely_token(unlikely: tuple[int, ...], kept: int) -> None:
    """What is said before the frontier may be unlikely."""
    watching = guard(margin=25, lookahead_tokens=9, doubtful=math.log(0.3))
    places = [*ramp(190), *[191] * 20]
    assert asked(watching, list(range(30)), places, FRAMES, unlikely=unlikely) == kept
    assert watching.halt == Halt("frontier", 16, 16)


def test_a_word_that_looks_back_ends_the_decode() -> None:
    watching = guard(margin=4, back=15)
    assert asked(watching, [1, 2, 3, 4], [0, 100, 120, 140, 110], FRAMES) == 3
    assert watching.halt == Halt("backward-shift", 3, 4)
    assert watching.last_frame == pytest.approx(140, abs=SLACK)  # the dropped word counts for nothing
    assert (
        asked(guard(margin=4, back=15, lookahead_tokens=9), [1, 2, 3, 4], [0, 100, 120, 140, 110], FRAMES) == 3
    )  # no guess


def test_before_a_long_jump_words_stand_where_a_backward_shift_is_looked_for() -> None:
    """It is a rewind, too, which would void the decode."""
    places = [0, 100, 120, 140, 20]
    watching = guard(margin=4, back=15, rewind=60)
    assert asked(watching, [1, 2, 3, 4], places, FRAMES) == 3
    assert watching.halt == Halt("backward-shift", 3, 4)
    piece = guard(margin=4, back=15, rewind=60)  # a token that begins no word can only rewind
    assert asked(piece, [1, 2, 3, 101], places, FRAMES) == 0


def test_where_words_alone_tell_a_rewind_punctuation_may_look_anywhere() -> None:
    """It does not even move the place that the next token is compared with; the first token tells one in any case."""
    places = [0, 100, 120, 140, 20]
    assert asked(guard(margin=4, rewind=60, words_only=True), [1, 2, 3, 101], places, FRAMES) is None
    watching = guard(margin=4, rewind=60, words_only=True)
    assert asked(watching, [1, 2, 101, 3], [0, 100, 120, 20, 30], FRAMES) == 0
    assert watching.halt == Halt("rewind", 3, 3)
    first = guard(forced=(7,), margin=4, rewind=60, last_frame=150, words_only=True)
    assert asked(first, [101], [0, 50], FRAMES) == 0


def test_without_a_margin_there_is_no_frontier() -> None:
    assert asked(guard(margin=None), list(range(18)), ramp(190), FRAMES) is None
    assert asked(guard(margin=None, rewind=60), [1, 2, 3, 4], [0, 100, 120, 190, 50], FRAMES) == 0


def test_a_glance_back_does_not() -> None:
    assert asked(guard(margin=4, back=15), [1, 2, 3, 4], [0, 100, 120, 140, 135], FRAMES) is None
    assert asked(guard(margin=4), [1, 2, 3, 4], [0, 100, 120, 140, 110], FRAMES) is None


def test_a_word_may_look_back_just_so_far() -> None:
    places = [0, 150, 100]
    first, second = (attended_frame(looking_at(places[:count], FRAMES), FRAMES) for count in (2, 3))
    assert asked(guard(margin=4, back=first - second), [1, 2], places, FRAMES) is None
    assert asked(guard(margin=4, back=first - second - 1), [1, 2], places, FRAMES) == 1


def test_the_rewind_has_a_bound_too() -> None:
    places = [0, 150, 100]
    first, second = (attended_frame(looking_at(places[:count], FRAMES), FRAMES) for count in (2, 3))
    assert asked(guard(margin=4, rewind=first - second), [1, 2], places, FRAMES) is None
    assert asked(guard(margin=4, rewind=first - second - 1), [1, 2], places, FRAMES) == 0


def test_only_words_are_compared() -> None:
    """Pieces of words and punctuation may look anywhere, and the word after them is compared with the word before."""
    assert asked(guard(margin=4, back=15), [1, 201, 101, 2], [0, 100, 60, 50, 120], FRAMES) is None
    assert asked(guard(margin=4, back=15), [1, 201, 101, 2], [0, 100, 60, 50, 70], FRAMES) == 3


def test_what_looks_into_silence_after_the_audio_is_dropped() -> None:
    """Cropped to the audio, its attention would be anywhere."""
    places = [0, 40, 80, 150]  # the third token looks after frame 100
    cropped = FrontierGuard(Frontier(margin=2, rewind=None), scene(100), [0, 1])
    assert asked(cropped, [1, 2, 3], places, FRAMES) is None
    seen = FrontierGuard(Frontier(margin=2, rewind=None), replace(scene(100), silence=100), [0, 1])
    assert asked(seen, [1, 2, 3], places, FRAMES) == 2
    assert seen.halt == Halt("frontier", 2, 3)


def test_a_guess_that_looks_back_is_cut_too() -> None:
    watching = guard(margin=25, lookahead_tokens=9, back=15)
    assert asked(watching, list(range(30)), [*ramp(190), 195, 150, 160, 170], FRAMES) == 19
    assert watching.halt == Halt("frontier", 16, 16)


def nearly_unseen() -> FloatArray:
    """Three queries that look at frames 20, 60 and 100 of 200; after 150 is next to nothing, the last sees a bit."""
    attention = looking_at([20, 60, 100], FRAMES)
    attention[..., 150:] = 1e-6
    attention[:, -1, 160:170] = 3e-6
    return attention


def test_frames_that_nobody_looks_at_do_not_count() -> None:
    assert attended_frame(nearly_unseen(), FRAMES) >= 150  # as published
    assert attended_frame(nearly_unseen(), FRAMES, floor=0.1) == pytest.approx(100, abs=SLACK)
    assert [guard(margin=45, floor=floor).check([1], nearly_unseen()) for floor in (0.0, 0.1)] == [0, None]


def test_it_needs_attention_and_possible_settings() -> None:
    with pytest.raises(ValueError, match="alignment heads"):
        guard().check([1], None)
    assert Frontier(rewind=1).rewind == 1
    with pytest.raises(OptionError, match="rewind >= 1"):
        Frontier(rewind=0)
    for least in ({"margin": -1}, {"lookahead_tokens": -1}, {"back": -1}, {"floor": -0.1}):
        with pytest.raises(OptionError, match="back and floor >= 0"):
            Frontier(**least)


@pytest.mark.parametrize("floor", slow_but([0.0, 0.2], 0.2))
def test_the_attended_frame_head_by_head(floor: float) -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        attention = rng.gamma(0.3, size=(3, 4, 50)).astype(np.float32)
        attention[:, :, 7] = 0.5  # all look there alike
        heads = []
        for head in attention[..., :33]:  # three frames more than count, for the median
            spread = head.std(axis=0) + floor * head.max()
            scores = (head[-1] - head.mean(axis=0)) / np.where(spread > 0, spread, np.inf)
            padded = np.pad(scores, 3, mode="reflect")
            heads.append([np.median(padded[at : at + 7]) for at in range(30)])
        assert attended_frame(attention, 30, floor) == np.mean(heads, axis=0).argmax()
        assert attended_frame(attention, 30) == attended_frame(attention, 30, 0.0)
