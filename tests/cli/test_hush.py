"""`transcribe --framing` and `--hush`: offline, streaming, and what goes wrong."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from command_line import Run
from fake_transcriber import FakeTranscriber
from whispertide.checkpoint import load_checkpoint
from whispertide.cli.main import app
from whispertide.methods.short.hush import HushWord
from whispertide.streaming.executors import Pipelined
from whispertide.streaming.framing import Buckets, Pad30

CLIP = Path(__file__).parents[1] / "clips" / "quiet.flac"
MODEL = ("--model", "nano.en", "--threads", "1")


def transcribe(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["transcribe", str(CLIP), *MODEL, *map(str, arguments)])


@pytest.fixture
def word(tmp_path: Path) -> Path:
    """Faint noise for the bundled model, of a length of which nothing is next to that."""
    samples = (0.01 * np.random.default_rng(0).standard_normal(12_000)).astype(np.float32)
    HushWord(samples, load_checkpoint("nano.en").content_hash).save(tmp_path / "word.npz")
    return tmp_path / "word.npz"


@pytest.mark.slow
@pytest.mark.parametrize("mode", [(), ("--recipe", "whisper-streaming"), ("--recipe", "tide")])
def test_a_file_is_used_offline_and_streaming(mode: tuple[str, ...], word: Path) -> None:
    result = transcribe(*mode, "--hush", word)
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.split()) > 2
    assert "warning" not in result.stderr


def test_without_the_file_there_is_none_of_that_length(word: Path) -> None:
    result = transcribe("--recipe", "tide", "--set", "framing=hush", "--set", "hush_s=0.75")
    assert result.exit_code == 4
    assert "0.75" in result.stderr


def test_a_hush_word_of_another_model_gets_a_warning(tmp_path: Path) -> None:
    HushWord(np.linspace(0, 0.01, 8000, dtype=np.float32), "0" * 64).save(tmp_path / "other.npz")
    result = transcribe("--framing", "hush", "--hush", tmp_path / "other.npz")
    assert result.exit_code == 0, result.stderr
    assert "warning: the hush word was trained for another checkpoint" in result.stderr


def test_a_file_that_is_none_is_refused_before_a_model_is_loaded(
    run: Run, loads: list[object], talk: Path, tmp_path: Path
) -> None:
    (tmp_path / "word.csv").write_text("0.1\nnan\n" * 4000)
    broken = run("transcribe", talk, "--hush", tmp_path / "word.csv")
    missing = run("transcribe", talk, "--hush", tmp_path / "nowhere.npz")
    assert (broken.exit_code, missing.exit_code) == (4, 4)
    assert "got 4000 that are not finite, or louder" in broken.stderr
    assert "there is none: make it with `whispertide train hush --model MODEL --seconds ...`" in missing.stderr
    assert loads == []


def test_framings_that_do_not_go_together(run: Run, loads: list[object], talk: Path, word: Path) -> None:
    other = run("transcribe", talk, "--framing", "bare", "--hush", word)
    unknown = run("transcribe", talk, "--framing", "silence")
    assert (other.exit_code, unknown.exit_code) == (2, 2)
    assert "expected --framing hush with --hush; got 'bare'" in other.stderr
    assert "hush; got 'silence'" in unknown.stderr
    assert loads == []


def test_the_framing_of_a_recipe_is_changed(run: Run, talk: Path, transcriber: FakeTranscriber) -> None:
    assert run("transcribe", talk, "--pace", "max", "--framing", "buckets").exit_code == 0
    assert run("transcribe", talk, "--set", "framing=pad30").exit_code == 0
    assert [recipe.framing for recipe in transcriber.recipes] == [Buckets(), Pad30()]


def test_the_executor_of_a_recipe_is_changed(run: Run, talk: Path, transcriber: FakeTranscriber) -> None:
    assert run("transcribe", talk, "--recipe", "whisperflow", "--executor", "pipelined").exit_code == 0
    assert transcriber.recipes[-1].executor == Pipelined()
    assert run("transcribe", talk, "--executor", "sideways").exit_code == 2
