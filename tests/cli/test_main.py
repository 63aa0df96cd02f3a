import io
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import typer
from typer import rich_utils

from command_line import Run, plain
from each_row import each_row
from whispertide.cli import main
from whispertide.cli.exit import HELP
from whispertide.options import DEFAULT_RECIPE
from whispertide.recipes.catalogue import RECIPES


def test_the_version_is_that_of_the_package(run: Run) -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"whispertide \d+\.\d+\.\d+\S*\n", result.stdout)


def test_the_package_runs_as_the_program() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "whispertide", "--version"], capture_output=True, text=True, check=True, timeout=120
    )
    assert said.stdout.startswith("whispertide ")


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


def test_a_file_in_place_of_a_command_is_answered_with_the_command_for_it(run: Run, tmp_path: Path) -> None:
    talk = tmp_path / "my talk.mp3"
    talk.touch()
    result = run(talk, "--model", "base.en")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "run `whispertide transcribe '" in plain(result.stderr)


@pytest.mark.parametrize("name", ["none.mp3", "Talk.MKV", "talks/monday", "../none"])
def test_the_name_of_a_file_that_is_not_there_is_told_from_a_misspelt_command(run: Run, name: str) -> None:
    result = run(name)
    assert (result.exit_code, result.stdout) == (2, "")
    said = plain(result.stderr)
    assert f"got {name}, and there is no such file: check the path" in said
    assert "No such command" not in said


def test_an_address_in_place_of_a_command_is_answered_with_the_command_for_it(run: Run) -> None:
    result = run("https://example.org/talk.mp3")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "run `whispertide batch https://example.org/talk.mp3 -o FOLDER`" in plain(result.stderr)


@pytest.mark.parametrize("name", ["none", "none.txt", "v1.0", "-"])
def test_any_other_word_in_place_of_a_command_is_no_such_command(run: Run, name: str) -> None:
    assert f"No such command '{name}'" in plain(run(name).stderr)


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


class Console(io.TextIOWrapper):
    """One of Windows, whose code page has no more than Western Europe."""

    def __init__(self, at_a_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="cp1252", newline="\n", write_through=True)
        self.at_a_terminal = at_a_terminal

    def isatty(self) -> bool:
        return self.at_a_terminal

    @property
    def shown(self) -> bytes:
        return cast(io.BytesIO, self.buffer).getvalue()


@pytest.mark.parametrize(
    ("at_a_terminal", "shown"), [(True, "naïve ‹??›\n".encode("cp1252")), (False, "naïve ‹日本›\n".encode())]
)
def test_text_that_a_console_of_windows_cannot_show_ends_no_run(
    at_a_terminal: bool, shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question mark stands for each letter that its code page lacks. A file or a pipe gets UTF-8."""
    out, error = Console(at_a_terminal), Console(at_a_terminal)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", error)
    monkeypatch.setattr(main, "app", lambda: [print("naïve ‹日本›", file=file) for file in (out, error)])
    with signals_put_back():
        main.main()
    assert (out.shown, error.shown) == (shown, shown)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_program_that_is_ended_cleans_up_as_after_ctrl_c(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    number = getattr(signal, name)
    monkeypatch.setattr(main, "app", lambda: signal.raise_signal(number))
    with signals_put_back():
        signal.signal(number, signal.SIG_DFL)  # whatever runs the tests may ignore it
        with pytest.raises(SystemExit) as ended:  # as a command ends; typer lets it through before one runs
            main.main()
        assert ended.value.code == 130


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


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group from this one down, with how it is called. (Whose classes they are depends on typer.)"""
    yield path, command
    for name, other in getattr(command, "commands", {}).items():
        yield from commands(other, (*path, name))


ALL: Any = typer.main.get_command(main.app)
ALL.list_commands(None)  # then those of the laboratory are among them
COMMANDS = dict(commands(ALL))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_breaks_no_example(run: Run, path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns. An example is an indented line, or what stands between backquotes."""
    monkeypatch.setattr(rich_utils, "MAX_WIDTH", 80)
    shown = re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", run(*path, "--help").stdout)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    command = COMMANDS[path]
    texts = [command.help or "", *(getattr(option, "help", None) or "" for option in command.params)]
    texts += [(other.help or "").split("\n\n")[0] for other in getattr(command, "commands", {}).values()]
    examples = [line.strip() for text in texts for line in text.splitlines() if line.startswith("    ")]
    examples += [example for text in texts for example in re.findall(r"`([^`]+)`", text)]
    for example in examples:
        text = " ".join(example.replace("\\[", "[").split())
        assert 0 < sum(line.count(text) for line in lines) == " ".join(lines).count(text), text


@each_row("path", COMMANDS)
def test_usage_says_which_arguments_may_be_several(path: tuple[str, ...]) -> None:
    for argument in COMMANDS[path].params:
        if argument.param_type_name == "argument":
            assert ("..." in argument.metavar) == (argument.nargs != 1), argument.metavar


@each_row("path", [path for path in COMMANDS if path])
def test_the_page_of_the_command_line_names_every_command(path: tuple[str, ...]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert " ".join(("whispertide", *path)) in page


def test_there_are_examples_to_break() -> None:
    assert any("\n    " in (command.help or "") for command in COMMANDS.values())
    assert len(COMMANDS) > 25


@pytest.mark.parametrize("command", ["transcribe", "listen", "demo", "serve", "profile"])
def test_help_names_the_default_recipe(run: Run, command: str) -> None:
    assert f"Streaming recipe; default: {DEFAULT_RECIPE}." in plain(run(command, "--help").stdout)
    assert DEFAULT_RECIPE in RECIPES
