"""benchmarks/scale.py: its arithmetic, and that lab/docs/scale.md is what it writes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmark_scripts import benchmark

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def scale() -> Iterator[Any]:
    with benchmark("scale") as module:
        yield module


@pytest.fixture
def given(scale: Any) -> Any:
    """Ten sessions a machine; 100 sessions are half of what a stream takes."""
    return scale.Inputs(
        per_core=2.5,
        bytes_per_s=1_000.0,
        messages_per_s=2.0,
        kept_bytes=5_000.0,
        nats_messages_per_s=400.0,
        failover_s=0.1,
        cores=4,
        price=0.5,
    )


@pytest.mark.slow
def test_the_page_is_what_the_command_writes(scale: Any) -> None:
    figures = json.loads((ROOT / "benchmarks/scale.json").read_text())
    assert (ROOT / "lab/docs/scale.md").read_text() == scale.page(figures, 8, 0.04), "run benchmarks/scale.py --write"


def test_a_plan_by_hand(scale: Any, given: Any) -> None:
    """45 sessions: five servers, and one to spare."""
    one = scale.plan(45, given)
    assert (one.cells, one.servers, one.nats) == (1, 6, 3)
    assert (one.messages_per_s, one.bytes_per_s, one.disk) == (90, 45_000, 45 * 5_000 * 3)
    assert one.cost == pytest.approx(9 * 4 * 0.5 / 45)
    assert one.headroom == pytest.approx(15 / 60)
    assert one.back_s == pytest.approx(8 * 0.1)
    assert one.refused == pytest.approx(5 / 45), "four servers are left of six"


@pytest.mark.parametrize("live", [1, 9, 10, 11, 99, 100, 101, 1_234])
def test_a_server_may_die(scale: Any, given: Any, live: int) -> None:
    one = scale.plan(live, given)
    each = one.servers // one.cells
    assert each >= 2
    assert (each - 1) * given.per_machine >= live / one.cells


@pytest.mark.parametrize(("live", "cells"), [(100, 1), (101, 2), (1_000, 10)])
def test_no_stream_gets_more_than_its_share(scale: Any, given: Any, live: int, cells: int) -> None:
    assert scale.plan(live, given).cells == cells


def test_what_breaks_first_stands_first(scale: Any, given: Any) -> None:
    limits = {"connections": 150, "places": 300, "store": 1e9}
    found = [count for count, _, _ in scale.breaks(given, limits)]
    assert found == sorted(found)
    assert found[:3] == [150, 200, 300], "the proxy, then messages (400 / 2), then places"


class TestGrowth:
    @pytest.fixture
    def small(self, scale: Any) -> Any:
        return scale.Scaling(per_replica=10, threshold=5.0, least=2, most=1_000, poll_s=15)

    def test_nobody_is_refused_where_nobody_comes(self, scale: Any, small: Any) -> None:
        assert scale.refused(small, 10, 0.0, 60) == 0

    def test_places_are_all_there_is_until_a_replica_has_started(self, scale: Any, small: Any) -> None:
        """Two replicas, 20 places, 10 of them free; the first new replica is there after 100 s."""
        assert scale.refused(small, 10, 1.0, 100, for_s=10) == 0
        assert scale.refused(small, 10, 1.0, 100, for_s=14) == pytest.approx(4)

    def test_no_more_than_there_may_be(self, scale: Any, small: Any) -> None:
        full = replace(small, most=2)
        assert scale.refused(full, 10, 0.5, 0, for_s=100) == pytest.approx(40)

    def test_a_slow_start_bears_less_growth(self, scale: Any, small: Any) -> None:
        quick, slow = (scale.fastest_growth(small, 50, start_s) for start_s in (10, 120))
        assert quick > slow > 0
        assert scale.refused(small, 50, slow / 60, 120, 900) == 0
        assert scale.refused(small, 50, 1.05 * slow / 60, 120, 900) > 0
