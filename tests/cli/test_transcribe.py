import errno
import json
import os
import signal
import subprocess
import sys
import threading
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from command_line import Run, write_wav
from fake_transcriber import FakeTranscriber, word
from read_transcripts import PARSERS, parse_json, parse_jsonl, parse_srt
from wav_file import save_wav
from whispertide import api
from whispertide.cli import job, tune
from whispertide.cli import transcribe as transcribe_command
from whispertide.cli.bundled import bundled_audio
from whispertide.cli.main import app
from whispertide.cli.output import Writer
from whispertide.cli.transcribe import hinting
from whispertide.errors import OutputError
from whispertide.events import from_dict
from whispertide.formats.files import FORMATS
from whispertide.options import WHISPER_JSON
from whispertide.types import SAMPLE_RATE

Loads = list[tuple[str, dict[str, object]]]
SIX = "word0 word1 word2 word3 word4 word5"
LINES = "word0 word1 word2 word3\nword4 word5\n"  # as segments
STREAMED = ("--pace", "max")
MODES = [(), STREAMED]


def pcm(duration_s: float) -> bytes:
    return np.full(round(duration_s * SAMPLE_RATE), 100, "<i2").tobytes()


def test_text_goes_to_standard_output_and_nothing_else_does(run: Run, talk: Path) -> None:
    result = run("transcribe", talk)
    assert (result.exit_code, result.stdout, result.stderr) == (0, LINES, "")
    result = run("transcribe", talk, *STREAMED)
    assert (result.exit_code, result.stdout, result.stderr) == (0, SIX + "\n", "")


@pytest.mark.parametrize(
    "option", [("--recipe", "tide"), ("--set", "step_s=1"), ("--pace", "max"), ("--executor", "serial")]
)
def test_a_file_is_streamed_only_where_that_is_asked_for(
    run: Run, talk: Path, transcriber: FakeTranscriber, option: tuple[str, ...]
) -> None:
    run("transcribe", talk, "--framing", "bare")
    assert (len(transcriber.sessions), len(transcriber.offline_options)) == (0, 1)
    run("transcribe", talk, *option)
    assert (len(transcriber.sessions), len(transcriber.offline_options)) == (1, 1)


@pytest.mark.parametrize(("option", "gate"), [((), True), (("--vad",), True), (("--no-vad",), False)])
def test_the_voice_gate_of_a_whole_recording(
    run: Run, talk: Path, transcriber: FakeTranscriber, option: tuple[str, ...], gate: bool
) -> None:
    run("transcribe", talk, *option)
    assert (transcriber.offline_gates, transcriber.sessions) == ([gate], [])


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        (("--pace", "live"), [False]),
        (("--pace", "live", "--no-tune"), [True]),
        (("--pace", "max"), []),
        ((), []),
    ],
)
def test_an_unknown_model_is_tried_before_its_first_live_use(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], refused: list[bool]
) -> None:
    """As `listen` does: once for all files, where it is not refused."""
    asked: list[bool] = []
    monkeypatch.setattr(tune, "tune_first", lambda transcriber, recipe, *, refused: asked.append(refused))
    files = [write_wav(tmp_path / name, 0.3) for name in ("a.wav", "b.wav")]
    assert run("transcribe", *files, "-o", f"{tmp_path}/out/", *options).exit_code == 0
    assert asked == refused


@pytest.mark.parametrize("pace", ["max", "live"])
def test_seconds_count_only_at_live_pace(run: Run, tmp_path: Path, transcriber: FakeTranscriber, pace: str) -> None:
    run("transcribe", write_wav(tmp_path / "short.wav", 0.5), "--pace", pace)
    assert [session.live for session in transcriber.sessions] == [pace == "live"]
    assert transcriber.warm == (pace == "live")


@pytest.mark.parametrize("form", sorted(FORMATS))
@pytest.mark.parametrize("mode", MODES)
def test_every_format_says_the_same(run: Run, talk: Path, form: str, mode: tuple[str, ...]) -> None:
    result = run("transcribe", talk, "--format", form, *mode)
    assert result.exit_code == 0
    assert " ".join(PARSERS[form](result.stdout).text.split()) == SIX


def test_json_carries_words_and_figures(run: Run, talk: Path) -> None:
    result = run("transcribe", talk, "-f", "json", "--recipe", "whisper-streaming")
    document = parse_json(result.stdout)
    assert document.words == tuple(word(n) for n in range(6))
    assert (document.language, document.model, document.recipe, document.source) == (
        "en",
        "fake.en",
        "whisper-streaming",
        "talk.wav",
    )
    assert (document.complete, document.duration) == (True, 3 * SAMPLE_RATE)
    assert document.metrics["rounds"] == 6
    assert document.metrics["audio_s"] == 3
    assert document.metrics["latency_clock"] == "audio"
    # Word n ends at n/2 + 0.4 s, is a guess at n/2 + 0.5 and confirmed half a second later, the last one at the end.
    assert document.metrics["first_word_latency_s"] == pytest.approx(0.1)
    assert document.metrics["confirmed_latency_median_s"] == pytest.approx(0.6)


def test_jsonl_is_the_events(run: Run, talk: Path) -> None:
    result = run("transcribe", talk, "-f", "jsonl", *STREAMED)
    events = [from_dict(json.loads(line)) for line in result.stdout.splitlines()]
    assert [event.seq for event in events] == list(range(len(events)))
    assert {"hypothesis", "confirmed", "turn_end", "end", "language"} == {event.kind for event in events}
    assert parse_jsonl(result.stdout).complete


def test_offline_json_carries_whispers_figures(run: Run, talk: Path) -> None:
    data = json.loads(run("transcribe", talk, "-f", "json").stdout)
    assert data["recipe"] == "offline"
    assert data["segments"][0]["avg_logprob"] == -0.2
    assert [segment["words"] for segment in data["segments"]] == [[0, 4], [4, 6]]
    assert data["metrics"]["audio_s"] == 3


def test_at_full_speed_audio_comes_in_the_portions_of_a_live_run(
    run: Run, talk: Path, transcriber: FakeTranscriber
) -> None:
    run("transcribe", talk, *STREAMED)
    assert transcriber.sessions[0].pushes == [SAMPLE_RATE // 10] * 30


def test_live_pace_takes_at_least_as_long_as_the_audio(run: Run, tmp_path: Path) -> None:
    talk = write_wav(tmp_path / "short.wav", 1.0)
    metrics = parse_json(run("transcribe", talk, "--pace", "live", "-f", "json").stdout).metrics
    assert metrics["wall_s"] >= 1.0
    assert metrics["latency_clock"] == "wall"
    assert metrics["first_word_latency_s"] >= 0.09


def test_options_reach_the_engine(run: Run, talk: Path, transcriber: FakeTranscriber, loads: Loads) -> None:
    result = run(
        *("transcribe", talk, "--model", "small.en", "--precision", "fp32", "--provider", "cpu", "--threads", "2"),
        *("--revision", "v1", "--language", "English", "--task", "translate", "--prompt", "Names: Ada."),
        *("--set", "step_s=0.5", "--set", "beam=3", "--no-vad"),
    )
    assert result.exit_code == 0
    name, settings = loads[0]
    settings.pop("announce")
    assert (name, settings) == ("small.en", {"precision": "fp32", "provider": "cpu", "threads": 2, "revision": "v1"})
    options = transcriber.sessions[0].options
    assert (options.language, options.task, options.prompt) == ("en", "translate", "Names: Ada.")
    assert transcriber.recipes[0].settings().items() >= {("step_s", 0.5), ("beam", 3)}


@pytest.mark.parametrize(("said", "code"), [("en_GB.UTF-8", "en"), ("auto", None)])
def test_a_language_may_be_a_tag_or_left_open(
    run: Run, talk: Path, transcriber: FakeTranscriber, said: str, code: str | None
) -> None:
    assert run("transcribe", talk, "--language", said).exit_code == 0
    assert transcriber.offline_options[0].language == code


def test_a_whole_recording_may_be_searched_with_a_beam(run: Run, talk: Path, transcriber: FakeTranscriber) -> None:
    run("transcribe", talk, "--beam", "5")
    run("transcribe", talk)
    run("transcribe", talk, "--fast")
    run("transcribe", talk, "--beam", "1")
    assert [options.beam for options in transcriber.offline_options] == [5, 5, 1, 1]


def test_the_default_model_is_base(run: Run, talk: Path, loads: Loads) -> None:
    run("transcribe", talk)
    assert [name for name, _ in loads] == ["base"]


def test_the_bundled_model_says_what_it_is(run: Run, talk: Path, transcriber: FakeTranscriber) -> None:
    transcriber.is_bundled = True
    result = run("transcribe", talk)
    assert "synthetic speech" in result.stderr
    assert result.stdout == LINES


# --- output ----------------------------------------------------------------------------------------------------------


def test_an_output_file_names_its_format(run: Run, talk: Path, tmp_path: Path) -> None:
    result = run("transcribe", talk, "-o", tmp_path / "out.srt")
    assert (result.exit_code, result.stdout) == (0, "")
    assert parse_srt((tmp_path / "out.srt").read_text()).text == SIX


def test_a_folder_gets_a_file_per_input(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = write_wav(tmp_path / "a/talk.wav", 1), write_wav(tmp_path / "b/talk.wav", 2)
    result = run("transcribe", first, second, "-o", f"{tmp_path}/out/", "-f", "txt")
    assert result.exit_code == 0
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {
        "talk.wav.txt": "word0 word1\n",
        "talk.wav-2.txt": "word0 word1 word2 word3\n",
    }


@pytest.mark.parametrize("mode", MODES)
def test_several_formats_of_one_run_say_the_same(run: Run, talk: Path, tmp_path: Path, mode: tuple[str, ...]) -> None:
    forms = FORMATS.keys() - {WHISPER_JSON}
    result = run("transcribe", talk, "-o", f"{tmp_path}/out/", "-f", ",".join(forms), *mode)
    assert (result.exit_code, result.stdout) == (0, "")
    written = {path.suffix[1:]: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert written.keys() == forms
    assert {" ".join(PARSERS[form](text).text.split()) for form, text in written.items()} == {SIX}


def test_what_is_kept_of_a_failed_run_is_kept_in_every_format(
    run: Run, talk: Path, tmp_path: Path, transcriber: FakeTranscriber
) -> None:
    transcriber.fail_at = 2.0
    assert run("transcribe", talk, *STREAMED, "-o", f"{tmp_path}/out/", "-f", "srt,txt").exit_code == 4
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["talk.partial.srt", "talk.partial.txt"]


def test_a_format_that_cannot_be_written_does_not_cost_the_others(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Writer.write

    def full(self: Writer, text: str) -> None:
        if self.target.format == "srt":
            raise OutputError("cannot write talk.srt: no room")
        write(self, text)

    monkeypatch.setattr(Writer, "write", full)
    result = run("transcribe", talk, "-o", f"{tmp_path}/out/", "-f", "srt,txt,json")
    assert (result.exit_code, "talk.srt: no room" in result.stderr) == (5, True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["talk.json", "talk.txt"]


@pytest.mark.parametrize("mode", MODES)
def test_subtitles_have_the_shape_that_is_asked_for(run: Run, talk: Path, mode: tuple[str, ...]) -> None:
    shaped = run("transcribe", talk, "-f", "srt", "--line-width", "12", "--lines", "1", *mode).stdout
    assert [line for line in shaped.splitlines() if "word" in line] == ["word0 word1", "word2 word3", "word4 word5"]


def test_several_json_transcripts_on_standard_output_are_one_per_line(run: Run, talk: Path) -> None:
    result = run("transcribe", talk, talk, "-f", "json")
    assert [parse_json(line).text for line in result.stdout.split("\n")[:-1]] == [SIX, SIX]


@pytest.mark.parametrize(
    ("output", "message"),
    [("no/such/out.txt", "does not exist"), ("folder", ""), ("taken/", "is a file"), ("read-only.txt", "read-only")],
)
def test_an_output_that_cannot_be_is_told_before_any_work(
    run: Run, talk: Path, tmp_path: Path, loads: Loads, output: str, message: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "talk.txt").mkdir()
    (tmp_path / "taken").write_text("x")
    (tmp_path / "read-only.txt").write_text("x")
    (tmp_path / "read-only.txt").chmod(0o444)
    result = run("transcribe", talk, "-o", f"{tmp_path}/{output}")
    assert result.exit_code == 5
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert loads == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_error(run: Run, talk: Path) -> None:
    result = run("transcribe", talk, "-o", "/dev/full", "-f", "srt")
    assert (result.exit_code, "No space left" in result.stderr) == (5, True)


@pytest.mark.parametrize("mode", MODES)
def test_raw_audio_without_a_whole_sample_cannot_be_used(run: Run, mode: tuple[str, ...]) -> None:
    result = run("transcribe", "-", "--rate", "16000", *mode, stdin=b"x")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "ended inside its first sample: 1 of 2 bytes" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rate", "1"), "expected a sample rate between 1000 and 768000 Hz; got 1"),
        (("--rate", "16000", "--channels", "1000"), "expected 1 to 64 channels; got 1000"),
    ],
)
def test_raw_audio_that_cannot_be_is_refused_before_any_work(
    run: Run, loads: Loads, options: tuple[str, ...], message: str
) -> None:
    result = run("transcribe", "-", *options, stdin=b"")
    assert (result.exit_code, message in result.stderr, loads) == (2, True, [])


@pytest.mark.parametrize("command", ["transcribe", "batch"])
def test_a_prompt_that_is_not_utf_8_is_refused_before_any_work(
    run: Run, talk: Path, tmp_path: Path, loads: Loads, command: str
) -> None:
    result = run(command, talk, "-o", tmp_path / "out.txt", "--prompt", "caf\udce9")
    assert (result.exit_code, loads) == (2, [])
    assert "expected --prompt and --keyterms in UTF-8" in result.stderr


def test_an_output_that_cannot_be_written_does_not_stop_the_others(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = write_wav(tmp_path / "second.wav", 2)
    start = Writer._start

    def full(self: Writer) -> Any:
        if self.destination.endswith("talk.txt"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return start(self)

    monkeypatch.setattr(Writer, "_start", full)
    result = run("transcribe", talk, second, "-o", f"{tmp_path}/out/")
    assert result.exit_code == 5
    assert "No space left" in result.stderr
    assert result.stderr.endswith("1 of 2 inputs could not be transcribed: talk.wav\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["second.txt"]


def test_a_failing_engine_leaves_what_was_confirmed(
    run: Run, talk: Path, tmp_path: Path, transcriber: FakeTranscriber
) -> None:
    transcriber.fail_at = 2.0
    result = run("transcribe", talk, *STREAMED, "-o", tmp_path / "out.json")
    assert (result.exit_code, result.stderr) == (4, "error: the graph decoder.onnx failed\n")
    partial = parse_json((tmp_path / "out.partial.json").read_text())
    assert (partial.text, partial.complete) == ("word0 word1", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.partial.json", "talk.wav"]


def pressing_ctrl_c(render: Callable[..., Any]) -> Callable[..., Any]:
    def pressed(*values: Any) -> Any:
        for _ in range(3):  # somebody is impatient
            signal.raise_signal(signal.SIGINT)
        return render(*values)

    return pressed


@pytest.mark.parametrize("mode", MODES)
def test_ctrl_c_while_a_transcript_is_saved_does_not_lose_it(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]
) -> None:
    monkeypatch.setitem(FORMATS, "srt", pressing_ctrl_c(FORMATS["srt"]))
    result = run(
        "transcribe", talk, write_wav(tmp_path / "second.wav", 2), "-f", "srt", "-o", f"{tmp_path}/out/", *mode
    )
    assert (result.exit_code, result.stderr) == (130, f"interrupted; the transcript is in {tmp_path}/out/talk.srt\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["talk.srt"]
    assert parse_srt((tmp_path / "out/talk.srt").read_text()).text == SIX


def test_ctrl_c_while_a_failed_run_is_saved_does_not_lose_it(
    run: Run, talk: Path, tmp_path: Path, transcriber: FakeTranscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcriber.fail_at = 2.0
    monkeypatch.setitem(FORMATS, "json", pressing_ctrl_c(FORMATS["json"]))
    assert run("transcribe", talk, *STREAMED, "-o", tmp_path / "out.json").exit_code == 4
    assert parse_json((tmp_path / "out.partial.json").read_text()).text == "word0 word1"


def test_ctrl_c_while_the_view_is_closed_does_not_lose_the_transcript(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = job.StreamJob._shown

    @contextmanager
    def closed_late(*values: Any) -> Iterator[None]:
        with shown(*values):
            yield
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(job.StreamJob, "_shown", closed_late)
    result = run("transcribe", talk, *STREAMED, "-o", tmp_path / "out.txt")
    assert (result.exit_code, (tmp_path / "out.txt").read_text()) == (130, SIX + "\n")


def test_ctrl_c_twice_while_the_view_is_closed_keeps_what_was_heard(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = job.StreamJob._shown

    @contextmanager
    def closed_late(*values: Any) -> Iterator[None]:
        with shown(*values):
            yield
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(job.StreamJob, "_shown", closed_late)
    result = run("transcribe", talk, *STREAMED, "-o", tmp_path / "out.txt")
    assert (result.exit_code, (tmp_path / "out.partial.txt").read_text()) == (130, SIX + "\n")


def test_a_disk_that_becomes_full_leaves_what_was_written_before(run: Run, talk: Path, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len("word0 word1 word2 word3\n"), limits[1]))
    try:
        result = run("transcribe", talk, "-o", tmp_path / "out.txt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.exit_code == 5
    assert (tmp_path / "out.partial.txt").read_text() == "word0 word1 word2 word3\n"


# --- a folder --------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recordings, and what else lies in folders."""
    folder = tmp_path / "talks"
    (folder / "deeper").mkdir(parents=True)
    write_wav(folder / "b.wav", 2)
    write_wav(folder / "a.WAV", 1)
    write_wav(folder / ".hidden.wav", 1)
    write_wav(folder / "deeper" / "c.wav", 1)
    (folder / "notes.txt").write_text("about the talks")
    (folder / "video.mp4").mkdir()
    return folder


def test_a_folder_stands_for_the_recordings_in_it(run: Run, folder: Path, tmp_path: Path) -> None:
    result = run("transcribe", folder, "-f", "srt", "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    written = {path.name: parse_srt(path.read_text()).text for path in (tmp_path / "out").iterdir()}
    assert written == {"a.srt": "word0 word1", "b.srt": "word0 word1 word2 word3"}


def test_a_folder_with_one_recording_gives_a_folder_all_the_same(run: Run, folder: Path, tmp_path: Path) -> None:
    assert run("transcribe", folder / "deeper", "-o", tmp_path / "out").exit_code == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["c.txt"]


def test_a_folder_gives_a_folder_whatever_that_is_called(run: Run, folder: Path, tmp_path: Path) -> None:
    assert run("transcribe", folder, "-o", tmp_path / "v1.0").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "v1.0").iterdir()) == ["a.txt", "b.txt"]
    assert run("transcribe", folder / "deeper", "-o", tmp_path / "c.srt").exit_code == 0
    assert parse_srt((tmp_path / "c.srt").read_text()).text == "word0 word1"
    result = run("transcribe", folder, "-o", "")
    assert (result.exit_code, "got an empty name" in result.stderr) == (2, True)


@pytest.mark.parametrize("how", [[], ["--recipe", "tide"]])
def test_a_bad_file_in_a_folder_is_told_at_the_end(run: Run, folder: Path, tmp_path: Path, how: list[str]) -> None:
    (folder / "aa.mp3").write_text("no audio")
    write_wav(folder / "ab.wav", 0)  # found out only when it is decoded
    result = run("transcribe", folder, "-o", f"{tmp_path}/out/", *how)
    assert result.exit_code == 3
    assert result.stderr.splitlines()[-1] == "2 of 4 inputs could not be transcribed: aa.mp3, ab.wav"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.txt", "b.txt"]


def test_a_folder_without_recordings_says_so(run: Run, tmp_path: Path, loads: Loads) -> None:
    (tmp_path / "empty").mkdir()
    result = run("transcribe", tmp_path / "empty")
    assert (result.exit_code, result.stdout, loads) == (3, "", [])
    assert "expected recordings in this folder; there are none" in result.stderr


# --- bad input -------------------------------------------------------------------------------------------------------


def empty_file(folder: Path) -> Path:
    (folder / "bad.wav").touch()
    return folder / "bad.wav"


def no_audio_in_it(folder: Path) -> Path:
    return write_wav(folder / "bad.wav", 0)


def text_file(folder: Path) -> Path:
    (folder / "bad.wav").write_text("This is not audio.\n" * 100)
    return folder / "bad.wav"


def missing(folder: Path) -> Path:
    return folder / "bad.wav"


def a_folder(folder: Path) -> Path:
    (folder / "bad.wav").mkdir()
    return folder / "bad.wav"


BAD = [empty_file, no_audio_in_it, text_file, missing, a_folder]


@pytest.mark.parametrize("make", BAD)
@pytest.mark.parametrize("mode", MODES)
def test_bad_audio_is_a_clear_error(
    run: Run, tmp_path: Path, make: Callable[[Path], Path], mode: tuple[str, ...]
) -> None:
    out = tmp_path / "out.txt"
    result = run("transcribe", make(tmp_path), "-o", out, *mode)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("error: ")
    assert "bad.wav" in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("make", [empty_file, text_file, missing, a_folder])
def test_bad_audio_is_told_before_a_model_is_downloaded(
    run: Run, tmp_path: Path, loads: Loads, make: Callable[[Path], Path]
) -> None:
    run("transcribe", make(tmp_path))
    assert loads == []


@pytest.mark.parametrize("make", BAD)
def test_one_bad_file_does_not_keep_the_others(
    run: Run, talk: Path, tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    result = run("transcribe", talk, make(tmp_path), talk)
    assert (result.exit_code, result.stdout) == (3, LINES + LINES)


@pytest.mark.parametrize("mode", MODES)
def test_a_truncated_file_is_transcribed_as_far_as_it_goes(
    run: Run, talk: Path, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    cut = tmp_path / "cut.wav"
    cut.write_bytes(talk.read_bytes()[: 44 + 2 * 2 * SAMPLE_RATE])
    result = run("transcribe", cut, "-o", tmp_path / "out.json", *mode)
    assert result.exit_code == 6
    assert "cut off" in result.stderr
    document = parse_json((tmp_path / "out.json").read_text())
    assert (document.text, document.complete) == ("word0 word1 word2 word3", False)


@pytest.mark.parametrize("mode", MODES)
def test_a_name_that_no_file_can_have_does_not_keep_the_others(
    run: Run, talk: Path, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    result = run("transcribe", tmp_path / ("x" * 300 + ".wav"), talk, *mode)
    assert (result.exit_code, result.stdout.split()) == (3, SIX.split())
    assert "the file cannot be opened: File name too long" in result.stderr


def test_samples_that_are_no_numbers_are_told(run: Run, tmp_path: Path) -> None:
    samples = np.zeros(SAMPLE_RATE, "<f4")
    samples[100:110] = np.nan
    result = run("transcribe", "-", "--rate", 16000, "--sample-format", "f32le", stdin=samples.tobytes())
    assert (result.exit_code, result.stdout) == (0, "word0 word1\n")
    assert "warning: " in result.stderr
    assert "10 samples were not numbers" in result.stderr


@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (192_000, 2), (44_100, 8)])
def test_any_rate_and_any_number_of_channels(run: Run, tmp_path: Path, rate: int, channels: int) -> None:
    path = tmp_path / "talk.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 3, rate, 0, "NONE", ""))  # 24 bit
        file.writeframes(bytes(3 * channels * rate))
    assert run("transcribe", path).stdout == "word0 word1\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--recipe", "tsunami"], 2, "tsunami"),
        (["--set", "step=1"], 2, "got 'step'; did you mean step_s"),
        (["--set", "margn_s=1"], 2, "did you mean margin_s"),
        (["--set", "qqq=1"], 2, "there are: schedule, framing, "),
        (["--set", "step_s=fast"], 2, "fast"),
        (["--language", "klingon"], 2, "got 'klingon'; there are: afrikaans, albanian, "),
        (["-o", "x.docx"], 2, ".txt, .srt, .vtt, .json, .jsonl, .tsv; got 'x.docx'"),
        (["--language", "german"], 2, "got 'de'"),
        (["--format", "docx"], 2, "one of txt, srt, vtt, json, whisper-json, jsonl, tsv; got 'docx'"),
        (["--format", "srt,"], 2, "one of txt, srt, vtt, json, whisper-json, jsonl, tsv; got ''"),
        (["--format", "srt,json"], 2, "a folder (ending with /) for 2 formats; got none"),
        (["--line-width", "5"], 2, "expected line_width between 10 and 200; got 5"),
        (["--lines", "3"], 2, "expected lines between 1 and 2; got 3"),
        (["--precision", "int3"], 2, "int3"),
        (["--provider", "abacus"], 2, "abacus"),
        (["--task", "sing"], 2, "sing"),
        (["--threads", "-1"], 2, "--threads"),
        (["--beam", "0"], 2, "--beam"),
        (["--beam", "5", "--fast"], 2, "leave out one"),
        (["--fast", "--recipe", "tide"], 2, "whole recordings"),
        (["--beam", "5", "--recipe", "tide"], 2, "for a stream: --set search=beam --set beam=5"),
        (["--threads", "9999"], 2, "--threads"),
        (["--recipe", ""], 2, "expected a recipe among"),
        (["-o", ""], 2, "--output; got an empty name"),
        ([""], 2, "got an empty one"),
        (["--rate", "16000"], 2, "standard input"),
    ],
)
def test_a_wrong_option_is_a_clear_error(run: Run, talk: Path, arguments: list[str], code: int, message: str) -> None:
    result = run("transcribe", talk, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unknown_model_is_a_clear_error(talk: Path) -> None:
    result = CliRunner().invoke(app, ["transcribe", str(talk), "--model", "bass.en"])
    assert (result.exit_code, result.stdout) == (4, "")
    assert "did you mean base.en" in result.stderr


def test_without_a_network_the_error_says_what_to_do(
    talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "own"))  # where a default model from the index would be
    result = CliRunner().invoke(app, ["transcribe", str(talk)])
    assert (result.exit_code, result.stdout) == (4, "")
    assert "whispertide models pull" in result.stderr
    assert "nano.en needs no network" in result.stderr


@pytest.mark.slow
def test_the_real_model_writes_every_format(talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = api.load("nano.en", threads=1)
    monkeypatch.setattr(api, "load", lambda *_, **__: model)
    for form in FORMATS:
        command = ["transcribe", str(talk), "-m", "nano.en", "-f", form, "-o", f"{tmp_path}/out.{form}"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0
        PARSERS[form]((tmp_path / f"out.{form}").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("mode", [pytest.param((), marks=pytest.mark.soak), ("--recipe", "tide", "--pace", "max")])
def test_next_to_a_busy_process_the_real_model_says_the_same_twice(tmp_path: Path, mode: tuple[str, ...]) -> None:
    talk = save_wav(tmp_path / "talk.wav", bundled_audio()[: 8 * SAMPLE_RATE])
    command = ["transcribe", str(talk), "-m", "nano.en", *mode]
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            results = [CliRunner().invoke(app, [*command, "-f", "srt"]) for _ in range(2)]
        finally:
            busy.kill()
    assert all(result.exit_code == 0 for result in results)
    assert len({result.stdout for result in results}) == 1
    assert results[0].stdout.count("-->") > 1


# --- standard input --------------------------------------------------------------------------------------------------


def test_raw_audio_on_standard_input(run: Run) -> None:
    assert run("transcribe", "-", "--rate", 16000, stdin=pcm(2)).stdout == "word0 word1 word2 word3\n"
    assert run("transcribe", "-", "--rate", 8000, "--channels", 2, stdin=pcm(2)).stdout == "word0 word1 word2 word3\n"


@pytest.mark.parametrize("mode", [*MODES, ("--pace", "live")])
def test_a_file_on_standard_input(run: Run, talk: Path, mode: tuple[str, ...]) -> None:
    assert run("transcribe", "-", *mode, stdin=talk.read_bytes()).stdout.split() == SIX.split()


@pytest.mark.parametrize("arguments", [["--rate", "16000"], []])
def test_nothing_on_standard_input_is_an_error(run: Run, arguments: list[str]) -> None:
    result = run("transcribe", "-", *arguments, stdin=b"")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("error: ")


def test_an_address_is_not_taken_for_a_path(run: Run) -> None:
    result = run("transcribe", "https://example.com/talk.mp3")
    assert result.exit_code == 3
    assert "download it first" in result.stderr
    assert "`whispertide batch https://example.com/talk.mp3 -o FOLDER`" in result.stderr


def test_who_waits_for_the_end_of_a_pipe_is_told_how_to_see_text_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    blocks, now = [np.full(1600, value, np.float32) for value in range(4)], iter([100.0, 102.0, 105.0, 110.0])
    assert [block[0] for block in hinting(blocks, now.__next__)] == [0, 1, 2, 3]
    assert capsys.readouterr().err == "reading the whole input first; for text during the input add --pace live\n"
    assert len(list(hinting(blocks, lambda: 100.0))) == 4
    assert capsys.readouterr().err == ""


def test_a_pipe_that_is_read_to_its_end_is_hinted_at(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcribe_command, "_PATIENCE_S", 0.0)
    hint = "add --pace live"
    assert hint in run("transcribe", "-", "--rate", 16000, stdin=pcm(2)).stderr
    assert hint not in run("transcribe", "-", "--rate", 16000, *STREAMED, stdin=pcm(2)).stderr


def test_raw_audio_without_its_rate_says_what_is_missing(run: Run, tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 256, 40_000, np.uint8).tobytes()
    result = run("transcribe", "-", stdin=noise)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "raw PCM" in result.stderr
    assert "--rate 16000" in result.stderr
    (tmp_path / "talk.pcm").write_bytes(noise)
    result = run("transcribe", tmp_path / "talk.pcm")
    assert f"whispertide transcribe - --rate 16000 < {tmp_path / 'talk.pcm'}" in result.stderr


def test_standard_input_is_read_once(run: Run) -> None:
    assert run("transcribe", "-", "-", "--rate", 16000, stdin=pcm(1)).exit_code == 2


def test_half_a_sample_at_the_end_of_standard_input_is_told(run: Run) -> None:
    result = run("transcribe", "-", "--rate", 16000, stdin=pcm(1) + b"\0")
    assert (result.exit_code, result.stdout) == (6, "word0 word1\n")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("mode", [*MODES, ("--pace", "live")])
def test_a_named_pipe_is_read_as_it_is_written(run: Run, talk: Path, tmp_path: Path, mode: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe.wav"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(talk.read_bytes()), daemon=True)
    writer.start()
    assert run("transcribe", pipe, *mode).stdout.split() == SIX.split()
    writer.join(timeout=60)
