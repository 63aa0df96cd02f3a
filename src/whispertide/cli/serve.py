"""`whispertide serve`: live sessions for many clients, over HTTP, WebSocket and TCP."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.cli import completion
from whispertide.cli.arguments import (
    DEFAULT_MODEL,
    ModelChoice,
    PrecisionOption,
    ProviderOption,
    RecipeOption,
    SetOption,
    StreamChoice,
    ThreadsOption,
    VadOption,
)
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.errors import AddressError, OptionError
from whispertide.extras import require
from whispertide.options import EngineOptions

if TYPE_CHECKING:
    from whispertide.server.options import ServerOptions
    from whispertide.server.serving import Address
    from whispertide.streaming.recipe import Recipe

KEYS_VARIABLE = "WHISPERTIDE_API_KEYS"
_WHERE, _WHO, _LIMITS, _KEEP = "Where", "Who may connect", "Limits", "Keeping sessions"


@dataclass(frozen=True, slots=True)
class Request:
    """What to serve, and where. The first of `models` is the default; `ports` are those of the protocols over TCP.

    These have no keys: `trusts_network` opens them to other machines although there are keys elsewhere.
    """

    models: tuple[ModelChoice, ...]
    recipe: "Recipe"
    address: "Address"
    ports: Mapping[str, int | None]
    trusts_network: bool
    options: "ServerOptions"
    log_level: str


@guarded
def serve(
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help=f"Repeatable; default: {DEFAULT_MODEL}.",
            autocompletion=completion.models,
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.", rich_help_panel=_WHERE)] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 = any.", rich_help_panel=_WHERE)] = 8000,
    certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", help="PEM file. Needs --tls-key.", rich_help_panel=_WHERE)
    ] = None,
    key: Annotated[Path | None, typer.Option("--tls-key", help="PEM file.", rich_help_panel=_WHERE)] = None,
    wyoming_port: Annotated[
        int | None, typer.Option("--wyoming-port", help="For Home Assistant. Usually 10300.", rich_help_panel=_WHERE)
    ] = None,
    lines_port: Annotated[
        int | None, typer.Option("--lines-port", help="Raw audio to text lines. Usually 43007.", rich_help_panel=_WHERE)
    ] = None,
    json_lines_port: Annotated[
        int | None, typer.Option("--json-lines-port", help="Raw audio to JSON lines.", rich_help_panel=_WHERE)
    ] = None,
    keys_file: Annotated[
        Path | None,
        typer.Option("--api-keys", help=f"File of keys, one per line. Or set {KEYS_VARIABLE}.", rich_help_panel=_WHO),
    ] = None,
    open_to_all: Annotated[
        bool, typer.Option("--no-api-keys", help="Let other machines connect without keys.", rich_help_panel=_WHO)
    ] = False,
    trust_network: Annotated[
        bool,
        typer.Option(
            "--trust-network", help="Let other machines use the TCP ports, which have no keys.", rich_help_panel=_WHO
        ),
    ] = False,
    origins: Annotated[
        list[str] | None,
        typer.Option(
            "--origin", metavar="URL", help="Pages from this address may connect. * = any.", rich_help_panel=_WHO
        ),
    ] = None,
    sessions: Annotated[
        int, typer.Option("--max-sessions", min=1, help="Most live sessions at once.", rich_help_panel=_LIMITS)
    ] = 64,
    per_owner: Annotated[
        int,
        typer.Option("--max-per-key", min=0, help="Of these, for one key; 0 = equal shares.", rich_help_panel=_LIMITS),
    ] = 0,
    per_address: Annotated[
        int,
        typer.Option(
            "--max-per-address", min=0, help="Connections; 0 = any number, for a proxy.", rich_help_panel=_LIMITS
        ),
    ] = 256,
    session_s: Annotated[
        float,
        typer.Option("--max-session-s", min=1, help="Most seconds of audio in one session.", rich_help_panel=_LIMITS),
    ] = 4 * 3600.0,
    message: Annotated[
        int, typer.Option("--max-message", min=1024, help="Most bytes in one message.", rich_help_panel=_LIMITS)
    ] = 2**20,
    upload: Annotated[
        int, typer.Option("--max-upload", min=1024, help="Most bytes in one file.", rich_help_panel=_LIMITS)
    ] = 200 * 2**20,
    upload_s: Annotated[
        float, typer.Option("--max-upload-s", min=1, help="Most seconds of audio in one file.", rich_help_panel=_LIMITS)
    ] = 2 * 3600.0,
    requests: Annotated[
        int,
        typer.Option(
            "--max-requests",
            min=0,
            help="Most requests per minute and address. 0 = any number.",
            rich_help_panel=_LIMITS,
        ),
    ] = 0,
    idle_s: Annotated[
        float,
        typer.Option(
            "--idle-s", min=0.1, help="Disconnect a client that is silent for longer.", rich_help_panel=_LIMITS
        ),
    ] = 120.0,
    workers: Annotated[
        int,
        typer.Option("--workers", min=0, help="Rounds computed at once. 0 = one per core.", rich_help_panel=_LIMITS),
    ] = 0,
    batch: Annotated[
        int, typer.Option("--batch", min=1, help="Sessions that may share a graph run.", rich_help_panel=_LIMITS)
    ] = 1,
    degrade: Annotated[
        bool, typer.Option("--degrade/--no-degrade", help="Lower quality under load.", rich_help_panel=_LIMITS)
    ] = True,
    resume_s: Annotated[
        float,
        typer.Option("--resume-s", min=0, help="How long a session waits for its client.", rich_help_panel=_KEEP),
    ] = 60.0,
    journal: Annotated[
        Path | None, typer.Option("--journal", metavar="DIR", help="Sessions survive a crash.", rich_help_panel=_KEEP)
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="DIR", help="Store audio and events.", rich_help_panel=_KEEP)
    ] = None,
    drain_s: Annotated[
        float,
        typer.Option("--drain-s", min=0, help="Most seconds for the last words at the end.", rich_help_panel=_KEEP),
    ] = 30.0,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
    log_transcripts: Annotated[
        bool, typer.Option("--log-transcripts", help="Write confirmed text to the log.")
    ] = False,
    recipe: RecipeOption = None,
    changes: SetOption = None,
    vad: VadOption = None,
    precision: PrecisionOption = "int8",
    provider: ProviderOption = "auto",
    threads: ThreadsOption = 0,
) -> ExitCode:
    """Serve live sessions. Ctrl-C or SIGTERM ends it. Every client gets its last words first."""
    require("server", "the server")
    from whispertide.model.runtime import physical_cores
    from whispertide.server.access import read_keys
    from whispertide.server.options import Access, Limits, ServerOptions, Work
    from whispertide.server.serving import Address

    keys = read_keys(os.environ.get(KEYS_VARIABLE), keys_file)
    _check_exposure(host, keys, open_to_all)
    _check_files(certificate, key)
    if log_level not in ("debug", "info", "warning", "error"):
        raise OptionError(f"expected --log-level debug, info, warning or error; got {log_level!r}")
    settings = (*(changes or ()), *(() if vad is None else (f"vad={vad}",)))
    engine = EngineOptions(precision, provider, threads or 1)
    request = Request(
        models=tuple(ModelChoice(name, None, engine) for name in models or [DEFAULT_MODEL]),
        recipe=StreamChoice(recipe, settings).resolve(),
        address=Address(host, port, certificate, key),
        ports={"wyoming": wyoming_port, "lines": lines_port, "json-lines": json_lines_port},
        trusts_network=trust_network,
        options=ServerOptions(
            limits=Limits(
                sessions=sessions,
                per_owner=per_owner,
                per_address=per_address,
                session_s=session_s,
                message=message,
                upload=upload,
                upload_s=upload_s,
                requests=requests,
                idle_s=idle_s,
                resume_s=resume_s,
            ),
            work=Work(workers or physical_cores(), batch, degrade),
            access=Access(keys, tuple(origins or ())),
            journal=journal,
            record=record,
            drain_s=drain_s,
            transcripts_in_log=log_transcripts,
        ),
        log_level=log_level,
    )
    return run(request)


def run(request: Request) -> ExitCode:
    """Load the models, then serve until a signal comes."""
    from whispertide.cli.job import warn_of_synthetic
    from whispertide.server import logs, serving
    from whispertide.streaming.recipes import RECIPES

    logs.set_up(request.log_level)
    options = {"--port": request.address.port, **{f"--{name}-port": port for name, port in request.ports.items()}}
    serving.check_ports(request.address.host, options)  # before a model is loaded, or even downloaded
    transcribers = {}
    for choice in request.models:
        transcriber = choice.load()
        warn_of_synthetic(transcriber)
        transcriber.warm_up()
        say(f"{request.recipe.name} with {transcriber.name}: {transcriber.framed(request.recipe).why}")
        for recipe in RECIPES.values():  # what has to be measured is measured before clients come
            transcriber.framed(recipe)
        transcribers[transcriber.name] = transcriber
    hub, close = serving.assemble(transcribers, request.recipe, request.options)
    scheme = "https" if request.address.certificate else "http"
    try:
        server = serving.Server(
            hub,
            request.address,
            lambda port: say(f"serving {scheme}://{_shown(request.address.host)}:{port}"),
            serving.tcp_listeners(hub, request.address.host, request.ports, trusted=request.trusts_network),
        )
        server.run()
    except SystemExit as left:  # uvicorn's way to say that the port was taken meanwhile
        raise AddressError(f"expected to listen on port {request.address.port}; it has just been taken") from left
    finally:
        close()
    return ExitCode.OK if server.started else ExitCode.FAILURE


def _check_exposure(host: str, keys: tuple[str, ...], open_to_all: bool) -> None:
    from whispertide.server.access import is_loopback

    if not keys and not open_to_all and not is_loopback(host):
        raise OptionError(
            f"expected API keys for a server that other machines can reach ({host}): set {KEYS_VARIABLE} or --api-keys "
            "FILE, or give --no-api-keys to let everybody in"
        )


def _check_files(certificate: Path | None, key: Path | None) -> None:
    if (certificate is None) != (key is None):
        raise OptionError("expected --tls-certificate and --tls-key together; got one of them")
    for path in (certificate, key):
        if path is not None and not path.is_file():
            raise OptionError(f"expected a PEM file; {path} is not one")


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
