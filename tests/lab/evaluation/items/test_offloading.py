"""The arithmetic of offloading: which order of utterances saves how much."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whispertide.options import DecodeOptions
from whispertide_lab.evaluation.items.commands import Sentence
from whispertide_lab.evaluation.items.offloading import (
    POINT,
    Both,
    by_chance,
    choice,
    heard_there,
    mean_wait_s,
    needed,
)


@dataclass
class Remote:
    """Notes what it is asked for."""

    asked: list[DecodeOptions] = field(default_factory=list)

    def transcribe(self, audio: Any, *, options: DecodeOptions) -> Any:
        self.asked.append(options)
        return SimpleNamespace(text="")


def test_the_server_knows_the_language() -> None:
    """A multilingual one would take some learners of English for Chinese."""
    remote: Any = Remote()
    heard_there(remote, Sentence(("yes",), np.zeros(9, np.float32), language="de"))
    assert [options.language for options in remote.asked] == ["de"]


def both(local: int, remote: int, surprise: float = 0.0, entropy: float = 0.0) -> Both:
    return Both(10, 2.0, {"perplexity": surprise, "entropy": entropy}, local, 0.03, remote, 0.2)


# perplexity finds the two bad ones, entropy does not
HEARD = [both(0, 0, 0.1, 0.9), both(5, 1, 2.0, 0.1), both(1, 1, 0.2, 0.8), both(4, 0, 3.0, 0.2)]


def test_errors_fall_as_the_first_are_sent() -> None:
    found = choice("perplexity", HEARD, [each.signals["perplexity"] for each in HEARD])
    assert found.errors == pytest.approx((10 / 40, 6 / 40, 2 / 40, 2 / 40, 2 / 40))
    assert (found.needed, found.area) == (2, 1.0)


def test_a_bad_order_needs_all() -> None:
    found = choice("entropy", HEARD, [each.signals["entropy"] for each in HEARD])
    assert (found.needed, found.area) == (4, 0.0)


def test_random_choice_is_a_line() -> None:
    found = by_chance(HEARD)
    assert found.errors == pytest.approx((0.25, 0.2, 0.15, 0.1, 0.05))
    assert found.needed == 3, "both bad ones, which take two, three or four of an order: 3.3 on average"


def test_chance_is_judged_as_signals_are() -> None:
    """By where its curves first get there: where one of ten is bad, that is after half of them, on average."""
    heard = [*[both(0, 0)] * 9, both(10, 0)]
    line = by_chance(heard)
    assert line.needed in (5, 6)
    assert needed(line.errors, POINT) == 9
    assert by_chance(heard) == line, "the same orders each time"


def test_a_point_more_is_allowed() -> None:
    heard = [*[both(0, 0, 0.1)] * 9, both(1, 0, 0.5)]  # one word of a hundred
    assert choice("perplexity", heard, [each.signals["perplexity"] for each in heard]).needed == 0


def test_where_the_server_is_worse_nothing_is_sent() -> None:
    heard = [both(0, 3), both(1, 2)]
    assert choice("perplexity", heard, [0.1, 0.2]).needed == by_chance(heard).needed == 0


def test_a_wait_has_the_link_and_the_server_in_it() -> None:
    scores = [each.signals["perplexity"] for each in HEARD]
    assert mean_wait_s(HEARD, scores, 0, (1.0, 64e3)) == pytest.approx(0.03)
    # 2 s of 16 bits at 16 kHz are 512 kbit: 8 s over the link
    assert mean_wait_s(HEARD, scores, 4, (1.0, 64e3)) == pytest.approx(9.2)
    assert mean_wait_s(HEARD, scores, 2, (1.0, 64e3)) == pytest.approx((9.2 + 0.03) / 2)


def test_a_choice_after_the_decode_makes_what_is_sent_wait_for_it() -> None:
    scores = [each.signals["perplexity"] for each in HEARD]
    at_once, later = (mean_wait_s(HEARD, scores, 2, (1.0, 64e3), decode_first=first) for first in (False, True))
    assert later - at_once == pytest.approx(0.03 / 2), "half of them are sent, each of them 0.03 s later"
