from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide_lab.compression.choice import by_thresholds, forced, size_of, within
from whispertide_lab.compression.sensitivity import UNCHANGED, Option, Sensitivity, inversions


def tensor(name: str, weights: int, *kl: float) -> Sensitivity:
    """With 2, 4 and 8 bits of these divergences."""
    options = [Option(bits, weights * bits // 8, value, value) for bits, value in zip((2, 4, 8), kl, strict=True)]
    return Sensitivity(name, weights, (*options, Option(UNCHANGED, 2 * weights, 0.0, 0.0)))


TENSORS = [tensor("decoder.a", 1000, 9.0, 3.0, 1.0), tensor("decoder.b", 4000, 0.8, 0.2, 0.1)]


def kl_of(tensors: list[Sensitivity], bits: dict[str, int]) -> float:
    return sum(one.at(bits[one.name]).kl for one in tensors)


def test_bytes_go_where_they_gain_most() -> None:
    assert within(TENSORS, 1250) == {"decoder.a": 2, "decoder.b": 2}
    assert within(TENSORS, 1500) == {"decoder.a": 4, "decoder.b": 2}
    assert within(TENSORS, 2000) == {"decoder.a": 8, "decoder.b": 2}
    assert within(TENSORS, 10**6) == {"decoder.a": UNCHANGED, "decoder.b": UNCHANGED}


def test_a_large_gain_after_a_small_one_is_seen() -> None:
    late = [tensor("decoder.late", 1000, 9.0, 8.9, 0.1), tensor("decoder.b", 1000, 1.0, 0.7, 0.6)]
    assert within(late, 1250) == {"decoder.late": 8, "decoder.b": 2}


@given(
    st.lists(st.tuples(st.integers(1, 9), st.lists(st.floats(0, 10), min_size=3, max_size=3)), min_size=1, max_size=3),
    st.integers(0, 60_000),
)
def test_the_choice_fits_and_is_the_best_at_its_own_size(drawn: list[tuple[int, list[float]]], budget: int) -> None:
    tensors = [tensor(str(i), 1000 * size, *kl) for i, (size, kl) in enumerate(drawn)]
    chosen = dict(within(tensors, budget))
    fewest = size_of(tensors, forced(tensors, 2))
    assert size_of(tensors, chosen) <= max(budget, fewest)
    names = [one.name for one in tensors]
    every = (dict(zip(names, bits, strict=True)) for bits in product((2, 4, 8, UNCHANGED), repeat=len(names)))
    # more bits never make it worse; a single step more would not fit, or would not help
    smaller = [bits for bits in every if size_of(tensors, bits) <= fewest]
    assert kl_of(tensors, chosen) <= min(kl_of(tensors, bits) for bits in smaller) + 1e-9


def test_published_thresholds() -> None:
    """From 0.98 times the worst at the fewest bits, 8.82, to 1.02 times the worst at the most, 1.02; 3 between."""
    few, middle, many = by_thresholds(TENSORS)
    assert few == {"decoder.a": 4, "decoder.b": 2}
    assert middle == {"decoder.a": 8, "decoder.b": 2}  # sqrt(8.82 * 1.02) is 2.9994
    assert many == {"decoder.a": 8, "decoder.b": 2}


def test_what_no_width_is_good_enough_for_is_kept() -> None:
    poor = [*TENSORS, tensor("decoder.c", 1000, 9.0, 9.0, 9.0)]
    assert by_thresholds(poor)[-1]["decoder.c"] in (2, UNCHANGED)
    assert by_thresholds(poor)[0]["decoder.c"] == UNCHANGED


def test_the_encoder_has_thresholds_of_its_own() -> None:
    tensors = [*TENSORS, tensor("encoder.a", 1000, 9e-4, 3e-4, 1e-4)]
    assert [bits["encoder.a"] for bits in by_thresholds(tensors)] == [4, 8, 8]


@pytest.mark.parametrize(("kl", "share"), [((3.0, 2.0, 1.0), 0.0), ((3.0, 4.0, 1.0), 0.5)])
def test_inversions(kl: tuple[float, ...], share: float) -> None:
    assert inversions([tensor("decoder.a", 8, *kl)]) == share
