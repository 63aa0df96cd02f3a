"""What `benchmarks/turns.py` makes of recordings, and how it counts the ends of turns."""

from pathlib import Path

import numpy as np
import pytest

from benchmark_scripts import benchmark
from oracle import TruthDetector, speech
from told_turns import ToldEar
from wav_file import save_wav
from whispertide.audio.vad import SpeechGate
from whispertide.streaming.end_of_turn import TurnLimits
from whispertide.streaming.turn_gate import TurnGate
from whispertide.types import SAMPLE_RATE, FloatArray

S = SAMPLE_RATE


def sentence() -> FloatArray:
    """Two seconds of sound after a quarter of a second, quietest in the middle, then half a second of little noise."""
    rng = np.random.default_rng(1)
    sound = 0.2 * rng.standard_normal(2 * S)
    sound[15_000:17_000] *= 0.1
    quiet = 1e-4 * rng.standard_normal(S)
    return np.concatenate([quiet[: S // 4], sound, quiet[S // 4 : 3 * S // 4]]).astype(np.float32)


def test_a_recording_becomes_a_turn_with_a_pause_where_it_is_quietest() -> None:
    with benchmark("turns") as script:
        samples = sentence()
        stream = script.with_pause(samples, ("so", "it", "is", "so"), 0.8, np.random.default_rng(0))
        (turn,) = stream.turns
        assert turn.start == pytest.approx(S // 4, abs=0.05 * S)
        assert turn.end == pytest.approx(2.25 * S + 0.8 * S, abs=0.05 * S)
        start, end = turn.pause
        assert S // 4 + 15_000 <= start <= S // 4 + 17_000
        assert end - start == 0.8 * S
        assert np.abs(stream.samples[start:end]).max() < 0.01
        assert len(stream.samples) == turn.end + script.GAP_S * S
        both = script.joined([stream, stream])
        assert both.turns[1].start == len(stream.samples) + turn.start


def test_ends_are_early_late_or_missing() -> None:
    with benchmark("turns") as script:
        found, ended = script.Found(), script.Ended
        turns = [script.Turn(at * S, (at + 3) * S) for at in (0, 10, 20, 30)]
        found.add(
            turns,
            [
                ended(4 * S), ended(6 * S),  # a second late
                ended(12 * S), ended(15 * S, late_s=0.5),  # in the middle, and two and a half seconds late
                ended(24 * S, eager=True),
                ended(31 * S, eager=True), ended(34 * S, eager=True), ended(35 * S),
            ],
        )  # fmt: skip
        assert (found.turns, found.early, found.missed) == (4, 1, 1)
        assert found.delays == [1.0, 2.5, 2.0]
        assert (found.eager, found.taken_back) == ([1.0, 1.0], 1)
        assert found.row("x") == "| x | 4 | 1 | 1 | 2.00 | 2.40 | 1.00, 1 |"


def test_gates_say_ends_by_pauses_or_by_what_they_hear() -> None:
    words = speech(("one", 1.0, 2.0))
    silence = np.zeros(6 * S, np.float32)
    with benchmark("turns") as script:
        (pause,) = script.by_gate(SpeechGate(None, TruthDetector(words)), silence)
        assert 2.5 * S <= pause.at <= 2.6 * S
        assert script.by_gate(SpeechGate(None, TruthDetector(words)), silence[: int(2.2 * S)]) == [], "nothing said so"
        gate = TurnGate(SpeechGate(None, TruthDetector(words)), ToldEar([0.5]), TurnLimits(0.8, 0.4, 2.0))
        assert [end.eager for end in script.by_gate(gate, silence)] == [True, False]


def test_the_same_is_asked_once() -> None:
    with benchmark("turns") as script:
        ear = script.Remembering(ToldEar([0.3, 0.6]))
        first, second = np.zeros(3, np.float32), np.ones(3, np.float32)
        assert [ear.probability(audio) for audio in (first, second, first)] == [0.3, 0.6, 0.3]
        assert len(ear.cost_s) == 2


def test_the_speakers_of_a_call_are_heard_alone(tmp_path: Path) -> None:
    save_wav(tmp_path / "call.wav", np.full(4 * S, 0.5, np.float32))
    (tmp_path / "call.stm").write_text("c 1 A 0.5 1.0 hello\nc 1 B 1.5 2.0 hi\nc 1 A 2.5 3.0 so\nc 1 A 3.2 3.5 it\n")
    with benchmark("turns") as script:
        first, second = script.call(tmp_path / "call.wav", tmp_path / "call.stm")
        assert [(turn.start, turn.end) for turn in first.turns] == [(0.5 * S, S), (2.5 * S, 3.5 * S)]
        assert [(turn.start, turn.end) for turn in second.turns] == [(1.5 * S, 2 * S)]
        assert first.samples[int(1.2 * S)] == first.samples[int(3.1 * S)] == 0
        assert second.samples[int(1.7 * S)] == pytest.approx(0.5, abs=1e-3)
