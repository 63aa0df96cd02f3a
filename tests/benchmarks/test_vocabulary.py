"""What screens of the vocabulary can prove, on made-up rows."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmark_scripts import benchmark

WIDTH, ROWS, STEPS = 64, 500, 20


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    pytest.importorskip("torch", reason="the extra train is not installed")
    with benchmark("vocabulary") as module:
        yield module


def made_up(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    dice = np.random.default_rng(seed)
    rows = dice.standard_normal((ROWS, WIDTH)).astype(np.float32)
    return rows, dice.standard_normal((STEPS, WIDTH)).astype(np.float32)


def test_bounds_hold(script: Any) -> None:
    rows, states = made_up()
    exact = states @ rows.T
    for screen in (script.by_rank(WIDTH // 2, rows, states, states), script.by_bits(rows, states)):
        assert (np.abs(screen.logits - exact) <= screen.bound + 1e-4).all()
        assert (script.oracle(screen, exact).bound >= np.abs(screen.logits - exact) - 1e-6).all()


def test_states_of_low_rank_need_one_candidate(script: Any) -> None:
    rows, states = made_up()
    flat = states.copy()
    flat[:, WIDTH // 4 :] = 0
    name, _, candidates, worst, _, known = script.proven(
        script.by_rank(WIDTH // 4, rows, flat, flat), flat @ rows.T, WIDTH
    )
    assert (name, candidates, worst, known) == (f"rank {WIDTH // 4}", "1", "1", "100.0")


def test_a_wrong_bound_is_noticed(script: Any) -> None:
    rows, states = made_up()
    screen = script.by_bits(rows, states)
    with pytest.raises(AssertionError, match="4 bits"):
        script.proven(replace(screen, bound=screen.bound / 100), states @ rows.T, WIDTH)


def test_equal_rows_count_once(script: Any) -> None:
    rows, _ = made_up()
    assert len(script.distinct(np.concatenate([rows, rows[:3] * 1.0001]))) == ROWS
