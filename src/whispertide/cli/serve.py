"""`whispertide serve`: live sessions for many clients, over HTTP, WebSocket and TCP."""

import errno
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.cli import arguments, completion
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.cli.translator_choice import TranslationChoice
from whispertide.errors import AddressError, OptionError, WhispertideError
from whispertide.extras import require
from whispertide.options import DEFAULT_MODEL, DecodeOptions, EngineOptions, check_choice
from whispertide.server.options import Access, Address, Limits, ServerOptions, TranslationAccess, Work

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.recipes.recipe import Recipe

_KEYS_VARIABLE = "WHISPERTIDE_API_KEYS"

_where = partial(typer.Option, rich_help_panel="Address and ports")
_who = partial(typer.Option, rich_help_panel="Who may connect")
_limit = partial(typer.Option, rich_help_panel="Limits")
_usual = partial(typer.Option, rich_help_panel="Defaults for clients")
_keep = partial(typer.Option, rich_help_panel="Keeping sessions")

_EXPOSED = (
    f"expected API keys for a server that other machines can reach ({{}}): set {_KEYS_VARIABLE} or --api-keys FILE, or "
    "give --no-api-keys to let everybody in"
)
_ADDRESS: arguments.Fields = {
    "host": _where("--host", help="Address to listen on."),
    "port": _where("--port", min=0, max=65535, help="Port for HTTP and WebSocket; 0 = any free one."),
    "certificate": _where("--tls-certificate", help="PEM file. Needs --tls-key."),
    "key": _where("--tls-key", help="PEM file."),
}
_LIMITS: arguments.Fields = {
    "sessions": _limit("--max-sessions", min=1, help="Largest number of live sessions."),
    "per_owner": _limit("--max-per-key", min=0, help="Live sessions of one key; 0 = equal shares."),
    "per_address": _limit("--max-per-address", min=0, help="Connections of one address; 0 = any number, for a proxy."),
    "viewers": _limit("--max-viewers", min=0, help="Viewers of one session's captions; 0 = none."),
    "session_s": _limit("--max-session-s", min=1, help="Longest session, in seconds of audio."),
    "message": _limit("--max-message", min=1024, help="Largest message in bytes."),
    "upload": _limit("--max-upload", min=1024, help="Largest upload in bytes."),
    "upload_s": _limit("--max-upload-s", min=1, help="Longest upload, in seconds of audio."),
    "requests": _limit("--max-requests", min=0, help="Requests per minute and address. 0 = any number."),
    "idle_s": _limit("--idle-s", min=0.1, help="Disconnect a client after this many seconds without a message."),
    "resume_s": _keep("--resume-s", min=0, help="Seconds that a session waits for its client to return."),
}
_TEXT = arguments.text_options(_usual, "Default language: a code, tag or name. Default: detected.")
_TRANSLATION: arguments.Fields = {
    **arguments.TRANSLATION,
    "translate_to": _usual(
        "--translate-to", metavar="CODE,…", help="Languages that clients may choose for translations."
    ),
}
_OPTIONS: arguments.Fields = {
    "journal": _keep(
        "--journal",
        metavar="DIR|nats://…",
        help="Folder or NATS address of the journal, with which sessions survive a crash.",
    ),
    "record": _keep("--record", metavar="DIR", help="Folder in which to store audio and events."),
    "understands": typer.Option(
        "--understand", metavar="FOLDER", help="Network that recognises intents, for clients that request them."
    ),
    "drain_s": _keep("--drain-s", min=0, help="Seconds in which sessions can finish when the server stops."),
    "transcripts_in_log": typer.Option("--log-transcripts", help="Write confirmed text to the log."),
}


@guarded
@arguments.group_options
def serve(
    *,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help=f"A model to serve; repeatable. Default: {DEFAULT_MODEL}.",
            autocompletion=completion.models,
        ),
    ] = None,
    address: Annotated[Address, _ADDRESS],
    wyoming: Annotated[int | None, _where("--wyoming-port", help="Port for Home Assistant, usually 10300.")] = None,
    lines: Annotated[
        int | None, _where("--lines-port", help="Port for raw audio to text lines, usually 43007.")
    ] = None,
    json_lines: Annotated[int | None, _where("--json-lines-port", help="Port for raw audio to JSON lines.")] = None,
    zeroconf: Annotated[
        str | None, _where("--zeroconf", metavar="NAME", help="Announce the Wyoming port under this name.")
    ] = None,
    keys_file: Annotated[
        Path | None, _who("--api-keys", help=f"File of keys, one per line. Or set {_KEYS_VARIABLE}.")
    ] = None,
    open_to_all: Annotated[bool, _who("--no-api-keys", help="Let other machines connect without keys.")] = False,
    trust_network: Annotated[
        bool, _who("--trust-network", help="Let other machines use the TCP ports, which have no keys.")
    ] = False,
    origins: Annotated[
        list[str] | None,
        _who("--origin", metavar="URL", help="Pages from this address may connect and send files. * = any."),
    ] = None,
    text: Annotated[DecodeOptions, _TEXT],
    translation: Annotated[TranslationChoice, _TRANSLATION],
    limits: Annotated[Limits, _LIMITS],
    workers: Annotated[int, _limit("--workers", min=0, help="Rounds computed in parallel. 0 = one per core.")] = 0,
    uploads: Annotated[
        int, _limit("--upload-workers", min=1, help="Files transcribed in parallel, with one thread each.")
    ] = 1,
    degrade: Annotated[bool, _limit("--degrade/--no-degrade", help="Lower quality under load.")] = True,
    options: Annotated[ServerOptions, _OPTIONS],
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
    stream: Annotated[arguments.StreamChoice, {**arguments.RECIPE, **arguments.GATE}],
    no_tune: arguments.NoTune = False,
    engine: arguments.WorkersEngine,
) -> ExitCode:
    """Serve live sessions, files and a web page. Ctrl-C, SIGTERM or SIGHUP ends it, after the clients' last words."""
    require("server", "the server")
    from whispertide.model.providers import physical_cores
    from whispertide.server import access, logs, serving

    keys = access.read_keys(os.environ.get(_KEYS_VARIABLE), keys_file)
    _check_files(address)
    if not keys and not open_to_all and not access.is_loopback(address.host):
        raise OptionError(_EXPOSED.format(address.host))
    if zeroconf is not None:
        _check_zeroconf(wyoming, address.host, can_reach=trust_network or not keys)
    check_choice("--log-level", log_level, ("debug", "info", "warning", "error"))
    text = arguments.check_options(text)
    translates = _translation_access(translation)
    recipe, ports = stream.resolve(), {"wyoming": wyoming, "lines": lines, "json-lines": json_lines}
    recipe.schedule.gate()  # what it lacks is said now, and not to every client
    work = Work(workers or physical_cores(), degrade, uploads)
    access_rules = Access(keys, tuple(origins or ()))
    options = replace(options, limits=limits, work=work, access=access_rules, text=text, translation=translates)
    logs.set_up(log_level)
    named = {"--port": address.port, **{f"--{name}-port": port for name, port in ports.items()}}
    serving.check_ports(address.host, named)  # before a model is loaded, or even downloaded
    names, engine = models or [DEFAULT_MODEL], replace(engine, threads=engine.threads or 1)
    transcribers = _load_models(names, engine, recipe, no_tune=no_tune)
    hub, close = serving.assemble(transcribers, recipe, options)
    listeners = serving.tcp_listeners(hub, address.host, ports, trusted=trust_network)
    announced = None if zeroconf is None else serving.announce(zeroconf, listeners)
    shown = f"[{address.host}]" if ":" in address.host else address.host
    where = f"{'https' if address.certificate else 'http'}://{shown}"
    try:
        server = serving.Server(hub, address, lambda port: say(f"serving {where}:{port}"), listeners, announced)
        server.run()
    except SystemExit as left:  # uvicorn's way to say that something failed before it listened
        raise WhispertideError("expected the server to start; it could not: see the log") from left
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        wanted = ", ".join(f"{option} {port}" for option, port in named.items() if port is not None)
        raise AddressError(
            f"expected to listen on {wanted}; a port was taken in the meantime: choose another"
        ) from error
    finally:
        close()
    return ExitCode.OK if server.started else ExitCode.FAILURE


def _load_models(
    names: list[str], engine: EngineOptions, recipe: "Recipe", *, no_tune: bool
) -> "dict[str, Transcriber]":
    """Load the models by name, ready for the first client."""
    from whispertide.cli.job import warn_of_synthetic
    from whispertide.cli.tune import tune_first
    from whispertide.recipes.catalogue import RECIPES

    _check_names(names)
    transcribers = {}
    for name in names:
        transcriber = arguments.load(name, engine)
        warn_of_synthetic(transcriber)
        transcriber.warm_up()
        tune_first(transcriber, recipe, refused=no_tune)
        say(f"{recipe.name} with {transcriber.name}: {transcriber.framed(recipe).why}")
        for other in RECIPES.values():  # what has to be measured or built is, before clients choose it
            if transcriber.can_stream(other):
                transcriber.session(other, live=True)
        transcribers[transcriber.name] = transcriber
    return transcribers


def _translation_access(choice: TranslationChoice) -> TranslationAccess | None:
    """What clients may have translated; None: nothing. Raises `OptionError`, also for what the translator cannot do."""
    if not choice.is_asked:
        return None
    from whispertide.checkpoint.languages import language_code

    named = (part.strip() for part in (choice.translate_to or "").split(","))
    codes = tuple(dict.fromkeys(language_code(name) for name in named if name))
    translator = choice.translator_for((*codes, *((None,) if choice.correct else ())))
    return TranslationAccess(translator, codes, choice.correct)


def _check_names(names: list[str]) -> None:
    """Raises `OptionError` if two models have one name, and as `display_name` does."""
    from whispertide.checkpoint.names import display_name

    called = [display_name(name) for name in names]
    if twice := [name for name in called if called.count(name) > 1]:
        raise OptionError(
            "expected models with different names, from which clients choose; got two named "
            f"{twice[0]}: rename the folder of one"
        )


def _check_zeroconf(port: int | None, host: str, *, can_reach: bool) -> None:
    """Raises `OptionError` where nobody could use what is announced. `can_reach`: other machines may use the port."""
    from whispertide.server.access import is_loopback

    if port is None:
        raise OptionError("expected --wyoming-port next to --zeroconf, which announces that port; got none")
    if is_loopback(host):
        raise OptionError(f"expected a --host that other machines can reach, for --zeroconf; got {host}")
    if not can_reach:
        raise OptionError("expected --trust-network for --zeroconf; without it other machines cannot use that port")
    require("discovery", "--zeroconf")


def _check_files(address: Address) -> None:
    if (address.certificate is None) != (address.key is None):
        raise OptionError("expected --tls-certificate and --tls-key together; got one of them")
    for path in (address.certificate, address.key):
        if path is not None and not path.is_file():
            raise OptionError(f"expected a PEM file; {path} is not one")
