"""Held-out speech of a run, and its plots."""

from pathlib import Path

import pytest
import torch

from small_runs import begun, silent
from small_training import quiet
from whispertide.errors import OptionError, OutputError
from whispertide_lab.training.loop import LOG, read_log
from whispertide_lab.training.plot import plot
from whispertide_lab.training.run import open_run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_shapes")]


def test_held_out_speech_is_heard_clean(speech: Path, tmp_path: Path) -> None:
    run = begun(tmp_path / "run", speech, held_out=(str(speech),))
    batches = run.trainer._held_out
    again = open_run(tmp_path / "run", "cpu", silent).trainer._held_out
    assert len(batches) == 8
    assert all(torch.equal(one.mel, other.mel) for one, other in zip(batches, again, strict=True))
    run.train(quiet, workers=0)
    assert [line["step"] for line in read_log(run.folder / LOG) if "held_out" in line] == [2, 4]


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_plot(finished: Path, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    picture = plot(finished, tmp_path / f"log{ending}")
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG" if ending == ".png" else b"<?xml")
    assert [path.name for path in tmp_path.iterdir()] == [picture.name]


def test_a_run_of_few_updates_is_plotted_without_a_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / LOG).write_text('{"step": 2, "held_out": 0.33}\n')
    assert plot(tmp_path).exists()
    assert [str(warning.message) for warning in recwarn] == []


def test_what_cannot_be_plotted(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="nothing in"):
        plot(tmp_path)
    with pytest.raises(OptionError, match=r"there is no .*gone: check the path"):
        plot(tmp_path / "gone")
    with pytest.raises(OptionError, match=r"\.svg"):
        plot(finished, tmp_path / "log.gif")
    with pytest.raises(OutputError, match="cannot be written"):
        plot(finished, tmp_path / "no" / "log.svg")
