"""`whispertide batch`: archives of recordings to one transcript each, by many workers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from whispertide.atomic import printable
from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, combine, guarded, report, say, speaking_through
from whispertide.cli.translator_choice import TranslationChoice
from whispertide.errors import OptionError
from whispertide.extras import require
from whispertide.options import BEAM, DEFAULT_MODEL, DecodeOptions, EngineOptions
from whispertide.plural import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from whispertide.api import Transcriber
    from whispertide.batch.archive import Archive, Provenance
    from whispertide.batch.dispatch import Workers
    from whispertide.batch.plan import Task
    from whispertide.batch.worker import Setup, Translation

_EngineName = Literal["local", "ray"]

_workers = partial(typer.Option, rich_help_panel="Workers")
_CODES = {"cut off": ExitCode.TRUNCATED, "unusable": ExitCode.AUDIO, "failed": ExitCode.FAILURE}


@guarded
@arguments.group_options
def batch(
    *,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="Recordings, folders, quoted patterns, addresses such as s3://BUCKET/FOLDER, and "
            'manifests (.jsonl, each line with "audio").',
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder for transcripts and the report.")
    ],
    model: arguments.Model = DEFAULT_MODEL,
    form: arguments.Format = None,
    text: arguments.Text,
    multichannel: arguments.Multichannel = False,
    fast: arguments.Fast = False,
    where: Annotated[
        _EngineName, _workers("--engine", help="local (default): processes on this machine; ray: a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        _workers("--address", metavar="HOST:PORT", help="The Ray cluster. Default: RAY_ADDRESS, else a new one here."),
    ] = None,
    workers: Annotated[
        int | None,
        _workers(
            "--workers",
            "-w",
            min=1,
            help="Number of workers, each with its own model. Default: as many as the cores allow.",
        ),
    ] = None,
    translation: arguments.Translation,
    engine: arguments.WorkersEngine,
    revision: arguments.Revision = None,
) -> ExitCode:
    """Transcribe an archive, one transcript per recording. After an interruption the same command continues."""
    from whispertide.batch.archive import check_folder, open_archive, report_path
    from whispertide.batch.inputs import check_addresses, check_any, find_recordings
    from whispertide.batch.plan import plan
    from whispertide.channels import apart_options
    from whispertide.formats.files import other_name

    if address is not None and where != "ray":
        raise OptionError(f"--address is for Ray clusters; add --engine ray, or leave it out; got {address!r}")
    if where == "ray":
        require("ray", "--engine ray")
    options, form = replace(arguments.check_options(text), beam=1 if fast else BEAM), form or "txt"
    if multichannel:
        options = apart_options(options)
    engine = replace(engine, threads=engine.threads or 1)
    recordings, wanted = find_recordings(inputs), _wanted(translation)
    check_addresses(recordings)
    tasks = plan(recordings, form, [other_name(target) for target in wanted.apart(form)] if wanted else ())
    check_folder(output)
    if not report_path(output).exists():  # what goes on may have done with all of them
        check_any(recordings)
    transcriber = arguments.load(model, engine, revision)  # downloads and builds, once for all
    setup = _setup(transcriber, model, revision, engine, options, form, wanted)
    setup = replace(setup, multichannel=multichannel)
    made, name = _made(transcriber, setup), transcriber.name
    del transcriber  # each worker has its own
    with open_archive(output, made, tasks) as archive:
        remaining = archive.remaining(tasks)
        if remaining:
            say(f"{len(remaining)} of {counted(len(tasks), 'recording')} to transcribe with {name}")
        try:
            if remaining:
                _run(remaining, archive, setup, where, address, workers)
        except KeyboardInterrupt as interrupt:
            done = len(tasks) - len(archive.remaining(tasks))
            code = report(interrupt)
            say(f"{done} of {len(tasks)} recordings are done; the same command continues with the others")
            return code
        return _report(tasks, archive)


def _setup(
    transcriber: "Transcriber",
    model: str,
    revision: str | None,
    engine: EngineOptions,
    options: DecodeOptions,
    form: str,
    wanted: "Translation | None" = None,
) -> "Setup":
    """The configuration of every worker. Raises `UnknownLanguageError` for a language that the model does not know."""
    from whispertide.batch.worker import Setup
    from whispertide.cli.job import warn_of_synthetic

    warn_of_synthetic(transcriber)
    if options.language is not None:
        options = replace(options, language=transcriber.tokenizer.language(options.language))
    options = replace(options, languages=tuple(map(transcriber.tokenizer.language, options.languages)))
    return Setup(_portable_name(model), revision, engine, options, form, transcriber.model.content_hash, wanted)


def _wanted(choice: TranslationChoice) -> "Translation | None":
    """What workers make of the sentences; None: nothing. Raises `OptionError` for what the translator cannot do."""
    from whispertide.batch.worker import Translation

    with choice.opened() as chosen:
        if chosen is None:
            return None
        where = str(choice.translator)
        if "://" not in where:
            where = str(Path(where).resolve())  # a worker may run in another folder
        return Translation(chosen.options, where, choice.translator_model)


def _portable_name(model: str) -> str:
    """The model's name for a worker, which may run in another folder or on another machine."""
    from whispertide.checkpoint.names import HubModel, bundled_names, find_model

    if model in bundled_names() or isinstance(found := find_model(model), HubModel):
        return model
    return str(found.resolve())


def _made(transcriber: "Transcriber", setup: "Setup") -> "Provenance":
    from whispertide.batch.archive import Provenance

    options = setup.options
    return Provenance(
        model=printable(transcriber.name),
        weights=setup.content_hash,
        precision=setup.engine.precision,
        format=setup.form,
        language=options.language,
        task=options.task,
        prompt=options.prompt,
        beam=options.beam,
        languages=",".join(options.languages),
        keyterms=",".join(options.keyterms),
        speakers=options.speakers,
        multichannel=setup.multichannel,
        **_made_of(setup.translation),
    )


def _made_of(translation: "Translation | None") -> dict[str, Any]:
    if translation is None:
        return {}
    wanted, who = translation.options, " ".join(filter(None, (translation.translator, translation.model)))
    return {"translate_to": wanted.to or "", "correct": wanted.correct, "translator": printable(who)}


def _run(
    remaining: "Sequence[Task]",
    archive: "Archive",
    setup: "Setup",
    where: _EngineName,
    address: str | None,
    wanted: int | None,
) -> None:
    """Transcribe the remaining recordings; each transcript is kept as it comes."""
    from whispertide.batch.dispatch import transcribe_all

    with _bar(remaining) as advance, _start_workers(setup, where, address, wanted) as workers:
        for task, outcome in transcribe_all(remaining, workers):
            entry = archive.keep(task, outcome)
            for note in outcome.notes:
                say(f"warning: {_about(task.input, note)}")
            if entry.reason:
                say(f"{entry.state}: {_about(entry.input, entry.reason)}")
            advance(task)


def _about(name: str, text: str) -> str:
    """A text about a recording, which is named once."""
    return text if name in text else f"{name}: {text}"


@contextmanager
def _start_workers(
    setup: "Setup", where: _EngineName, address: str | None, wanted: int | None
) -> "Iterator[Workers[Any]]":
    """Start the workers."""
    workers: Workers[Any]
    if where == "ray":
        from whispertide.batch.on_ray import RayWorkers

        workers = RayWorkers(setup, address, wanted)
    else:
        from whispertide.batch.local import LocalWorkers

        workers = LocalWorkers(setup, wanted)
    try:
        yield workers
    finally:
        workers.stop()


@contextmanager
def _bar(tasks: "Sequence[Task]") -> "Iterator[Callable[[Task], None]]":
    """Show a bar on standard error if that is a terminal. It counts bytes, as recordings differ in length."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from whispertide.cli.progress import above

    console = Console(stderr=True)
    count = TextColumn(f"{{task.fields[done]}}/{len(tasks)} recordings")
    columns = (count, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    done = 0
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=sum(max(1, task.size) for task in tasks), done=0)

        def advance(task: "Task") -> None:
            nonlocal done
            done += 1
            progress.update(bar, advance=max(1, task.size), done=done)

        with speaking_through(above(console)):
            yield advance


def _report(tasks: "Sequence[Task]", archive: "Archive") -> ExitCode:
    """Report the outcomes of all recordings, those of earlier runs included, and return one exit code for all."""
    from whispertide.cli.live import clock_text

    entries = archive.entries(tasks)
    states = Counter(entry.state for entry in entries)
    length = clock_text(sum(entry.audio_s for entry in entries))
    parts = [f"{states[state]} {state}" for state in ("done", *_CODES) if states[state]]
    say(f"{counted(len(tasks), 'recording')}, {length} of audio: {', '.join(parts)}; report: {archive.report}")
    return combine([_CODES[entry.state] for entry in entries if entry.state in _CODES])
