from dataclasses import replace

import pytest

from evaluation_traces import reference, trace
from whispertide_lab.evaluation.agreement import Agreement, agreement, differences

SAID = reference(("the", 0.5, 1.0), ("cat", 1.0, 1.5), ("sat", 1.5, 2.0))


def test_the_same_words_are_compared_by_hand() -> None:
    simulated = trace((2.0, "the", "cat"), (3.0, "cat sat", ""))
    real = trace((2.25, "the cat", ""), (3.5, "sat", ""))
    assert differences(SAID, simulated, real) == (0.25, -0.75, 0.5)
    assert differences(SAID, real, simulated) == (-0.25, 0.75, -0.5)
    assert differences(SAID, real, real) == (0.0, 0.0, 0.0)


def test_words_that_one_did_not_get_right_are_left_out() -> None:
    assert differences(SAID, trace((2.0, "the bat sat", "")), trace((3.0, "the cat sat", ""))) == (1.0, 1.0)
    assert differences(SAID, trace((2.0, "dogs", "")), trace((3.0, "the cat sat", ""))) == ()


def test_figures() -> None:
    found = agreement((0.25, -0.75, 0.5))
    assert found is not None
    assert found.p90_s == pytest.approx(0.7)
    assert replace(found, p90_s=0.7) == Agreement(3, 0.0, 0.5, 0.7)
    assert agreement(()) is None
