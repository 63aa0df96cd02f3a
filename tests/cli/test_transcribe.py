import json
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from command_line import LINES, MODES, SIX, STREAMED, Loads, Run, write_wav
from fake_transcriber import FakeTranscriber, word
from read_transcripts import PARSERS, parse_json, parse_jsonl, parse_srt
from wav_file import save_wav
from whispertide import api
from whispertide.cli import tune
from whispertide.cli.bundled import bundled_audio
from whispertide.cli.main import app
from whispertide.events import from_dict
from whispertide.formats.files import FORMATS
from whispertide.options import WHISPER_JSON
from whispertide.types import SAMPLE_RATE


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
        (("--channels", "2"), "--channels describes raw audio on standard input; add --rate"),
        (("--sample-format", "f32le"), "--sample-format describes raw audio on standard input; add --rate"),
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
    assert "expected prompt in UTF-8" in result.stderr


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
