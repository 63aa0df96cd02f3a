"""Commands understood as they come: portions change nothing, pilots help, what is final is what there was."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from small_late import small_late
from told_gate import STREAM, Told
from wav_file import save_wav
from whispertide.checkpoint.latecontext import save_late
from whispertide.cli.main import app
from whispertide.decoding.hybrid import HybridOptions
from whispertide.errors import AudioError, OptionError
from whispertide.model.latecontext import LateModel
from whispertide.streaming.understanding import Pilots, Understanding, Understood
from whispertide.types import SAMPLE_RATE, FloatArray

pytest.importorskip("torch")
SEARCH = HybridOptions(beam=3, longest=6)


class AlwaysOpen(Told):
    """Somebody speaks from the first sample on, for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.edges = [0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late") / "model"
    save_late(small_late(), folder)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[LateModel]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHISPERTIDE_CACHE", str(folder.parent))
        yield LateModel.open(folder)


def heard(model: LateModel, portions: Sequence[FloatArray], pilots: Pilots | None = None) -> list[Understood]:
    stream = Understanding(model, gate=Told(), pilots=pilots, search=SEARCH)
    return [each for portion in portions for each in stream.push(portion)] + stream.finish()


def test_guesses_come_while_somebody_speaks_and_then_what_was_said(model: LateModel) -> None:
    said = heard(model, [STREAM])
    assert [(each.start, each.end, each.final) for each in said] == [
        (8_000, 32_000, False),
        (8_000, 48_000, False),
        (8_000, 54_272, True),
        (60_000, 77_312, True),
    ]


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, 30_000), max_size=8))
def test_portions_change_nothing(model: LateModel, sizes: list[int]) -> None:
    portions = [part for part in np.split(STREAM, np.minimum(np.cumsum(sizes), len(STREAM))) if len(part)]
    for one, whole in zip(heard(model, portions), heard(model, [STREAM]), strict=True):
        assert (one.intent, one.text, one.start, one.end) == (whole.intent, whole.text, whole.start, whole.end)
        assert one.perplexity == pytest.approx(whole.perplexity, rel=1e-3)


def test_without_pilots_there_are_no_guesses(model: LateModel) -> None:
    assert all(each.final for each in heard(model, [STREAM], Pilots(every_s=0)))


def test_an_utterance_that_is_cut_off_is_understood_as_far_as_it_went(model: LateModel) -> None:
    said = heard(model, [STREAM[:30_000]])
    assert [(each.end, each.final) for each in said] == [(30_000, True)]
    assert heard(model, [STREAM[:9_000]]) == []


@pytest.mark.parametrize("portion", [80_000, 7_001, 40_000])
def test_speech_without_a_pause_is_cut(model: LateModel, portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.streaming.understanding.LONGEST_S", 2.0)
    said = heard(model, [STREAM[at : at + portion] for at in range(0, len(STREAM), portion)])
    assert [(each.start, each.end, each.final) for each in said] == [
        (8_000, 32_000, False),
        (8_000, 40_000, True),
        (40_000, 54_272, True),
        (60_000, 77_312, True),
    ]


def test_hours_of_it_need_no_more_memory(model: LateModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate that never closes, as in steady noise: audio and frames are those of one utterance."""
    monkeypatch.setattr("whispertide.streaming.understanding.LONGEST_S", 2.0)
    stream = Understanding(model, gate=AlwaysOpen(), search=HybridOptions(beam=1, longest=2), pilots=Pilots(every_s=0))
    kept = []
    for _ in range(20):
        stream.push(STREAM)
        assert stream._open is not None
        kept.append((len(stream._buffer), len(stream._open.heard.frames)))
    assert max(kept[10:]) <= max(kept[:10])
    assert max(length for length, _ in kept) <= 2 * SAMPLE_RATE + len(STREAM)


def test_bad_input_is_refused(model: LateModel) -> None:
    with pytest.raises(OptionError, match="pilots"):
        Pilots(first_s=0)
    with pytest.raises(AudioError, match="mono"):
        Understanding(model, gate=Told()).push(np.zeros((2, 100), np.float32))


def test_the_command_tells_every_utterance_of_a_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whispertide.streaming.understanding.SpeechGate", Told)
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(folder.parent))
    save_wav(tmp_path / "said.wav", STREAM, SAMPLE_RATE)
    ended = CliRunner().invoke(app, ["understand", str(tmp_path / "said.wav"), "--model", str(folder)])
    assert ended.exit_code == 0, ended.output
    lines = ended.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["0.50", "3.39"], ["3.75", "4.83"]]
    asked = CliRunner().invoke(app, ["understand", str(tmp_path / "none.wav"), "--model", str(folder)])
    assert asked.exit_code != 0
