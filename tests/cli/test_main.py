import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from command_line import Run
from whispertide.cli import main
from whispertide.cli.exit import HELP


def plain(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", text).split())


def test_the_version_is_that_of_the_package(run: Run) -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"whispertide \d+\.\d+\.\d+\S*\n", result.stdout)


def test_help_names_the_commands_and_the_exit_codes(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in ("transcribe", "listen", "demo", "models", "doctor"))
    assert HELP in plain(result.stdout)


@pytest.mark.parametrize("command", ["transcribe", "listen", "demo", "doctor", "models", "models pull"])
def test_every_command_has_help(run: Run, command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.stdout


@pytest.mark.parametrize(("wrong", "meant"), [("transcribr", "transcribe"), ("lisen", "listen"), ("model", "models")])
def test_a_misspelt_command_is_answered_with_the_right_one(run: Run, wrong: str, meant: str) -> None:
    result = run(wrong)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Did you mean '{meant}'" in plain(result.stderr)


def test_no_command_shows_the_help(run: Run) -> None:
    result = run()
    assert result.exit_code == 2
    assert "Commands" in result.output


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from whispertide.cli.main import app; "
        "print(sorted({'onnxruntime', 'onnx', 'av', 'numpy', 'sounddevice', 'huggingface_hub', 'torch', 'tokenizers'}"
        " & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_program_that_is_ended_cleans_up_as_after_ctrl_c(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    number = getattr(signal, name)
    monkeypatch.setattr(main, "app", lambda: signal.raise_signal(number))
    with signals_put_back():
        signal.signal(number, signal.SIG_DFL)  # whatever runs the tests may ignore it
        with pytest.raises(KeyboardInterrupt):
            main.main()


def test_a_signal_that_is_ignored_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by nohup."""
    monkeypatch.setattr(main, "app", lambda: signal.raise_signal(signal.SIGHUP))
    with signals_put_back():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        main.main()


@contextmanager
def signals_put_back() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
