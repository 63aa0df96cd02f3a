"""The early stop: what repeats itself ends a decode, at the same token every time."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.errors import OptionError
from whispertide.methods.agreement.early_stop import EarlyStop, EarlyStopGuard

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,;"


def spelled(tokens: Any) -> str:
    return "".join(ALPHABET[token % len(ALPHABET)] for token in tokens)


def guard(tokens: int = 20, ratio: float = 1.5) -> EarlyStopGuard:
    model: Any = SimpleNamespace(tokenizer=SimpleNamespace(decode=spelled))
    scene: Any = None
    return EarlyStop(tokens, ratio).guard(scene, model)


def stops_at(one: EarlyStopGuard, tokens: list[int]) -> tuple[int, int] | None:
    """After which token it stops, and how many it keeps."""
    for count in range(1, len(tokens) + 1):
        keep = one.check(tokens[:count])
        if keep is not None:
            return count, keep
    return None


def test_text_that_repeats_itself_ends_where_the_newest_tokens_begin() -> None:
    varied, loop = list(range(25)), [1, 2] * 30
    one = guard()
    stopped = stops_at(one, varied + loop)
    assert stopped is not None
    count, keep = stopped
    assert keep == count - 20
    assert 25 <= count <= 25 + 24
    assert one.halt is not None
    assert (one.halt.reason, one.halt.index, one.halt.token) == ("early-stop", keep, (varied + loop)[keep])


def test_varied_text_goes_on() -> None:
    one = guard()
    assert stops_at(one, list(range(60))) is None
    assert one.halt is None


def test_nothing_is_looked_at_until_there_are_enough_tokens() -> None:
    assert stops_at(guard(tokens=60), [7] * 59) is None
    assert stops_at(guard(tokens=60), [7] * 60) == (60, 0)


@given(head=st.lists(st.integers(0, 60), max_size=30), loop=st.lists(st.integers(0, 60), min_size=1, max_size=3))
def test_what_was_before_is_kept(head: list[int], loop: list[int]) -> None:
    stopped = stops_at(guard(), [*head, *loop * 60])
    assert stopped is not None
    assert stopped[1] >= 0


@pytest.mark.parametrize(("tokens", "ratio"), [(1, 2.4), (60, 1.0)])
def test_a_rule_that_would_stop_everything_is_refused(tokens: int, ratio: float) -> None:
    with pytest.raises(OptionError, match="expected tokens >= 2 and ratio > 1"):
        EarlyStop(tokens, ratio)
