"""Time warping and filters: by hand, and at random against openai-whisper."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from reference import openai_timing
from whispertide.decoding.token_words import median_filter, sharpen, warp
from whispertide.types import FloatArray


def path_cost(cost: FloatArray, starts: Any) -> float:
    """What the path costs whose rows begin at `starts`, each lasting until the next one begins.

    A step from one row to the next may be diagonal or straight down: then both rows have the column.
    """
    rows, columns = cost.shape
    best = np.inf
    bounds = [*starts.tolist(), columns]
    for pattern in range(2 ** (rows - 1)):  # does row i end before, or at, the column where row i + 1 begins?
        total, valid = 0.0, True
        for row in range(rows):
            shared = row + 1 < rows and bool(pattern >> row & 1)
            end = bounds[row + 1] + shared
            valid &= end > bounds[row]
            total += float(cost[row, bounds[row] : end].sum())
        if valid:
            best = min(best, total)
    return best


def exhaustive(cost: FloatArray) -> float:
    """The cheapest path from corner to corner, by the textbook recurrence."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0
    for row in range(1, rows + 1):
        for column in range(1, columns + 1):
            before = (total[row - 1, column - 1], total[row - 1, column], total[row, column - 1])
            total[row, column] = cost[row - 1, column - 1] + min(before)
    return float(total[-1, -1])


class TestWarp:
    def test_follows_a_clear_diagonal(self) -> None:
        cost = np.ones((4, 12), np.float32)
        for row, (start, stop) in enumerate([(0, 2), (2, 7), (7, 8), (8, 12)]):
            cost[row, start:stop] = -1
        assert warp(cost).tolist() == [0, 2, 7, 8]

    def test_more_tokens_than_frames(self) -> None:
        starts = warp(np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32))
        assert starts[0] == 0
        assert starts.max() <= 2
        assert (np.diff(starts) >= 0).all()

    @given(seed=st.integers(0, 10_000), rows=st.integers(1, 6), columns=st.integers(1, 12))
    def test_is_the_cheapest_path(self, seed: int, rows: int, columns: int) -> None:
        cost = np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)
        starts = warp(cost)
        assert starts[0] == 0
        assert path_cost(cost, starts) == pytest.approx(exhaustive(cost), abs=1e-4)

    @pytest.mark.slow
    def test_equals_openai_whisper(self) -> None:
        timing = openai_timing()
        rng = np.random.default_rng(7)
        for rows, columns in [(1, 1), (1, 9), (9, 1), (5, 40), (40, 5), (60, 700), (110, 1500)]:
            scores = rng.normal(size=(rows, columns)).astype(np.float32)
            text, frames = timing.dtw_cpu(-scores.astype(np.float64))
            begins = np.pad(np.diff(text), (1, 0), constant_values=1).astype(bool)
            np.testing.assert_array_equal(warp(-scores), frames[begins])


class TestMedianFilter:
    def test_mirrors_at_the_ends(self) -> None:
        values = np.array([[9, 1, 2, 3, 4, 5, 0, 7]], np.float32)
        assert median_filter(values).tolist() == [[2, 2, 3, 3, 3, 3, 4, 4]]

    def test_leaves_a_short_axis(self) -> None:
        values = np.array([[3, 1, 2]], np.float32)
        assert median_filter(values).tolist() == [[3, 1, 2]]

    @pytest.mark.slow
    def test_equals_openai_whisper(self) -> None:
        import torch

        timing = openai_timing()
        rng = np.random.default_rng(3)
        for shape in [(2, 3, 4), (3, 40, 100), (1, 1, 7)]:
            values = rng.normal(size=shape).astype(np.float32)
            theirs = timing.median_filter(torch.from_numpy(values), 7).numpy()
            np.testing.assert_array_equal(median_filter(values), theirs)


class TestSharpen:
    @pytest.mark.slow
    def test_equals_openai_whisper(self) -> None:
        import torch

        timing = openai_timing()
        scores = torch.from_numpy(np.random.default_rng(5).normal(0, 3, (4, 20, 300)).astype(np.float32))
        crop = 170
        weights = scores[..., :crop].softmax(-1)
        deviation, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
        theirs = timing.median_filter((weights - mean) / deviation, 7).mean(axis=0).numpy()
        attention = scores.softmax(-1).numpy()[..., :crop]  # what the graph returns, cropped
        np.testing.assert_allclose(sharpen(attention), theirs, atol=1e-4)

    def test_frames_that_nobody_prefers_say_nothing(self) -> None:
        attention = np.full((2, 5, 20), 0.05, np.float32)
        assert not sharpen(attention).any()
        assert not sharpen(np.zeros((2, 5, 20), np.float32)).any()


def textbook_starts(cost: FloatArray) -> list[int]:
    """Time warping cell by cell, and the way back: right before down before diagonal where costs are equal."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0
    for row, column in np.ndindex(rows, columns):
        before = (total[row, column], total[row, column + 1], total[row + 1, column])
        total[row + 1, column + 1] = cost[row, column] + min(before)
    starts, row, column = [0] * rows, rows, columns
    while row > 1:
        ways = {(row, column - 1): 2, (row - 1, column): 1, (row - 1, column - 1): 0}
        next_row, column_before = min(ways, key=lambda cell: (total[cell], -ways[cell]))
        if next_row < row:
            starts[row - 1] = column - 1
        row, column = next_row, column_before
    return starts


def test_warping_is_that_of_the_textbook_on_ties_too() -> None:
    rng = np.random.default_rng(11)
    for _ in range(60):
        cost = rng.integers(-2, 3, size=rng.integers(1, 7, size=2)).astype(np.float32)
        assert warp(cost).tolist() == textbook_starts(cost)
    assert warp(np.zeros((3, 4), np.float32)).tolist() == [0, 0, 0]
    assert warp(np.array([[0, 0], [1, 1], [9, 0]], np.float32)).tolist() == [0, 1, 1]  # down before diagonal


@each_row("shape", [(1, 1, 7), (2, 3, 4), (5, 8, 40), (17, 9), (3, 2, 3)])
def test_the_running_median_of_seven_one_by_one(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    expected = values.copy()
    if shape[-1] > 3:
        padded = np.pad(values, [(0, 0)] * (len(shape) - 1) + [(3, 3)], mode="reflect")
        for place in range(shape[-1]):
            expected[..., place] = np.median(padded[..., place : place + 7], axis=-1)
    np.testing.assert_array_equal(median_filter(values), expected)


def test_sharpened_attention_head_by_head() -> None:
    attention = np.random.default_rng(5).gamma(0.3, size=(3, 5, 30)).astype(np.float32)
    attention[:, :, 20] = 0.5 * attention.sum(axis=-1)  # where all look alike
    heads = []
    for head in attention:
        shares = head / head.sum(axis=1)[:, None]
        spread = shares.std(axis=0)
        heads.append(median_filter((shares - shares.mean(axis=0)) / np.maximum(spread, 1e-9)))
    sharpened = sharpen(attention)
    np.testing.assert_allclose(sharpened, np.mean(heads, axis=0), atol=1e-4)
    assert np.array_equal(sharpen(attention, 2), sharpened[2:]), "all rows count, whichever are asked for"
    assert sharpened.dtype == np.float32
