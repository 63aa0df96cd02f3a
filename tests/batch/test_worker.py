"""One worker, in this process, with the bundled model."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFile
from typer.testing import CliRunner

from command_line import write_wav
from scripted_translator import ScriptedTranslator
from slow_rows import slow_but
from sounds import make_wav
from whispertide import api
from whispertide.audio.file import decode_blocks, load_audio
from whispertide.batch.worker import Outcome, Ready, Setup, Translation, Unfit, Worker, _open
from whispertide.cli.main import app
from whispertide.errors import AudioFileError, CheckpointError
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.translation.translator import TranslationOptions, TranslatorError
from whispertide.types import SAMPLE_RATE

CLIPS = Path(__file__).parents[1] / "clips"
QUIET = CLIPS / "quiet.flac"  # 4.4 s


@pytest.fixture(scope="module")
def setup() -> Setup:
    weights = api.load("nano.en", threads=1).model.content_hash
    return Setup("nano.en", None, EngineOptions(threads=1), DecodeOptions(), "srt", weights)


@pytest.fixture(scope="module")
def worker(setup: Setup) -> Worker:
    found = Worker(setup)
    assert found.load() == Ready()
    return found


def test_messages_name_the_file_of_an_address_by_that() -> None:
    fsspec.filesystem("memory").pipe("/worker/empty.wav", b"")
    name = "memory://worker/empty.wav"
    with _open(name) as source, pytest.raises(AudioFileError, match=rf"^{re.escape(name)}: the file is empty"):
        next(decode_blocks(source))


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The first two seconds of it, for tests that ask for any speech."""
    path = tmp_path_factory.mktemp("brief") / "brief.wav"
    path.write_bytes(make_wav(load_audio(QUIET)[: 2 * SAMPLE_RATE], SAMPLE_RATE, "f32"))
    return str(path)


@pytest.fixture(scope="module")
def quiet(worker: Worker) -> Outcome:
    return worker.transcribe(str(QUIET))


def test_the_text_is_that_of_transcribe(quiet: Outcome, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["transcribe", str(QUIET), "-m", "nano.en", "--threads", "1", "-f", "srt"])
    assert (quiet.state, quiet.text) == ("done", result.stdout)
    assert "-->" in result.stdout
    assert quiet.audio_s == pytest.approx(4.414)


@pytest.mark.slow
def test_each_channel_is_a_speaker(setup: Setup, worker: Worker, brief: str, tmp_path: Path) -> None:
    said = load_audio(Path(brief))
    path = tmp_path / "call.wav"
    path.write_bytes(make_wav(np.stack([said, np.zeros_like(said)], axis=1), SAMPLE_RATE, "f32"))
    apart = Worker(replace(setup, form="json", multichannel=True))
    apart._transcriber = worker._transcriber
    heard = apart.transcribe(str(path))
    assert heard.state == "done"
    assert heard.audio_s == pytest.approx(2.0)
    document = json.loads(heard.text or "")
    assert {word["speaker"] for word in document["words"]} == {1}
    alone = apart.transcribe(brief)
    assert (alone.state, "expected two channels or more" in alone.reason) == ("unusable", True)


@pytest.mark.slow
def test_an_address_is_read_as_a_file_is(worker: Worker, quiet: Outcome) -> None:
    store = fsspec.filesystem("memory")
    store.pipe_file("/worker/quiet.flac", QUIET.read_bytes())
    try:
        assert worker.transcribe("memory://worker/quiet.flac") == quiet
    finally:
        store.rm("/worker", recursive=True)
    missing = worker.transcribe("memory://worker/quiet.flac")
    assert (missing.state, missing.text) == ("unusable", None)
    assert "cannot be opened (FileNotFoundError" in missing.reason


@pytest.mark.slow
def test_an_address_that_breaks_off_has_failed_and_is_not_cut_off(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, read = (CLIPS / "long.flac").read_bytes(), MemoryFile.read

    def breaking(file: MemoryFile, size: int = -1) -> Any:
        if file.tell() > len(whole) // 2:
            raise TimeoutError("no answer")
        return read(file, size)

    store = fsspec.filesystem("memory")
    store.pipe_file("/worker/long.flac", whole)
    monkeypatch.setattr(MemoryFile, "read", breaking)
    try:
        outcome = worker.transcribe("memory://worker/long.flac")
    finally:
        store.rm("/worker", recursive=True)
    assert (outcome.state, outcome.text, outcome.reason) == ("failed", None, "ReadError: TimeoutError: no answer")


@pytest.fixture(scope="module")
def in_json(setup: Setup) -> Worker:
    found = Worker(replace(setup, form="json"))
    found.load()
    return found


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs names of any bytes")
def test_a_name_that_is_not_utf_8_can_be_written(in_json: Worker, brief: str, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.wav")
    path.write_bytes(Path(brief).read_bytes())
    text = in_json.transcribe(str(path)).text
    assert text is not None
    assert json.loads(text.encode())["source"] == "caf\ufffd.wav"
    assert json.loads(text)["metrics"]["first_text_s"] > 0


def test_a_transcript_does_not_tell_how_its_address_was_signed(
    in_json: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fsspec, "open", lambda *_: fsspec.core.OpenFile(fsspec.filesystem("file"), str(QUIET)))
    text = in_json.transcribe("https://host/talks/quiet.flac?X-Amz-Signature=a/b").text
    assert text is not None
    assert json.loads(text)["source"] == "quiet.flac"


def test_audio_that_ends_early_gives_what_was_there(worker: Worker, tmp_path: Path) -> None:
    short = tmp_path / "short.wav"
    short.write_bytes(write_wav(tmp_path / "long.wav", 2).read_bytes()[:32_044])
    outcome = worker.transcribe(str(short))
    assert (outcome.state, outcome.audio_s) == ("cut off", 1.0)
    assert outcome.text is not None
    assert "cut off" in outcome.reason


@pytest.mark.parametrize("content", [b"", b"nothing that could be heard"])
def test_what_is_no_audio_is_unusable_and_the_worker_lives(worker: Worker, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(content)
    outcome = worker.transcribe(str(path))
    assert (outcome.state, outcome.text) == ("unusable", None)
    assert str(path) in outcome.reason


def test_whatever_else_goes_wrong_is_an_outcome_too(setup: Setup, brief: str) -> None:
    worker = Worker(replace(setup, form="docx"))
    worker.load()
    outcome = worker.transcribe(brief)
    assert (outcome.state, outcome.text) == ("failed", None)
    assert outcome.reason.startswith("OptionError: expected the format to be one of")


def test_a_worker_with_other_weights_or_without_a_model_says_so(setup: Setup) -> None:
    other = Worker(replace(setup, content_hash="other")).load()
    assert isinstance(other, Unfit)
    assert isinstance(other.error, CheckpointError)
    assert "bring all machines to the same version" in str(other.error)
    missing = Worker(replace(setup, model="/nothing/here")).load()
    assert isinstance(missing, Unfit)


@pytest.mark.parametrize("form", slow_but(["srt", "json"], "json"))
def test_a_translation_is_a_file_of_its_own_or_in_json(
    setup: Setup, brief: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    opened: list[tuple[str, str]] = []

    def opening(where: str, model: str = "") -> ScriptedTranslator:
        opened.append((where, model))
        return ScriptedTranslator(problems=[TranslatorError("too long", "answer")])

    monkeypatch.setattr("whispertide.translation.opening.open_translator", opening)
    wanted = Translation(TranslationOptions("fr"), "http://localhost:1/v1", "llm")
    worker = Worker(replace(setup, form=form, translation=wanted))
    assert worker.load() == Ready()
    for time in range(2):
        outcome = worker.transcribe(brief)
        assert outcome.state == "done"
        assert any("too long" in note for note in outcome.notes) == (time == 0)
    assert opened == [("http://localhost:1/v1", "llm")]
    assert outcome.text is not None
    if form == "json":
        assert not outcome.others
        assert json.loads(outcome.text)["translations"][0]["text"].startswith("FR: ")
    else:
        assert set(outcome.others) == {"fr"}
        assert "FR: " in outcome.others["fr"]
        assert "FR: " not in outcome.text


def test_a_worker_without_its_translator_says_so(setup: Setup, tmp_path: Path) -> None:
    wanted = Translation(TranslationOptions("fr"), str(tmp_path))
    answer = Worker(replace(setup, translation=wanted)).load()
    assert isinstance(answer, Unfit)
    assert "model.bin" in str(answer.error)
