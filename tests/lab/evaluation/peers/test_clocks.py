"""Feeding peers: the simulated clock by hand, and when a rewritten word counts as confirmed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.peers import clocks
from whispertide_lab.evaluation.peers.clocks import Screen, Words, settle, step_through, whole
from whispertide_lab.evaluation.trace import Shown


class Watch:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.now / 2


class Slow:
    """Commits one word per round, and needs the given seconds for each round and for the end."""

    def __init__(self, watch: Watch, takes: float) -> None:
        self.watch, self.takes = watch, takes
        self.lengths: list[int] = []

    def feed(self, samples: FloatArray) -> tuple[Words, Words]:
        self.watch.now += self.takes
        self.lengths.append(len(samples))
        return tuple(f"w{number}" for number in range(len(self.lengths))), ("guess",)

    def finish(self) -> Words:
        self.watch.now += self.takes
        return (*(f"w{number}" for number in range(len(self.lengths))), "end")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(clocks, "time", watch)
    return watch


def audio(secs: float) -> FloatArray:
    return np.zeros(round(secs * SAMPLE_RATE), np.float32)


def test_quick_rounds_wait_for_their_step(watch: Watch) -> None:
    peer = Slow(watch, 0.25)
    heard = step_through(audio(3.5), peer, 1.0)
    assert peer.lengths == [16000, 16000, 16000, 8000]
    assert [shown.at_s for shown in heard.shown] == [1.25, 2.25, 3.25, 3.75, 4.0]
    assert heard.shown[0] == Shown(1.25, ("w0",), ("guess",))
    assert heard.shown[-1] == Shown(4.0, ("end",))
    assert heard.clock == "simulated"


def test_a_slow_round_makes_the_next_one_take_all_that_arrived(watch: Watch) -> None:
    peer = Slow(watch, 2.5)
    heard = step_through(audio(6), peer, 1.0)
    # starts 1.0 (1 s of audio), 3.5 (2.5 s more), 6.0 (the rest)
    assert peer.lengths == [16000, 40000, 40000]
    assert [cost.start_s for cost in heard.rounds] == [1.0, 3.5, 6.0, 8.5]
    assert heard.shown[-1].at_s == 11.0


def test_what_others_do_on_the_machine_does_not_count(watch: Watch) -> None:
    """Half of the time the processor is somebody else's."""
    heard = step_through(audio(2), Slow(watch, 0.5), 1.0, by="processor")
    assert [shown.at_s for shown in heard.shown] == [1.25, 2.25, 2.5]
    assert heard.clock == "processor"


def test_free_computing_takes_no_time(watch: Watch) -> None:
    heard = step_through(audio(2), Slow(watch, 7.0), 1.0, by="free")
    assert [shown.at_s for shown in heard.shown] == [1.0, 2.0, 2.0]
    assert [cost.seconds for cost in heard.rounds] == [7.0, 7.0, 7.0]
    assert heard.clock == "free"


def test_offline_shows_everything_at_the_end(watch: Watch) -> None:
    def transcribe(_: FloatArray) -> str:
        watch.now += 3.0
        return " Good  day.\n"

    assert whole(audio(5), transcribe).shown == (Shown(8.0, ("Good", "day.")),)


def test_settling() -> None:
    screens = [
        Screen(1.0, ("the",), ("cap",)),
        Screen(2.0, ("the", "cat"), ("sad",)),
        Screen(3.0, ("the", "cats", "sat"), ()),  # "cat" was rewritten after it was called committed
        Screen(4.0, ("the", "cats", "sat"), ()),  # nothing new
        Screen(5.0, ("the", "cats", "sat"), ()),
    ]
    assert settle(screens) == (
        Shown(1.0, ("the",), ("cap",)),
        Shown(2.0, (), ("cat", "sad")),
        Shown(3.0, ("cats", "sat"), ()),
        Shown(5.0),
    )
    assert settle([]) == ()


def test_case_and_punctuation_that_change_later_do_not_make_a_word_later() -> None:
    screens = [Screen(1.0, ("the", "cat")), Screen(2.0, ("The", "cat.", "Sat")), Screen(3.0, ("The", "cat.", "sad"))]
    assert [(shown.at_s, shown.confirmed) for shown in settle(screens)] == [
        (1.0, ("The", "cat.")),
        (2.0, ()),
        (3.0, ("sad",)),
    ]


words = st.lists(st.sampled_from("abc"), max_size=5).map(tuple)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=8))
def test_settled_text_is_what_the_viewer_saw(texts: list[tuple[Words, Words]]) -> None:
    """At each moment the confirmed words and the guess together are the screen, and confirmed ones stay to the end."""
    screens = [Screen(float(place), *text) for place, text in enumerate(texts)]
    confirmed: Words = ()
    seen: dict[float, Words] = {}
    for shown in settle(screens):
        confirmed += shown.confirmed
        seen[shown.at_s] = (*confirmed, *shown.hypothesis)
    assert confirmed == screens[-1].committed
    last: Words = ()
    for screen in screens:
        last = seen.get(screen.at_s, last)
        assert last == (*screen.committed, *screen.guess)
