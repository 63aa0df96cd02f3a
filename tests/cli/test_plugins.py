"""Commands that other packages bring, and those of the laboratory where it is not installed."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import typer
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from whispertide.cli import plugins
from whispertide.cli.main import app
from whispertide.cli.plugins import GROUP, LABORATORY

greetings = typer.Typer(help="Greet.", no_args_is_help=True)


@greetings.command()
def hello(name: str) -> None:
    """Greet somebody."""
    typer.echo(f"hello {name}")


@greetings.command()
def goodbye() -> None:
    """Take leave."""


@pytest.fixture(autouse=True)
def new(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command line for each run: it keeps the commands that it has loaded, and the tests keep it (conftest.py)."""
    monkeypatch.setattr(typer.testing, "_get_command", get_command)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def found(monkeypatch: pytest.MonkeyPatch, **places: str) -> None:
    """These are the commands that installed packages bring."""
    points = [EntryPoint(name, place, GROUP) for name, place in places.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda **asked: points)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other package is installed."""
    found(monkeypatch)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("bench",), "./lab"),
        (("bench", "run", "--recipes", "tide"), "./lab"),
        (("train", "fit", "x", "--run", "y"), "'./lab[train]'"),
        (("compress", "nano.en", "-o", "small"), "./lab"),
    ],
)
def test_without_the_laboratory_its_commands_say_what_to_install(arguments: tuple[str, ...], place: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert f"(whispertide-lab) for `whispertide {arguments[0]}`; it is not installed; " in line
    assert line.endswith(f"-m pip install {place}")


@pytest.mark.usefixtures("alone")
def test_without_the_laboratory_the_help_lists_its_commands_with_a_note() -> None:
    shown = " ".join(run("--help").stdout.replace("│", " ").split())
    assert all(name in shown for name in LABORATORY)
    assert shown.count("Not installed: it is part of the laboratory.") == len(LABORATORY)
    assert run("bench", "run", "--help").exit_code == 0


def test_a_command_of_another_package_is_one_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, greet=f"{__name__}:greetings", greeting=f"{__name__}:hello")
    assert run("greet", "hello", "you").stdout == run("greeting", "you").stdout == "hello you\n"
    assert "Greet." in run("--help").stdout
    assert "Did you mean 'greet'" in " ".join(run("gret").stderr.split())


def test_no_package_takes_the_name_of_a_command_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, transcribe=f"{__name__}:hello")
    assert "hello" not in run("transcribe", "you").output


def test_a_package_that_does_not_load_leaves_the_other_commands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, greet="there.is_no:such", other="typing:nothing")
    assert run("--help").exit_code == 0
    for name in ("greet", "other"):
        result = run(name)
        assert result.exit_code == 2
        assert f"the package of `whispertide {name}` cannot be loaded" in result.stderr


@pytest.mark.slow
def test_commands_of_ours_wait_for_no_other_package() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from whispertide.cli.main import app; "
        "CliRunner().invoke(app, ['transcribe', '--help']); print('whispertide_lab' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
