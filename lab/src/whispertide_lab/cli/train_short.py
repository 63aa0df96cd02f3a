"""`whispertide train short`: an adapter with which a model hears short windows, learned from itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.cli.output import check_file
from whispertide_lab.cli.train_epochs import RUN, RankOption, RateOption, Training, length
from whispertide_lab.cli.train_fit import SpokenOption, train_device

if TYPE_CHECKING:
    from whispertide.checkpoint import Checkpoint
    from whispertide.checkpoint.short import ShortAdapter
    from whispertide_lab.training.short import ShortOptions

_HELD_OUT, _FEWEST = 20, 8  # one window in so many more is of held-out speakers, but never fewer than so many
_SPEECH_S = 5.0  # of speech for a window: it is cut out of more than it holds, and none is heard too often


@guarded
@arguments.group_options
def short(
    *,
    model: arguments.ModelArgument,
    audio: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="AUDIO...", help="Recordings, folders, or manifests that name speakers. Default: synthetic speech."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Default: in the cache, for every file with these weights."
        ),
    ] = None,
    windows: Annotated[int, typer.Option("--windows", min=1, help="Windows that the model answers first.")] = 1600,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Windows in an update.")] = 8,
    rank: RankOption = 16,
    rate: RateOption = 3e-4,
    merged: Annotated[
        int,
        typer.Option("--merged", min=0, help="Frames of merged padding after two windows in three. 0: all are bare."),
    ] = 16,
    language: SpokenOption = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Continue this adapter, or that of a model of the same shape."),
    ] = None,
    training: Annotated[Training, {**length(600), **RUN}],
) -> ExitCode:
    """Train a model for short windows, from its own texts of padded ones. No transcripts are needed.

    The last line says from when on tide uses the adapter. Ctrl-C saves and stops. The same command continues.
    """
    where = train_device(training.device)
    from whispertide.checkpoint import load_checkpoint
    from whispertide.checkpoint.short import ShortAdapter
    from whispertide_lab.training.short import ShortOptions

    checkpoint = load_checkpoint(model, announce=say)
    if output is not None:
        check_file(output)
    options = ShortOptions(
        lessons=windows,
        held_out=held_out(windows),
        batch=batch,
        rank=rank,
        rate=rate,
        merged=merged,
        language=language,
        seed=training.seed,
        content_hash=checkpoint.tensors_hash,
        **training.length,
    )
    begun = None if start is None else ShortAdapter.load(start, checkpoint, of_shape=True)
    code = teach(checkpoint, audio or [], options, training, where, output, begun)
    if code is ExitCode.OK:
        say(what_next(checkpoint, output, merged))
    return code


def what_next(checkpoint: "Checkpoint", output: Path | None, merged: int) -> str:
    """From when on tide uses an adapter that was written to `output`, or into the cache: what the package knows of a
    checkpoint counts first.
    """
    from whispertide.checkpoint.attachments import path_beside, path_in_cache
    from whispertide.checkpoint.short import KIND, short_adapter
    from whispertide.options import DEFAULT_RECIPE, EngineOptions
    from whispertide.recipes.calibration import applied_or_none, shipped_calibration
    from whispertide.recipes.catalogue import get_recipe
    from whispertide.streaming.choice import field_types
    from whispertide.streaming.framing import taught_framing

    found = short_adapter(checkpoint)
    if found is None or not found.samefile(output or path_in_cache(checkpoint, KIND)):
        return f"tide does not find it there: copy it to {path_beside(checkpoint, KIND)}"
    taught = taught_framing(merged)
    shipped = applied_or_none(shipped_calibration(checkpoint), get_recipe(DEFAULT_RECIPE), EngineOptions())
    if shipped is None or shipped.framing == taught:
        return f"tide uses it with {checkpoint.name} from now on"
    settings = {"framing": taught.kind, **{name: getattr(taught, name) for name in field_types(type(taught))}}
    given = " ".join(f"--set {name}={value}" for name, value in settings.items())
    return (
        f"tide still uses {checkpoint.name} as the package says, without this adapter: run "
        f"`whispertide tune {checkpoint.argument} AUDIO`, which tries both, or give {given}"
    )


def held_out(windows: int) -> int:
    """How many windows of held-out speakers are heard for so many others."""
    return max(_FEWEST, windows // _HELD_OUT)


@dataclass(frozen=True, slots=True)
class ShortLessons:
    """Lessons for `whispertide tune --train`, which finds them by the entry point `short` of `whispertide.teachers`."""

    checkpoint: "Checkpoint"
    options: "ShortOptions"
    device: str

    @property
    def windows(self) -> int:
        """How many the checkpoint answers first."""
        return self.options.lessons

    @property
    def updates(self) -> int:
        """Of the weights, at most."""
        return self.options.steps or 0

    def teach(self, audio: Sequence[Path]) -> ExitCode:
        """Train the adapter and keep it where models look for one."""
        return teach(self.checkpoint, audio, self.options, Training(), self.device)


def prepare_lessons(checkpoint: "Checkpoint", windows: int) -> ShortLessons:
    """Lessons of so many windows. Raises `OptionError` where torch is missing."""
    device = train_device("auto")
    from whispertide_lab.training.short import ShortOptions

    options = ShortOptions(held_out=held_out(windows), lessons=windows, content_hash=checkpoint.tensors_hash)
    return ShortLessons(checkpoint, options, device)


def teach(
    checkpoint: "Checkpoint",
    audio: Sequence[Path],
    options: "ShortOptions",
    training: Training,
    device: str,
    output: Path | None = None,
    start: "ShortAdapter | None" = None,
) -> ExitCode:
    """Train an adapter on these recordings, or on synthetic speech, and write it to `output`, or into the cache."""
    from whispertide.checkpoint.attachments import path_in_cache
    from whispertide.checkpoint.short import KIND
    from whispertide.cli.progress import counting
    from whispertide_lab.cli.workers import interrupts_of_workers
    from whispertide_lab.training.short import open_trainer
    from whispertide_lab.training.short_speech import gather

    path = output or path_in_cache(checkpoint, KIND)
    folder = training.run or Path(f"short-{checkpoint.tensors_hash[:8]}")
    with interrupts_of_workers() as interrupts, counting("") as advance:
        if audio:
            heard = folder.with_name(f"{folder.name}-speech")
            speech = gather(audio, heard, _SPEECH_S * options.lessons, options.seed, advance)
        else:
            speech = training.speech(folder)
        trainer = open_trainer(
            checkpoint,
            speech,
            options,
            folder,
            device,
            start=start,
            advance=advance,
            stop=lambda: interrupts.pressed,
        )
    if trainer is None:
        say("saved the texts so far; the same command continues")
        return ExitCode.INTERRUPTED
    path.parent.mkdir(parents=True, exist_ok=True)
    return training.train(trainer, path, table)


def table(report: Mapping[str, Any]) -> str:
    """What the held-out windows say, without the adapter and with it."""
    before, after = report["texts_without"], report["texts"]
    rows = [
        ("of windows of other speakers", "without", "with"),
        ("texts that do not end", *(f"{texts['endless']} of {texts['windows']}" for texts in (before, after))),
        ("words that differ", *(f"{texts['changed']} of {texts['words']}" for texts in (before, after))),
        ("words added", *(str(texts["added"]) for texts in (before, after))),
        ("distance per token, bare", *(f"{texts['distance']:g}" for texts in (before, after))),
        ("distance per token, padded", *(f"{texts['distance_padded']:g}" for texts in (before, after))),
        ("loss per token", f"{report['held_out_without']:g}", f"{report['held_out']:g}"),
    ]
    return "\n".join(f"{name:30} {first:>12} {second:>12}" for name, first, second in rows)
