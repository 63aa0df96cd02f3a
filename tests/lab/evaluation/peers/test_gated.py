"""The voice gate in front of a stepped peer: scripted events, and a recogniser that writes down what it hears."""

import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.peers.clocks import Words
from whispertide_lab.evaluation.peers.gated import Gated, silero


class Script:
    """A gate that says what is written, a given time after it was the case."""

    def __init__(self, speech: Sequence[tuple[int, int]], late: int) -> None:
        events = [({"start": start}, start) for start, _ in speech] + [({"end": end}, end) for _, end in speech]
        self.events = sorted(events, key=lambda item: item[1])
        self.late, self.received = late, 0

    def __call__(self, samples: FloatArray) -> list[dict[str, int]]:
        before, self.received = self.received, self.received + len(samples)
        return [event for event, sample in self.events if before < sample + self.late <= self.received]


class Notes:
    """Commits a word per round, and one more at its end; keeps what it heard."""

    heard: list[list[float]]

    def __init__(self, heard: list[list[float]]) -> None:
        heard.append([])
        self.mine, self.rounds, self.name = heard[-1], 0, len(heard)

    def feed(self, samples: FloatArray) -> tuple[Words, Words]:
        self.mine += list(samples)
        self.rounds += 1
        return self.words(), ("guess",)

    def finish(self) -> Words:
        return (*self.words(), f"end{self.name}")

    def words(self) -> Words:
        return tuple(f"{self.name}.{number}" for number in range(1, self.rounds + 1))


def second(number: float) -> int:
    return round(number * SAMPLE_RATE)


def played(gated: Gated, samples: FloatArray, block: int) -> list[tuple[Words, Words]]:
    return [gated.feed(samples[start : start + block]) for start in range(0, len(samples), block)]


AUDIO = np.arange(second(6), dtype=np.float32)


def test_an_utterance_is_committed_at_its_pause_and_the_next_begins_anew() -> None:
    heard: list[list[float]] = []
    gated = Gated(Script([(second(1), second(2.5)), (second(4), second(5))], second(0.5)), lambda: Notes(heard), 1.0)
    screens = played(gated, AUDIO, second(0.5))
    assert [screen[0] for screen in screens] == [
        *3 * [()],
        ("1.1",),
        ("1.1",),
        *3 * [("1.1", "1.2", "end1")],
        *1 * [("1.1", "1.2", "end1")],
        ("1.1", "1.2", "end1", "2.1"),
        *2 * [("1.1", "1.2", "end1", "2.1", "end2")],
    ]
    assert [len(part) for part in heard] == [second(1.5), second(1)]
    assert [(part[0], part[-1]) for part in heard] == [
        (second(1), second(2.5) - 1),
        (second(4), second(5) - 1),
    ]
    assert gated.finish() == screens[-1][0]


def test_the_end_of_the_audio_ends_an_utterance() -> None:
    heard: list[list[float]] = []
    gated = Gated(Script([(second(5), second(9))], 0), lambda: Notes(heard), 10.0)
    played(gated, AUDIO, second(0.25))
    assert gated.finish() == ("1.1", "end1")
    assert len(heard[0]) == second(1)


def test_the_beginning_of_speech_is_kept_for_a_second() -> None:
    heard: list[list[float]] = []
    played(Gated(Script([(second(1), second(9))], second(3)), lambda: Notes(heard), 0.1), AUDIO, second(0.5))
    assert heard[0][0] == second(2.5), "the gate was three seconds late; a second is kept, and what it was told then"


@given(
    st.lists(st.integers(1, 12), min_size=0, max_size=6),
    st.integers(0, 3),
    st.sampled_from([1, 3, 8]),
)
def test_each_sample_of_speech_is_heard_once(lengths: list[int], late: int, block: int) -> None:
    """However the audio is cut, as long as the gate is no later than what is kept."""
    eighth = SAMPLE_RATE // 8
    ends = np.cumsum(np.array(lengths or [1]) + 4) * eighth
    speech = [(int(end) - length * eighth, int(end)) for end, length in zip(ends, lengths, strict=False)]
    samples = np.arange(int(ends[-1]) + eighth, dtype=np.float32)
    heard: list[list[float]] = []
    gated = Gated(Script(speech, late * eighth), lambda: Notes(heard), 0.3)
    played(gated, samples, block * eighth)
    gated.finish()
    expected = [list(map(float, range(start, min(end, len(samples))))) for start, end in speech]
    if late + block <= 8:
        assert [part[: end - start] for part, (start, end) in zip(heard, speech, strict=True)] == expected


def test_all_recordings_share_one_warm_network(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[list[int]] = []

    class Network:
        """One for each recording, with a state of its own."""

        def __init__(self, session: list[int]) -> None:
            self.session = session

    class Iterator:
        def __init__(self, network: Network, **settings: Any) -> None:
            self.network, self.settings = network, settings

        def __call__(self, samples: FloatArray) -> list[dict[str, int]]:
            self.network.session.append(len(samples))
            return []

    def load_onnx_session() -> list[int]:
        loaded.append([])
        return loaded[-1]

    theirs = SimpleNamespace(FixedVADIterator=Iterator, OnnxWrapper=Network, load_onnx_session=load_onnx_session)
    monkeypatch.setitem(sys.modules, "whisperlivekit", ModuleType("whisperlivekit"))
    monkeypatch.setitem(sys.modules, "whisperlivekit.silero_vad_iterator", theirs)
    gate = silero()
    assert loaded == [[2 * SAMPLE_RATE]]
    first, second = gate(), gate()
    assert isinstance(first, Iterator)
    assert isinstance(second, Iterator)
    assert (len(loaded), first.network is second.network) == (1, False)
    assert first.settings == {"min_silence_duration_ms": 500, "speech_pad_ms": 100}
