"""`whispertide serve` as a command: what it refuses, and a real process from start to SIGTERM."""

import errno
import json
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from command_line import Run
from scripted_translator import ScriptedTranslator
from served import KnowingModel
from whispertide.errors import OptionError
from whispertide.options import DecodeOptions
from whispertide.recipes.recipe import Recipe
from whispertide.server.hub import Hub
from whispertide.server.options import ServerOptions

WAIT_S = 180  # files have a low priority


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), "API keys"),
        (("--api-keys", "nothing"), "cannot read"),
        (("--tls-key", "x.pem"), "together"),
        (("--tls-key", "x.pem", "--tls-certificate", "y.pem"), "PEM"),
        (("--recipe", "nothing"), "recipe"),
        (("--set", "beam=x"), "beam"),
        (("--log-level", "loud"), "log-level"),
        (("--language", "klingon"), "klingon"),
        (("--task", "sing"), "task"),
        (("--translate-to", "fr"), "--translator"),
        (("--correct",), "--translator"),
        (("--translator", "http://localhost/v1"), "--translate-to"),
        (("--translate-to", "fr,klingon", "--translator", "http://localhost/v1"), "klingon"),
        (("--translate-to", "fr", "--translator", "http://localhost/v1"), "--translator-model"),
    ],
)
def test_what_cannot_be_served(
    run: Run, loads: list[object], arguments: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WHISPERTIDE_API_KEYS", raising=False)
    result = run("serve", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not loads, "a model was loaded before the options were checked"


def test_two_models_of_one_name_are_refused(run: Run, loads: list[object], tmp_path: Path) -> None:
    """Clients choose by the name; the second would take the place of the first."""
    folders = [tmp_path / number / "export" for number in "12"]
    for folder in folders:
        folder.mkdir(parents=True)
    result = run("serve", "--port", 0, "--model", folders[0], "--model", "base.en", "--model", folders[1])
    assert result.exit_code == 2
    assert "expected models with different names" in result.stderr
    assert "two named export" in result.stderr
    assert not loads, "a model was loaded for nothing"


@pytest.mark.parametrize("option", ["--port", "--wyoming-port"])
def test_a_busy_port_names_the_option_to_change(run: Run, loads: list[object], option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("serve", "--port", 0, option, port)
    assert result.exit_code == 7
    assert f"port {port} of 127.0.0.1" in result.stderr
    assert f"choose another {option}" in result.stderr
    assert not loads, "a model was loaded for nothing"


def test_one_port_for_two_protocols_is_refused(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    result = run("serve", "--port", port, "--lines-port", port)
    assert result.exit_code == 7
    assert "choose another --lines-port" in result.stderr


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_told(run: Run, host: str) -> None:
    result = run("serve", "--host", host, "--port", "0", "--no-api-keys")
    assert result.exit_code == 7
    assert "choose another --host" in result.stderr


@pytest.mark.parametrize("option", ["--max-session-s", "--max-upload-s"])
def test_a_length_without_end_is_none(run: Run, option: str, loads: list[object]) -> None:
    """It would break every session, or every file."""
    result = run("serve", "--port", 0, option, "inf")
    assert result.exit_code == 2
    assert "as a number of seconds; got inf: choose one that is large enough" in result.stderr
    assert not loads


def test_a_server_that_cannot_start_does_not_blame_the_port(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a journal that is damaged: its sessions are read once the application starts."""

    def assemble(models: object, recipe: Recipe, options: ServerOptions) -> tuple[Hub, Callable[[], None]]:
        hub = Hub({"nano.en": KnowingModel()}, recipe, options)  # type: ignore[dict-item]
        monkeypatch.setattr(hub, "at_start", damaged)
        return hub, lambda: None

    def damaged() -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr("whispertide.server.serving.assemble", assemble)
    result = run("serve", "--port", 0, "--recipe", "whisper-streaming")
    assert result.exit_code == 1
    assert "error: expected the server to start; it could not: see the log" in result.stderr
    assert "image is malformed" in result.stderr
    assert "taken" not in result.stderr


@pytest.mark.parametrize(
    ("number", "code", "told"),
    [(errno.EADDRINUSE, 7, "--port 0, --wyoming-port 0; a port was taken in the meantime"), (errno.EIO, 1, "broken")],
)
def test_a_port_that_is_taken_meanwhile(
    run: Run, monkeypatch: pytest.MonkeyPatch, number: int, code: int, told: str
) -> None:
    monkeypatch.setattr("whispertide.server.serving.assemble", lambda *_: (None, lambda: None))
    monkeypatch.setattr("whispertide.server.serving.Server", fails(OSError(number, "broken")))
    monkeypatch.setattr("whispertide.server.serving.tcp_listeners", lambda *_, **__: [])
    result = run("serve", "--port", 0, "--wyoming-port", 0)
    assert result.exit_code == code
    assert told in result.stderr


def fails(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_what_is_written_where_a_client_does_not_say(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[DecodeOptions] = []

    def assemble(models: object, recipe: object, options: ServerOptions) -> None:
        told.append(options.text)
        raise OptionError("enough")

    monkeypatch.setattr("whispertide.server.serving.assemble", assemble)
    run("serve", "--port", 0, "--language", "German", "--task", "translate", "--prompt", "Ebbe")
    run("serve", "--port", 0)
    assert told == [DecodeOptions(language="de", task="translate", prompt="Ebbe"), DecodeOptions()]


def test_the_operator_chooses_what_is_translated(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[ServerOptions] = []

    def assemble(models: object, recipe: Recipe, options: ServerOptions) -> tuple[Hub, Callable[[], None]]:
        given.append(options)
        raise OptionError("enough")

    monkeypatch.setattr("whispertide.server.serving.assemble", assemble)
    where = ("--translator", "https://api.example.test/v1", "--translator-model", "llm")
    result = run("serve", "--port", 0, "--translate-to", "French,de-AT, fr", "--correct", *where)
    assert "enough" in result.stderr
    assert "confirmed text is sent to api.example.test" in result.stderr.replace("\n", " ")
    offered = given[0].translation
    assert offered is not None
    assert (offered.languages, offered.corrects) == (("fr", "de"), True)
    assert offered.translator.host == "api.example.test"


def test_a_folder_is_opened_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be 600 MB: what was checked at the start is what translates."""
    opened: list[ScriptedTranslator] = []
    given: list[ServerOptions] = []

    def opening(where: str, model: str = "") -> ScriptedTranslator:
        opened.append(ScriptedTranslator(name=where))
        return opened[-1]

    def assemble(models: object, recipe: Recipe, options: ServerOptions) -> tuple[Hub, Callable[[], None]]:
        given.append(options)
        raise OptionError("enough")

    monkeypatch.setattr("whispertide.translation.opening.open_translator", opening)
    monkeypatch.setattr("whispertide.server.serving.assemble", assemble)
    assert "enough" in run("serve", "--port", 0, "--translate-to", "fr", "--translator", "nllb").stderr
    assert [one.name for one in opened] == ["nllb"]
    assert given[0].translation is not None
    assert given[0].translation.translator is opened[0]
    assert not opened[0].closed


@pytest.mark.parametrize(("options", "refused"), [((), False), (("--no-tune",), True)])
def test_an_unknown_model_is_tried_before_clients_can_come(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], refused: bool
) -> None:
    done: list[object] = []
    monkeypatch.setattr("whispertide.cli.tune.tune_first", lambda *_, refused: done.append(refused))
    monkeypatch.setattr("whispertide.server.serving.assemble", lambda *_: (None, lambda: None))
    monkeypatch.setattr("whispertide.server.serving.tcp_listeners", lambda *_, **__: done.append("listening"))
    monkeypatch.setattr("whispertide.server.serving.Server", fails(OSError(errno.EIO, "enough")))
    run("serve", "--port", 0, *options)
    assert done == [refused, "listening"]


def test_help_names_every_part(run: Run) -> None:
    text = run("serve", "--help").output
    for word in ("--host", "--api-keys", "--journal", "--record", "--tls-certificate", "--max-sessions", "--origin"):
        assert word in text


@pytest.fixture
def process(terminal: None) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    command = [sys.executable, "-m", "whispertide.cli.main", "serve", "--model", "nano.en", "--port", "0"]
    process = subprocess.Popen([*command, "--wyoming-port", "0"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("serving "):
            break
    yield process, line.split()[1]
    if process.poll() is None:
        process.kill()
    process.wait()
    process.stderr.close()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_process_serves_and_ends_in_good_order(
    process: tuple["subprocess.Popen[str]", str], number: signal.Signals
) -> None:
    import httpx
    from websockets.exceptions import ConnectionClosedError
    from websockets.sync.client import connect

    running, address = process
    clip = Path(__file__).parents[1] / "clips" / "quiet.flac"
    answer = httpx.post(
        f"{address}/v1/audio/transcriptions", files={"file": clip.read_bytes()}, timeout=WAIT_S, trust_env=False
    )
    assert answer.status_code == 200
    assert answer.json()["text"]
    with connect(address.replace("http", "ws") + "/ws", proxy=None) as socket:
        socket.send(bytes(64_000))
        kinds = [json.loads(socket.recv(WAIT_S))["type"] for _ in range(2)]
        assert kinds == ["hello", "session"]
        running.send_signal(number)
        messages = []
        with suppress(ConnectionClosedError):
            while True:
                messages.append(json.loads(socket.recv(WAIT_S)))
        assert socket.close_code == 1012
    assert messages[-1]["type"] == "end"
    assert messages[-1]["duration"] == 2
    assert running.wait(WAIT_S) == 0
    assert running.stderr is not None
    lines = [line for line in running.stderr.read().splitlines() if line]
    logged = [json.loads(line) for line in lines]
    assert {"draining", "session opened"} & {entry["event"] for entry in logged}
    assert answer.json()["text"].split()[0] not in " ".join(entry["event"] for entry in logged)
