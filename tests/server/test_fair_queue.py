"""Turns by keys, then by sessions: whoever needs less than a share waits for one step, and nobody is forgotten."""

import heapq
from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.server.fair_queue import FairQueue


@dataclass(eq=False)
class Session:
    name: str
    owner: str = ""
    is_parked: bool = False
    worked: float = 0.0


def taken(queue: FairQueue[Session]) -> Session:
    one = queue.take()
    assert one is not None
    return one


def shared(queue: FairQueue[Session], turns: int) -> list[str]:
    """Who gets so many turns, one after another, if all have more to do for ever."""
    order = []
    for _ in range(turns):
        one = taken(queue)
        order.append(one.name)
        # No two steps take the same time.
        queue.charge(one, 1 + 0.001 * len(order))
        queue.add(one)
    return order


def filled(*sessions: Session) -> FairQueue[Session]:
    queue = FairQueue[Session]()
    for one in sessions:
        queue.add(one)
    return queue


def test_sessions_of_one_key_take_turns() -> None:
    assert shared(filled(*map(Session, "abc")), 7) == list("abcabca")


def test_keys_come_first_then_their_sessions() -> None:
    """However many sessions a key has, half of the turns are the other's."""
    order = shared(filled(*(Session(f"a{n}", "A") for n in range(4)), Session("b", "B")), 16)
    assert order.count("b") == 8
    assert [order.count(f"a{n}") for n in range(4)] == [2, 2, 2, 2]


@pytest.mark.parametrize("owner", ["A", "B"], ids=["of the same key", "of another key"])
def test_whoever_needs_less_than_a_share_is_next(owner: str) -> None:
    """Also after a long silence, and however much the others have had by then: for that is nothing owed."""
    queue = filled(*(Session(f"a{n}", "A") for n in range(8)))
    honest = Session("b", owner)
    for _ in range(5):
        shared(queue, 50)
        queue.add(honest)
        order: list[str] = []
        while (one := taken(queue)) is not honest:
            order.append(one.name)
            queue.charge(one, 1.0)
            queue.add(one)
        queue.charge(honest, 0.5)
        assert len(order) <= 1
    assert shared(queue, 80).count("a0") in (9, 10, 11)


def test_those_whose_client_is_gone_come_last() -> None:
    """Of their own key, however short they have come. Another key's clients do not take their turns from them."""
    left = [Session(f"left{n}", "A", is_parked=True) for n in range(3)]
    queue = filled(*left, Session("a", "A"), Session("b", "B"))
    order = shared(queue, 10)
    assert (order.count("a"), order.count("b")) == (5, 5)
    left[0].is_parked = False
    assert "left0" in shared(queue, 3)


def test_sessions_that_come_and_go_take_no_more_than_their_key_has() -> None:
    """A new session each time, with one long step: what a key has had does not begin anew with it."""
    honest = Session("b", "B")
    queue = filled(honest)
    turns = []
    for number in range(40):
        queue.add(Session(f"a{number}", "A"))
        one = taken(queue)
        turns.append(one.owner)
        queue.charge(one, 3.0 if one.owner == "A" else 1.0)
        if one is honest:
            queue.add(honest)
    assert turns.count("B") == pytest.approx(30, abs=2)


def test_who_waits_no_longer_is_not_taken() -> None:
    one, other = Session("a"), Session("b")
    queue = filled(one, other)
    queue.remove(one)
    assert len(queue) == 1
    assert taken(queue) is other
    assert queue.take() is None


def test_a_key_with_nothing_at_work_is_found_apart() -> None:
    """Whatever its tag: it has waited for long rounds of others."""
    a, more, b, last = Session("a", "A"), Session("more", "A"), Session("b", "B", worked=9.0), Session("last", "B")
    queue = filled(a, more)
    assert taken(queue) is a
    assert queue.take(of_idle_key=True) is None
    assert len(queue) == 1
    queue.add(b)
    assert queue.take(of_idle_key=True) is b
    queue.add(last)
    assert queue.take(of_idle_key=True) is None
    queue.charge(a, 1.0)
    assert queue.take(of_idle_key=True) is more


@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.booleans(), st.floats(0.05, 5)), min_size=1, max_size=12),
    st.integers(1, 3),
)
def test_nobody_is_forgotten_and_shares_are_even(everybody: list[tuple[str, bool, float]], workers: int) -> None:
    """Whatever a step takes, and however many workers there are: sessions of a key that always want more have the same,
    but for what is under way.
    """
    sessions = [Session(str(number), owner, left) for number, (owner, left, _) in enumerate(everybody)]
    costs = {one: cost for one, (_, _, cost) in zip(sessions, everybody, strict=True)}
    queue, had = filled(*sessions), dict.fromkeys(sessions, 0.0)
    at_work: list[tuple[float, int, Session]] = []
    now, turns = 0.0, count()
    for _ in range(600):
        # One more than the workers, for a key of which none is at work.
        while len(at_work) <= workers and (one := queue.take(of_idle_key=len(at_work) == workers)) is not None:
            heapq.heappush(at_work, (now + costs[one], next(turns), one))
        now, _, one = heapq.heappop(at_work)
        had[one] += costs[one]
        queue.charge(one, costs[one])
        queue.add(one)
    for owner in "ABC":
        shares = [had[one] for one in sessions if one.owner == owner and not one.is_parked]
        if len(shares) > workers + 1:  # else one has nobody to share with
            assert max(shares) - min(shares) <= 5 * (workers + 2)
