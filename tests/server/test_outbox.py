"""The ring of unacknowledged events: whatever a client acknowledges and wherever it comes back, it misses nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from whispertide.events import Confirmed, End, Event, Hypothesis, TurnEnd
from whispertide.server.outbox import Entry, EventsGoneError, Outbox
from whispertide.types import Word


def guess(text: str = "x") -> Hypothesis:
    return Hypothesis(0, 0, (Word(text, 0, 1),))


def confirmed(text: str = "x") -> Confirmed:
    return Confirmed(0, 0, (Word(text, 0, 1),))


def filled(*events: Event, limit: int = 100) -> Outbox:
    outbox = Outbox(limit=limit)
    outbox.add(outbox.number(events))
    return outbox


def seqs(entries: list[Entry]) -> list[int]:
    return [entry.seq for entry in entries if isinstance(entry, Event)]


def test_events_are_numbered_on_and_on() -> None:
    outbox = filled(guess(), confirmed())
    outbox.add(outbox.number([End(7, 0, duration=0)]))
    assert seqs(outbox.take(10)) == [0, 1, 2]
    assert outbox.ended


def test_what_is_acknowledged_is_gone_and_what_was_not_sent_stays() -> None:
    outbox = filled(*(confirmed() for _ in range(6)))
    outbox.take(3)
    outbox.acknowledge(4)
    assert seqs(list(outbox.entries)) == [3, 4, 5]
    assert seqs(outbox.take(10)) == [3, 4, 5]


def test_a_mark_stays_until_the_client_has_something_after_it() -> None:
    outbox = Outbox()
    outbox.add([*outbox.number([confirmed()]), "flushed"])
    outbox.take(10)
    outbox.acknowledge(0)
    outbox.resume(0)
    assert outbox.take(10) == ["flushed"]


@pytest.mark.parametrize("last_seq", [-3, 1, 4, 99])
def test_coming_back_to_what_is_gone_or_never_was(last_seq: int) -> None:
    outbox = filled(*(confirmed() for _ in range(4)))
    outbox.take(3)
    outbox.acknowledge(2)
    with pytest.raises(EventsGoneError):
        outbox.resume(last_seq)
    outbox.resume(2)
    assert seqs(outbox.take(9)) == [3]


def test_when_it_is_full_replaced_guesses_go_first() -> None:
    outbox = filled(guess("a"), confirmed("b"), guess("c"), guess("d"), confirmed("e"), guess("f"), limit=3)
    kept = outbox.take(10)
    assert [(type(entry), entry.seq) for entry in kept if isinstance(entry, Event)] == [
        (Confirmed, 1),
        (Confirmed, 4),
        (Hypothesis, 5),
    ]


def test_when_it_is_full_of_words_the_oldest_go_and_coming_back_says_so() -> None:
    outbox = filled(*(confirmed(str(n)) for n in range(5)), limit=3)
    with pytest.raises(EventsGoneError):
        outbox.resume(0)
    outbox.resume(1)
    assert seqs(outbox.take(10)) == [2, 3, 4]


operations = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.lists(st.sampled_from("hct"), max_size=4).map("".join)),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("ack"), st.integers(-1, 30)),
        st.tuples(st.just("drop"), st.integers(0, 3)),
    ),
    max_size=30,
)


@quick(50)
@given(operations)
def test_a_client_that_comes_back_has_every_event_once(steps: list[tuple[str, object]]) -> None:
    """`seen` is what the client got; "drop" loses the connection with up to 3 events still on their way."""
    kinds = {"h": guess(), "c": confirmed(), "t": TurnEnd(0, 0, 0)}
    outbox, seen, said = Outbox(limit=1000), [-1], 0
    for name, value in steps:
        if name == "say":
            outbox.add(outbox.number([kinds[letter] for letter in str(value)]))
            said += len(str(value))
        elif name == "take":
            seen += seqs(outbox.take(int(str(value))))
        elif name == "ack":
            outbox.acknowledge(min(int(str(value)), seen[-1]))
        else:
            acknowledged = outbox._lost - 1
            lost = min(int(str(value)), len(seen) - 1, seen[-1] - acknowledged)
            del seen[len(seen) - lost :]
            outbox.resume(seen[-1])
        assert seen == list(range(-1, len(seen) - 1))
    seen += seqs(outbox.take(1000))
    assert seen == list(range(-1, said))


@pytest.mark.parametrize("kept", [0, 3])
def test_after_a_restart_what_is_gone_is_told_as_well(kept: int) -> None:
    """Events 0 to 9 were said; the first of them were acknowledged, and are not kept."""
    said = filled(*(confirmed() for _ in range(10)))
    said.take(10)
    said.acknowledge(9 - kept)
    outbox = Outbox()
    outbox.restore(10, ["flushed", *said.entries])
    for last_seq in (-1, 8 - kept):
        with pytest.raises(EventsGoneError, match=f"from {9 - kept} to 9; got {last_seq}"):
            outbox.resume(last_seq)
    outbox.resume(9 - kept)
    assert seqs(outbox.take(20)) == list(range(10 - kept, 10))


def test_an_event_that_was_neither_told_here_nor_written_down_is_nobodys() -> None:
    """After a crash numbers are given anew: a client that has such a one has another event."""
    outbox = Outbox()
    outbox.restore(5, [])
    outbox.add(outbox.number([Hypothesis(0, 0, ())] * 3))  # what is heard anew from the audio that was written
    for last_seq in (5, 7):
        with pytest.raises(EventsGoneError, match="to 4; got"):
            outbox.resume(last_seq)
    outbox.resume(4)
    assert len(outbox.take(2)) == 2
    outbox.resume(6)  # the third was not handed over
    with pytest.raises(EventsGoneError, match="to 6; got 7"):
        outbox.resume(7)
