import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.decoding.guards import RepetitionGuard, SameToken
from whispertide.errors import OptionError

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


def test_the_first_token_behind_text_is_no_text() -> None:
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


def test_how_much_must_repeat_and_what_is_kept_can_be_chosen() -> None:
    assert stopped([1, *[7, 8] * 9], RepetitionGuard(TEXT_END, copies=2, run=4, keep=1)) == [1, 7, 8]
    assert stopped([*range(9)] * 9, RepetitionGuard(TEXT_END, longest=8)) is None
    assert stopped([*range(8)] * 9, RepetitionGuard(TEXT_END, longest=8)) == [*range(8)] * 2


@pytest.mark.parametrize("settings", [{"copies": 1}, {"keep": 0}, {"keep": 4}])
def test_senseless_settings_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="keep"):
        RepetitionGuard(TEXT_END, **settings)


def test_the_same_token_three_times_ends_the_decode_and_leaves_none_of_them() -> None:
    guard = SameToken(3)
    assert stopped([1, 2, 7, 7, 7, 7, 3], guard) == [1, 2]
    assert stopped([7, 7, 7], guard) == []
    assert stopped([7, 7, 1, 7, 7, 1, 7, 8, 7, 8, 7, 8], guard) is None
    assert stopped([1, 7, 7, 2], SameToken(2)) == [1]
    with pytest.raises(OptionError, match="copies"):
        SameToken(1)
