"""AlignAtt's rules on attention that is written down: ALGORITHM names as in docs/attention.md."""

import numpy as np
import pytest

from attention_ramps import SLACK, asked, looking_at, scene
from whispertide.decoding.alignment import sharpen
from whispertide.decoding.frontier import Frontier, FrontierGuard
from whispertide.decoding.watch import Halt, attended_frame
from whispertide.errors import OptionError

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


def test_frames_behind_the_audio_do_not_count() -> None:
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


def test_a_guess_may_follow_behind_the_frontier() -> None:
    watching = guard(margin=25, beyond=2)
    assert asked(watching, list(range(30)), [*ramp(190), 191, 192, 193], FRAMES) == 18
    assert watching.halt == Halt("frontier", 16, 16)  # firm are those before it


def test_it_needs_attention_and_possible_settings() -> None:
    with pytest.raises(ValueError, match="alignment heads"):
        guard().check([1], None)
    with pytest.raises(OptionError, match="rewind >= 1"):
        Frontier(rewind=0)
