"""What people type who come from openai-whisper and faster-whisper."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from command_line import Run, write_wav
from fake_transcriber import FakeTranscriber
from whispertide.cli.aliases import ALIASES, IN_PYTHON
from whispertide.options import DecodeOptions

Loads = list[tuple[str, dict[str, object]]]


def test_a_whole_command_of_openai_whisper(
    run: Run, talk: Path, tmp_path: Path, loads: Loads, transcriber: FakeTranscriber
) -> None:
    line = (
        "--model base.en --language English --task transcribe --output_format srt --output_dir {out} --fp16 False "
        "--word_timestamps True --initial_prompt names --beam_size 3 --device cpu --threads 2 --verbose False"
    )
    result = run("transcribe", talk, *line.format(out=tmp_path / "out").split())
    assert (result.exit_code, result.stdout) == (0, "")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["talk.srt"]
    assert loads[0][0] == "base.en"
    assert {name: loads[0][1][name] for name in ("precision", "provider", "threads")} == {
        "precision": "fp32",
        "provider": "cpu",
        "threads": 2,
    }
    options = transcriber.offline_options[0]
    assert (options.language, options.prompt, options.beam) == ("en", "names", 3)


@pytest.mark.parametrize(
    ("typed", "gate", "precision"),
    [
        (("--vad_filter", "True", "--compute_type", "int8"), True, "int8"),
        (("--vad_filter=false", "--compute_type=float32"), False, "fp32"),
        (("--vad-filter", "False", "--compute-type", "default"), False, "int8"),
    ],
)
def test_those_of_faster_whisper(
    run: Run, talk: Path, loads: Loads, transcriber: FakeTranscriber, typed: tuple[str, ...], gate: bool, precision: str
) -> None:
    assert run("transcribe", *typed, talk).exit_code == 0
    assert (transcriber.offline_gates, transcriber.sessions) == ([gate], [])
    assert loads[0][1]["precision"] == precision


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("all", ["talk.json", "talk.srt", "talk.tsv", "talk.txt", "talk.vtt"]),
        ("vtt", ["talk.vtt"]),
    ],
)
def test_files_lie_in_the_working_folder_as_there(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, written: list[str]
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run("transcribe", talk, "--output_format", typed).exit_code == 0
    assert sorted(path.name for path in Path().iterdir()) == written


def test_an_output_that_is_named_counts(run: Run, talk: Path, tmp_path: Path) -> None:
    assert run("transcribe", "--output_format", "srt", talk, "-o", tmp_path / "mine.srt").exit_code == 0
    assert (tmp_path / "mine.srt").exists()


def test_json_has_their_shape_and_ours_keeps_its_own(run: Run, talk: Path, tmp_path: Path) -> None:
    run("transcribe", talk, "--output_format", "json", "--output_dir", tmp_path)
    theirs = json.loads((tmp_path / "talk.json").read_text())
    assert [*theirs] == ["text", "segments", "language"]
    ours = json.loads(run("transcribe", talk, "-f", "json").stdout)
    assert ours["model"] == "fake.en"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--device", "mps"), "'--device': expected a device among auto, cpu, cuda"),
        (("--compute_type", "int16"), "'--compute_type': expected a compute type among"),
        (("--word_timestamps", "maybe"), "'--word_timestamps': expected True or False; got 'maybe'"),
        (("--vad_filter",), "'--vad_filter': expected a value after it"),
        (("--output_format", "docx"), "got 'docx'"),
        (("--beam_size", "many"), "'--beam'"),
        (("--condition_on_previous_text", "False"), "DecodeOptions(condition_on_previous_text=...)"),
        (("--temperature", "0"), "DecodeOptions(temperatures=...)"),
        (("--log-prob-threshold=-1",), "DecodeOptions(logprob_threshold=...)"),
    ],
)
def test_a_value_that_cannot_be_served_is_refused(
    run: Run, talk: Path, loads: Loads, typed: tuple[str, ...], said: str
) -> None:
    result = run("transcribe", talk, *typed)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert loads == []


def test_hotwords_are_key_terms(run: Run, talk: Path, transcriber: FakeTranscriber) -> None:
    assert run("transcribe", talk, "--hotwords", "Ada,Vinh Phuc").exit_code == 0
    assert transcriber.offline_options[0].keyterms == ("Ada", "Vinh Phuc")


def test_what_only_python_has_is_there() -> None:
    assert {*IN_PYTHON} <= {field.name for field in fields(DecodeOptions)}


def test_what_follows_two_hyphens_is_a_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transcriber: FakeTranscriber
) -> None:
    monkeypatch.chdir(tmp_path)
    write_wav(tmp_path / "--fp16", 1)
    assert run("transcribe", "--", "--fp16").exit_code == 0
    assert len(transcriber.offline_options) == 1


def test_a_command_knows_those_of_its_own_options(run: Run, talk: Path) -> None:
    refused = run("listen", "--beam_size", "5")
    assert refused.exit_code == 2
    assert "No such option: --beam_size" in refused.stderr
    microphone = run("listen", "--device", "no such microphone")
    assert "expected a device among" not in microphone.stderr


@pytest.mark.parametrize("command", ["transcribe", "batch"])
def test_no_help_lists_them(run: Run, command: str) -> None:
    text = run(command, "--help").stdout
    assert "--output" in text
    assert not [name for name in ALIASES if f"{name} " in text]


@pytest.mark.parametrize(
    ("typed", "most"),
    [
        (("--speakers", "TALK"), 8),
        (("TALK", "--speakers"), 8),
        (("--speakers", "-f", "srt", "TALK"), 8),
        (("--speakers", "3", "TALK"), 3),
        (("--speakers=2", "TALK"), 2),
    ],
)
def test_the_number_of_speakers_may_be_left_out(
    run: Run,
    talk: Path,
    transcriber: FakeTranscriber,
    monkeypatch: pytest.MonkeyPatch,
    typed: tuple[str, ...],
    most: int,
) -> None:
    monkeypatch.setattr("whispertide.speakers.embedding.find_embedding", lambda: None)
    result = run("transcribe", *(str(talk) if part == "TALK" else part for part in typed))
    assert result.exit_code == 0, result.stderr
    assert transcriber.offline_options[0].speakers == most


@pytest.mark.parametrize(("typed", "told"), [(("--speakers", "21"), "21"), (("--speakers", "-1"), "-1")])
def test_a_number_of_speakers_that_cannot_be_is_refused(
    run: Run, talk: Path, typed: tuple[str, ...], told: str
) -> None:
    result = run("transcribe", talk, *typed)
    assert result.exit_code == 2
    assert told in result.stderr


def test_speakers_after_two_hyphens_is_a_file(run: Run) -> None:
    assert "--speakers" in run("transcribe", "--", "--speakers").stderr
