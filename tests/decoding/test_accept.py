"""Which tokens are accepted: the best of a beam, or drawn at a temperature."""

from typing import Any

import numpy as np
import pytest

from whispertide.decoding.accept import GREEDY, Beam, Choice, Sampling, sample
from whispertide.errors import GraphError, OptionError
from whispertide.graphs.contract import TOP
from whispertide.types import FloatArray


class Told:
    """A distribution whose log-probabilities are written down."""

    def __init__(self, *rows: dict[int, float], size: int = 6) -> None:
        self.rows = np.full((len(rows), size), -np.inf, np.float32)
        for row, chances in zip(self.rows, rows, strict=True):
            for token, chance in chances.items():
                row[token] = np.log(chance)

    def logprobs(self) -> FloatArray:
        return self.rows

    def best(self, count: int) -> Any:
        ids = np.argsort(-self.rows, axis=1, kind="stable")[:, :count]
        return ids, np.take_along_axis(self.rows, ids, axis=1), np.zeros(ids.shape, np.float32)


def places(choices: list[Choice]) -> list[tuple[int, int]]:
    return [(choice.row, choice.token) for choice in choices]


class TestBeam:
    def test_continuations_are_ranked_by_the_whole_text(self) -> None:
        following = Told({0: 0.6, 1: 0.4}, {2: 0.9, 3: 0.1})
        found = Beam(2).choose(following, [np.log(0.5), np.log(0.2)], 2)  # type: ignore[arg-type]
        assert places(found) == [(0, 0), (0, 1), (1, 2), (1, 3)]  # 0.3, 0.2, 0.18, 0.02
        assert found[0].logprob == pytest.approx(np.log(0.6))

    def test_a_forbidden_token_is_no_choice(self) -> None:
        assert places(Beam(3).choose(Told({4: 1.0}), [0.0], 3)) == [(0, 4)]  # type: ignore[arg-type]

    def test_one_more_than_can_go_on_is_looked_at(self) -> None:
        """One of a row's may be the end of the text, which takes no place."""
        assert places(GREEDY.choose(Told({0: 0.5, 1: 0.3, 2: 0.2}), [0.0], 1)) == [(0, 0), (0, 1)]  # type: ignore[arg-type]

    def test_patience_is_how_many_have_to_end(self) -> None:
        assert (Beam(5).enough, Beam(5, 2.0).enough, Beam(3, 0.5).enough) == (5, 10, 2)

    def test_the_graph_returns_enough_candidates_or_all_are_asked_for(self) -> None:
        assert not Beam(TOP - 1).whole
        assert Beam(TOP).whole

    @pytest.mark.parametrize(("rows", "patience"), [(0, 1.0), (2, 0.2)])
    def test_a_beam_that_never_ends_is_refused(self, rows: int, patience: float) -> None:
        with pytest.raises(OptionError, match="beam"):
            Beam(rows, patience)


class TestSampling:
    def test_tokens_come_as_often_as_they_are_likely(self) -> None:
        rows = np.log(np.tile(np.array([[0.7, 0.2, 0.1, 1e-30]], np.float32), (4000, 1)))
        drawn = np.bincount(sample(rows, 1.0, np.random.default_rng(0)), minlength=4) / 4000
        np.testing.assert_allclose(drawn, [0.7, 0.2, 0.1, 0.0], atol=0.03)

    def test_a_low_temperature_takes_the_likeliest(self) -> None:
        rows = np.log(np.tile(np.array([[0.3, 0.4, 0.3]], np.float32), (100, 1)))
        assert set(sample(rows, 0.01, np.random.default_rng(0))) == {1}

    def test_a_forbidden_token_is_never_drawn(self) -> None:
        class Highest:
            def random(self, count: int) -> FloatArray:
                return np.ones(count, np.float32)  # not below 1, as draws are: rounding may bring a product there

        rows = np.array([[0.0, 0.0, -np.inf, -np.inf]], np.float32)
        assert sample(rows, 1.0, Highest()) == [1]  # type: ignore[arg-type]

    def test_a_model_that_computes_no_numbers_is_said_to(self) -> None:
        with pytest.raises(GraphError, match="fp32"):
            sample(np.full((1, 3), np.nan, np.float32), 1.0, np.random.default_rng(0))

    def test_one_row_becomes_several_and_each_then_draws_for_itself(self) -> None:
        way = Sampling(1.0, 3, np.random.default_rng(0))
        first = Choice(0, 5, -0.1)
        found = way.choose(Told({0: 0.5, 1: 0.5}), [0.0], 3, first)  # type: ignore[arg-type]
        assert found[0] == first
        assert [choice.row for choice in found] == [0, 0, 0]
        found = way.choose(Told({0: 1.0}, {1: 1.0}, {2: 1.0}), [0.0] * 3, 3)  # type: ignore[arg-type]
        assert places(found) == [(0, 0), (1, 1), (2, 2)]
        assert (way.enough, way.independent, way.whole) == (3, True, True)

    @pytest.mark.parametrize(("temperature", "rows"), [(0.0, 1), (0.5, 0)])
    def test_what_is_no_sampling_is_refused(self, temperature: float, rows: int) -> None:
        with pytest.raises(ValueError, match="temperature"):
            Sampling(temperature, rows, np.random.default_rng(0))
