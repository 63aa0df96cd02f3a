from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from command_line import Run
from toy_checkpoint import toy_checkpoint
from whispertide.checkpoint import load_checkpoint
from whispertide_lab.compression import compress as module
from whispertide_lab.compression.samples import Sample


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toy checkpoint that hears one window of speech in whatever it is given."""
    mel = np.random.default_rng(0).standard_normal((80, 100)).astype(np.float32)
    monkeypatch.setattr(module, "speech_samples", lambda *_: [Sample(mel, (50_257, 50_362, 464, 3290), 1)])
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    return toy_checkpoint(tmp_path / "toy")


def test_a_table_and_the_folder(toy: Path, tmp_path: Path) -> None:
    from whispertide.cli.main import app

    output = tmp_path / "small"
    result = CliRunner().invoke(app, ["compress", str(toy), "-o", str(output), "--bits", "4", "--threads", "1"])
    assert result.exit_code == 0, result.stderr
    *table, last = result.stdout.splitlines()
    assert last == str(output)
    assert table[0].split()[:3] == ["tensor", "weights", "bits"]
    assert any(line.startswith("decoder.embed_tokens.weight") for line in table)
    assert "of fp16" in result.stderr
    assert load_checkpoint(output).dims == load_checkpoint(toy).dims


def test_an_output_that_cannot_be_written_is_said_before_measuring(
    run: Run, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "measure", lambda *_, **__: pytest.fail("measured for nothing"))
    (tmp_path / "file").touch()
    result = run("compress", toy, "-o", tmp_path / "file" / "new")
    assert result.exit_code == 5, result.stderr
    assert "cannot be written" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--bits", "5"), 2, "expected 1, 2, 3, 4, 6, 8 bits"),
        (("--size", "2"), 2, "at most 1"),
        (("--size", "0.01"), 2, "one bit for each weight is"),
        (("--data", "missing.wav"), 3, "missing.wav"),
    ],
)
def test_wrong_usage(run: Run, toy: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    result = run("compress", toy, "-o", tmp_path / "new", *arguments)
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert not (tmp_path / "new").exists()
