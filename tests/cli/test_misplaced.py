"""A model among the arguments, as other programs take it, is answered with the option for it."""

from pathlib import Path

import pytest

from command_line import Run, plain

WITHOUT_ARGUMENTS = ["serve", "listen", "dictate", "demo"]


@pytest.mark.parametrize("command", WITHOUT_ARGUMENTS)
@pytest.mark.parametrize("model", ["tiny.en", "turbo", "nano.en", "openai/whisper-base"])
def test_a_model_as_an_argument_is_answered_with_the_option(run: Run, command: str, model: str) -> None:
    result = run(command, model)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"did you mean --model {model}?" in plain(result.stderr)


def test_a_folder_and_a_file_of_a_model_are_too(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine.pt").touch()
    assert "did you mean --model mine?" in plain(run("serve", "mine").stderr)
    assert "did you mean --model mine.pt?" in plain(run("serve", "mine.pt").stderr)


@pytest.mark.parametrize("argument", ["nonsense", "talk.wav", "talks/monday.wav", "", "a" * 300])
def test_any_other_argument_is_one_too_many(run: Run, argument: str) -> None:
    result = run("serve", argument)
    assert (result.exit_code, result.stdout) == (2, "")
    said = plain(result.stderr)
    assert "expected no further argument" in said
    assert "did you mean" not in said


@pytest.mark.parametrize(
    "line", ["transcribe tiny.en", "transcribe TALK tiny.en", "batch tiny.en -o OUT", "replay base"]
)
def test_a_model_in_place_of_a_file_is_answered_with_the_option(
    run: Run, talk: Path, tmp_path: Path, loads: list[object], line: str
) -> None:
    words = [{"TALK": talk, "OUT": tmp_path / "out"}.get(word, word) for word in line.split()]
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean --model " in plain(result.stderr)
    assert (loads, (tmp_path / "out").exists()) == ([], False)


def test_a_recording_called_as_a_model_is_one(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.rename(tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    result = run("transcribe", "base")
    assert result.exit_code == 0, result.stderr
    assert "word0" in result.stdout


@pytest.mark.parametrize("command", ["doctor", "profile"])
def test_after_a_model_another_is_one_too_many(run: Run, command: str) -> None:
    said = plain(run(command, "tiny.en", "base").stderr)
    assert "expected no further argument" in said
    assert "did you mean" not in said


def test_help_comes_before_it(run: Run) -> None:
    result = run("serve", "tiny.en", "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.stdout


@pytest.mark.parametrize("line", ["bench run tiny.en", "bench paper tiny.en"])
def test_benches_have_an_option_for_several(run: Run, line: str) -> None:
    result = run(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean --models tiny.en?" in plain(result.stderr)


def test_a_network_of_commands_has_no_such_names(run: Run) -> None:
    assert "did you mean" not in plain(run("understand", "tiny.en").stderr)
