"""What the commands that train in epochs have in common: their options, and from the run to the file."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from whispertide.atomic import replacing, writing
from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, say
from whispertide.cli.output import check_file
from whispertide.errors import CorpusError, OptionError
from whispertide_lab.cli.train_fit import DeviceOption, SpokenOption, WorkersOption, train_workers
from whispertide_lab.cli.train_prepare import prepared

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.checkpoint import Checkpoint
    from whispertide.checkpoint.attachments import Kind
    from whispertide_lab.training.epochs import EpochTrainer
    from whispertide_lab.training.shards import Shards

_MINUTES = 30.0  # of synthetic speech


@dataclass(frozen=True, slots=True)
class Training:
    """On what, how long and where something is trained, as far as the user said it."""

    data: list[Path] | None = None
    language: str | None = None
    steps: int | None = None
    minutes: float | None = None
    seed: int = 0
    run: Path | None = None
    device: str = "auto"
    workers: int | None = None

    @property
    def length(self) -> dict[str, Any]:
        """The fields of `EpochOptions` that say how long; empty: as long as is usual."""
        if self.steps is None and self.minutes is None:
            return {}
        return {"steps": self.steps or 10**6, "minutes": self.minutes}

    def speech(self, run: Path) -> "Shards":
        """Utterances of folders of shards, of manifests, or synthetic ones; the latter two are kept next to `run`."""
        from whispertide_lab.training.shards import open_shards

        run = Path(os.path.abspath(run))  # "." has no name
        folders = speech_folders(self.data, run)
        return open_shards(folders or [_synthetic(run.with_name(f"{run.name}-speech"))])

    def train(
        self,
        trainer: "EpochTrainer[Any]",
        path: Path,
        told: Callable[[dict[str, Any]], str],
        save: Callable[[Any, Path], None] = lambda learned, path: learned.save(path),
    ) -> ExitCode:
        """Train, save what was learned, say what its report tells, and print where it is."""
        say(f"the run is kept in {trainer.folder}")
        if not _train(trainer, train_workers() if self.workers is None else self.workers):
            return ExitCode.INTERRUPTED
        learned = trainer.result()
        with writing(path):
            save(learned, path)
        say(told(learned.report))
        typer.echo(path)
        return ExitCode.OK


RankOption = Annotated[
    int, typer.Option("--rank", min=1, help="Rank of the changes (LoRA). The file's size grows with it.")
]
RateOption = Annotated[float, typer.Option("--rate", help="Highest learning rate.")]
SPEECH: arguments.Fields = {
    "data": typer.Option("--data", metavar="PATH", help="A manifest, or folders of shards. Default: synthetic speech."),
    "language": get_args(SpokenOption)[1],
}
DataOption = Annotated[list[Path] | None, SPEECH["data"]]
SEED: arguments.Fields = {
    "seed": typer.Option("--seed", help="Seed of the windows and first weights."),
    "run": typer.Option(
        "--run", metavar="FOLDER", help="Folder of the run. An existing run continues. Default: a new one here."
    ),
}
RUN: arguments.Fields = {**SEED, "device": get_args(DeviceOption)[1], "workers": get_args(WorkersOption)[1]}


def length(usual: int) -> arguments.Fields:
    """How long is trained; `usual` updates where nothing is said."""
    steps = typer.Option("--steps", min=1, help=f"Updates in all. Default: {usual}, or what --minutes allow.")
    minutes = typer.Option("--minutes", help="End after so many minutes of training.")
    return {"steps": steps, "minutes": minutes}


def file_for(checkpoint: "Checkpoint", kind: "Kind", variant: str = "", *, asked: Path | None) -> Path:
    """Where what is learned is written: where it is asked for, else next to the checkpoint. Raises `OutputError` where
    that cannot be, before anything is learned.
    """
    from whispertide.checkpoint.attachments import path_beside

    path = asked or path_beside(checkpoint, kind, variant)
    check_file(path)
    return path


def speech_folders(data: Sequence[Path] | None, run: Path) -> list[Path]:
    """Folders of shards; those of manifests are made next to `run`, if they are not there."""
    folders = []
    for path in data or ():
        if not path.exists():
            raise OptionError(f"expected a manifest or a folder of shards for --data; {path} does not exist")
        if path.is_dir():
            folders.append(path)
            continue
        folders.append(run.with_name(f"{run.name}-speech-{_digest(path)}"))
        if not folders[-1].exists():
            prepared(path, folders[-1])
    return folders


def with_word_times(checkpoint: "Checkpoint", speech: "Shards", language: str | None) -> "Shards":
    """The speech with a time for every word that the model can place."""
    from whispertide_lab.training.teacher_times import timed_by, untimed

    if not (missing := untimed(speech)):
        return speech
    say(f"{missing} of {len(speech)} utterances have no word times: {checkpoint.name} places their words")
    return _by_teacher(timed_by, "placing words", checkpoint, speech, language)


def with_pseudo_labels(checkpoint: "Checkpoint", speech: "Shards", language: str | None) -> "Shards":
    """The speech with the model's own text and word times, but for sentences that are reserved for evaluation."""
    from whispertide_lab.training.lessons import unreserved
    from whispertide_lab.training.pseudo_labels import pseudo_labelled

    say(f"{checkpoint.name} transcribes {len(speech)} utterances")
    return _by_teacher(pseudo_labelled, "transcribing", checkpoint, unreserved(speech), language)


def _by_teacher(
    label: "Callable[[Transcriber, Shards, str | None, Callable[[int], None]], Shards]",
    what: str,
    checkpoint: "Checkpoint",
    speech: "Shards",
    language: str | None,
) -> "Shards":
    """With a progress bar."""
    from whispertide import api
    from whispertide.cli.progress import counting

    teacher = api.load(checkpoint.argument, announce=say)
    with counting("utterances") as advance:
        return label(teacher, speech, language, lambda done: advance(what, done, len(speech)))


@contextmanager
def timed_speech(data: Sequence[Path] | None, minutes: float, seed: int) -> "Iterator[Shards]":
    """Folders of shards, or synthetic speech that is there for the moment."""
    from tempfile import TemporaryDirectory

    from whispertide_lab.training.shards import open_shards
    from whispertide_lab.training.timed_speech import make_speech

    with TemporaryDirectory(prefix="whispertide-") as made:
        if not data:
            say(f"making {minutes:g} minutes of synthetic speech")
            make_speech(Path(made), minutes, seed)
        yield open_shards(data or [Path(made)])


def told_figures(report: Mapping[str, Any]) -> str:
    """All of a report but its options and its data."""
    return ", ".join(f"{name} {value}" for name, value in report.items() if name not in ("options", "data"))


def _digest(manifest: Path) -> str:
    """A name for the shards of a manifest as it is now. Raises `CorpusError` where it cannot be read."""
    try:
        content = manifest.read_bytes()
    except OSError as error:
        raise CorpusError(f"expected a manifest that can be read; got {error} for {manifest}") from error
    return hashlib.sha256(bytes(manifest.resolve()) + b"\0" + content).hexdigest()[:8]


def _synthetic(folder: Path) -> Path:
    """A folder of synthetic speech, made if it is not there."""
    from whispertide_lab.training.timed_speech import make_speech

    if not folder.exists():
        say(f"making {_MINUTES:g} minutes of synthetic speech in {folder}")
        with replacing(folder) as unfinished:
            make_speech(unfinished, _MINUTES, seed=0)
    return folder


def _train(trainer: "EpochTrainer[Any]", workers: int) -> bool:
    """Train with a progress bar; whether the end was reached."""
    from whispertide.cli.progress import counting
    from whispertide_lab.cli.workers import interrupts_of_workers

    say(f"update {trainer.step}, {trainer.gone:.0%} of the run, on {trainer.device}, {workers} workers")
    with interrupts_of_workers() as interrupts, counting("thousandths") as advance:

        def progress(step: int, figures: dict[str, float]) -> None:
            advance("training", round(1000 * min(1.0, trainer.gone)), 1000)
            if "held_out" in figures:
                say(f"{step}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))

        ended = trainer.run(progress, workers, stop=lambda: interrupts.pressed)
    if not ended:
        say(f"saved at update {trainer.step}; the same command continues")
    return ended
