"""`whispertide train`: a user's own recordings, from a manifest to a checkpoint that transcribes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from command_line import write_wav
from small_training import write_speech
from whispertide import DecodeOptions, load
from whispertide.checkpoint import load_checkpoint
from whispertide.cli.main import app
from whispertide_lab.cli.train_epochs import Training
from whispertide_lab.training import shapes
from whispertide_lab.training.network import Whisper, load_network
from whispertide_lab.training.run import Run
from whispertide_lab.training.widen import Target

pytestmark = pytest.mark.slow

TEXTS = ("The red fox ran.", "Good day.", "We walked home in the snow.", "Hi.")
SMALL_SHAPE = Target(16, 2, 1)
SMALL = ("--steps", "2", "--batch", "2", "--finish", "none", "--device", "cpu", "--workers", "0")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(item) for item in arguments])


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_speech(tmp_path_factory.mktemp("speech") / "shards")


@pytest.fixture(scope="module")
def network() -> Whisper:
    """The bundled model's, which nothing trains."""
    return load_network(load_checkpoint("nano.en"))


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    lines = []
    for number, text in enumerate(TEXTS):
        write_wav(tmp_path / f"{number}.wav", 2)
        lines.append(json.dumps({"audio": f"{number}.wav", "text": text}))
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(lines))
    return path


def settings(*pairs: str) -> list[str]:
    return [part for pair in pairs for part in ("--set", pair)]


def test_from_a_manifest_to_a_checkpoint(manifest: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    prepared = run("train", "prepare", manifest, "--output", folder)
    assert prepared.exit_code == 0, prepared.output
    assert prepared.stdout.strip() == str(folder)
    assert "4 utterances" in prepared.stderr

    training = tmp_path / "run"
    quick = settings("report_every=1", "batch.lengths_s=[2]", "batch.shares=[1]")
    fitted = run("train", "fit", folder, "--from", "nano.en", "--lora", 2, "--run", training, *SMALL, *quick)
    assert fitted.exit_code == 0, fitted.output
    assert fitted.stdout.strip() == str(training)
    assert re.search(r"2: next [\d.]+, norm", fitted.stderr)
    assert "windows a second" in fitted.stderr
    assert (training / "log.png").stat().st_size > 1000

    resumed = run("train", "resume", training, "--device", "cpu", "--workers", 0)
    assert resumed.exit_code == 0, resumed.output
    assert "update 2 of 2" in resumed.stderr

    drawn = run("train", "plot", training, "--output", tmp_path / "log.png")
    assert (drawn.exit_code, drawn.stdout.strip()) == (0, str(tmp_path / "log.png"))

    exported = run("train", "export", training, "--output", tmp_path / "model")
    assert exported.exit_code == 0, exported.output
    assert load_checkpoint(tmp_path / "model").dims == load_checkpoint("nano.en").dims


def test_a_run_may_be_kept_in_the_folder_that_one_is_in(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    assert len(Training(data=[manifest]).speech(Path("."))) == len(TEXTS)
    assert len(list(tmp_path.glob("run-speech-*"))) == 1


def test_the_shards_of_a_manifest_are_those_of_what_it_says_now(manifest: Path, tmp_path: Path) -> None:
    training = Training(data=[manifest])
    assert len(training.speech(tmp_path / "run")) == len(TEXTS)
    manifest.write_text("".join(manifest.read_text().splitlines(keepends=True)[1:]))
    assert len(training.speech(tmp_path / "run")) == len(TEXTS) - 1


def test_every_bad_line_is_named(manifest: Path, tmp_path: Path) -> None:
    with manifest.open("a") as file:
        file.write('\n{"audio": "gone.wav", "text": "Hi."}\n{"audio": "0.wav", "text": ""}\n')
    refused = run("train", "prepare", manifest, "--output", tmp_path / "mine")
    assert refused.exit_code == 3
    assert "2 lines" in refused.stderr
    assert "line 5: there is no file" in refused.stderr
    assert "line 6: expected a text that is not empty" in refused.stderr
    assert not (tmp_path / "mine").exists()
    made = run("train", "prepare", manifest, "--output", tmp_path / "mine", "--skip-bad")
    assert made.exit_code == 0
    assert "left out: line 5" in made.stderr
    assert "0 reserved for tests, 2 bad" in made.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--shape", "small"), 2, "nano.en, tiny.en"),
        ((), 2, "expected --shape"),
        (("--from", "nano.en", "--set", "speed=1"), 2, "smoothing"),
        (("--from", "nano.en", "--set", "steps=3"), 2, "expected --steps"),
        (("--shape", "nano.en", "--device", "tpu"), 2, "cpu or cuda"),
        (("--from", "nano.en", "--rate", "nan"), 2, "expected rate between 0"),
        (("--from", "nano.en", "--rate", "0"), 2, "expected rate above 0"),
        (("--from", "nano.en", "--batch", "inf"), 2, "seconds of a batch"),
        (("--from", "nano.en", "--set", "save_every=0"), 2, "save_every"),
        (("--from", "nano.en", "--set", "final_rate=1e400"), 2, "final_rate"),
        (("--from", "nano.en", "--set", "precision=fp8"), 2, "bf16, fp32"),
        (("--from", "nano.en", "--set", "batch.mask_time=-1"), 2, "mask_time"),
        (("--from", "./nowhere"), 4, "nothing is there"),
        (("--from", "nano.en", "--language", "de"), 2, "English-only"),
    ],
)
def test_what_cannot_be_fitted(
    speech: Path,
    network: Whisper,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    monkeypatch.setattr("whispertide_lab.training.start.load_network", lambda _: network)
    refused = run("train", "fit", speech, "--run", tmp_path / "run", "--steps", 1, *arguments)
    assert refused.exit_code == code, refused.output
    assert message in refused.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["causal", "blocks", "hush --model", "truncation", "steadiness"])
def test_an_output_that_cannot_be_written_is_said_before_training(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = run("train", *command.split(), "nano.en", "--output", tmp_path / "nowhere" / "x.npz")
    assert refused.exit_code == 5, refused.output
    assert "does not exist; make it first" in refused.stderr
    assert not list(tmp_path.iterdir())


def test_an_offramp_that_cannot_be_written_is_said_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = run("train", "offramp", "nano.en", "--output", tmp_path / "file" / "x")
    assert refused.exit_code == 5, refused.output


@pytest.mark.parametrize("share", ["=0", "=-1", "=much", "=nan"])
def test_shares(tmp_path: Path, share: str) -> None:
    refused = run("train", "fit", f"{tmp_path}{share}", "--shape", "nano.en", "--run", tmp_path / "run")
    assert refused.exit_code == 2
    assert "a share above 0" in refused.stderr


def test_resume_where_the_speech_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its shares stay, and it can be resumed from another folder after that."""
    monkeypatch.setitem(shapes.SHAPES, "nano.en", SMALL_SHAPE)
    for name in ("a", "b", "c"):
        write_speech(tmp_path / "old" / name)
    monkeypatch.chdir(tmp_path / "old")
    quick = settings("batch.lengths_s=[2]", "batch.shares=[1]")
    shaped = ("--shape", "nano.en", "--run", "../run", "--held-out", "c", *SMALL, *quick)
    assert run("train", "fit", "a=3", "b", *shaped).exit_code == 0
    (tmp_path / "old").rename(tmp_path / "new")
    monkeypatch.chdir(tmp_path / "new")
    how = ("--device", "cpu", "--workers", 0)
    moved = run("train", "resume", "../run", "--speech", "a", "--speech", "b", "--held-out", "c", *how)
    assert moved.exit_code == 0, moved.output
    monkeypatch.chdir(tmp_path)
    again = run("train", "resume", "run", *how)
    assert again.exit_code == 0, again.output
    said = json.loads((tmp_path / "run" / "options.json").read_text())["speech"]
    assert [(one["share"], one["utterances"]) for one in said] == [(3, 12), (1, 12)]
    few = run("train", "resume", "run", "--speech", "new/a", *how)
    assert few.exit_code == 2
    assert "for each of the run's folders, 2 of them" in few.stderr


def test_help_shows_the_way() -> None:
    shown = re.sub(r"\s+", " ", run("train", "--help").stdout)
    steps = [shown.index(f"whispertide train {name}") for name in ("prepare", "fit", "resume", "export", "card")]
    assert steps == sorted(steps)
    assert "pip install . './lab[train]'" in shown


def test_without_torch_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from whispertide.cli.main import main; main()"
    arguments = ["train", "fit", "x", "--shape", "nano.en", "--run", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install './lab[train]'" in done.stderr


def test_a_signal_that_ends_the_workers_too_is_no_bug(
    speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(*_: object, **__: object) -> bool:
        signal.raise_signal(signal.SIGTERM)
        raise RuntimeError("a worker was killed by signal: Terminated")

    monkeypatch.setattr(Run, "train", train)
    monkeypatch.setitem(shapes.SHAPES, "nano.en", SMALL_SHAPE)
    ended = run("train", "fit", speech, "--shape", "nano.en", "--run", tmp_path / "run", *SMALL)
    assert ended.exit_code == 130
    assert "interrupted" in ended.output
    assert "bug" not in ended.output


def test_ctrl_c_saves_and_resume_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, with a worker; the result is that of a run in this one, which nothing stopped."""
    speech, quick = write_speech(tmp_path / "speech"), settings("report_every=1", "save_every=100", "batch.seconds=2")
    monkeypatch.setitem(shapes.SHAPES, "nano.en", SMALL_SHAPE)
    code = (
        "import time; from whispertide_lab.training import loop, shapes, widen; from whispertide.cli.main import main;"
    )
    # half a second for each update, or all could be done before anybody stops it
    code += "append = loop.append_log; loop.append_log = lambda *given: (append(*given), time.sleep(0.5));"
    code += f"shapes.SHAPES['nano.en'] = widen.{SMALL_SHAPE!r}; main()"
    program = [sys.executable, "-c", code]
    threads = torch.get_num_threads()
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}  # other sums, otherwise

    def fit(name: str, workers: int) -> list[str]:
        common = ("--shape", "nano.en", "--steps", 10, "--finish", "none", "--device", "cpu", "--workers", workers)
        return [str(part) for part in ("train", "fit", speech, "--run", tmp_path / name, *common, *quick)]

    stopped = subprocess.Popen(
        [*program, *fit("stopped", 1)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    log = tmp_path / "stopped" / "log.jsonl"
    while not log.exists() and stopped.poll() is None:
        time.sleep(0.01)
    stopped.send_signal(signal.SIGINT)
    _, told = stopped.communicate(timeout=120)
    assert stopped.returncode == 130, told
    assert "train resume" in told
    assert "Traceback" not in told
    resumed = run("train", "resume", tmp_path / "stopped", "--device", "cpu", "--workers", 0)
    assert resumed.exit_code == 0, resumed.output
    whole = run(*fit("whole", 0))
    assert whole.exit_code == 0, whole.output
    for name in ("whole", "stopped"):
        run("train", "export", tmp_path / name, "--output", tmp_path / f"{name}-model")
    models = [(tmp_path / f"{name}-model" / "model.safetensors").read_bytes() for name in ("whole", "stopped")]
    assert models[0] == models[1]
    once = DecodeOptions(temperatures=(0.0,), max_tokens=20)  # it says nothing that would be likely
    load(str(tmp_path / "whole-model"), threads=1).transcribe(write_wav(tmp_path / "talk.wav", 2), options=once)
