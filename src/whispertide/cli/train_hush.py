"""`whispertide train hush`: the hush word of a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.atomic import replacing
from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say, writing
from whispertide.cli.train_adapter import RunOption
from whispertide.cli.train_fit import DeviceOption, SpokenOption, WorkersOption, train_device, train_workers
from whispertide.cli.train_prepare import prepared
from whispertide.errors import OptionError

if TYPE_CHECKING:
    from whispertide.lab.training.hush import HushTrainer
    from whispertide.lab.training.shards import Shards


_MINUTES = 30.0  # of synthetic speech


@guarded
def hush(
    model: arguments.Model,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", metavar="PATH", help="A manifest, or folders of shards. Default: synthetic speech."),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Length of the hush word.")] = 0.5,
    output: arguments.Attachment = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Updates in all.")] = 1200,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Windows in an update.")] = 8,
    rate: Annotated[float, typer.Option("--rate", help="Highest learning rate.")] = 0.01,
    language: SpokenOption = None,
    held_out: Annotated[
        int, typer.Option("--held-out", min=1, help="Held-out windows, by which the best epochs are chosen.")
    ] = 80,
    seed: Annotated[int, typer.Option("--seed", help="Seed for the windows and the first noise.")] = 0,
    run: RunOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
) -> ExitCode:
    """Train a hush word: a short sound after the audio, from which the model knows that speech ends.

    Ctrl-C saves and stops. The same command continues.
    """
    where = train_device(device)
    from whispertide.checkpoint import load_checkpoint
    from whispertide.checkpoint.attachments import place
    from whispertide.lab.training.hush import HushOptions, open_trainer
    from whispertide.lab.training.hush_windows import HushWindowOptions
    from whispertide.lab.training.network import load_network
    from whispertide.streaming.hush import KIND

    checkpoint = load_checkpoint(model, announce=say)
    options = HushOptions(
        seconds=seconds,
        steps=steps,
        batch=batch,
        rate=rate,
        held_out=held_out,
        seed=seed,
        content_hash=checkpoint.content_hash,
        windows=HushWindowOptions(language=language),
    )
    path = output or place(checkpoint, KIND, f"{seconds:g}")
    folder = run or Path(f"hush-{seconds:g}s-{checkpoint.content_hash[:8]}")
    speech = speech_or_synthetic(data or [], folder)
    trainer = open_trainer(load_network(checkpoint), checkpoint.tokenizer, speech, options, folder, where)
    say(f"the run is kept in {folder}")
    if not _train(trainer, train_workers() if workers is None else workers):
        say(f"saved at update {trainer.step}; the same command continues")
        return ExitCode.INTERRUPTED
    word = trainer.result()
    with writing(path):
        word.save(path)
    say(
        f"loss per token on held-out windows: {word.report['held_out']}; with as much silence: "
        f"{word.report['held_out_zeros']}"
    )
    typer.echo(path)
    return ExitCode.OK


def speech_or_synthetic(data: list[Path], run: Path) -> "Shards":
    """The utterances of folders of shards, of manifests, or synthetic ones; the latter two are kept next to the run."""
    from whispertide.lab.training.shards import open_shards

    folders = []
    for number, path in enumerate(data):
        if not path.exists():
            raise OptionError(f"expected a manifest or a folder of shards for --data; {path} does not exist")
        if path.is_dir():
            folders.append(path)
            continue
        folders.append(run.with_name(f"{run.name}-speech-{number}"))
        if not folders[-1].exists():
            prepared(path, folders[-1])
    return open_shards(folders or [_synthetic(run.with_name(f"{run.name}-speech"))])


def _synthetic(folder: Path) -> Path:
    """A folder of synthetic speech, made if it is not there."""
    from whispertide.lab.training.timed_speech import make_speech

    if not folder.exists():
        say(f"making {_MINUTES:g} minutes of synthetic speech in {folder}")
        with replacing(folder) as unfinished:
            make_speech(unfinished, _MINUTES, seed=0)
    return folder


def _train(trainer: "HushTrainer", workers: int) -> bool:
    """Train with a progress bar; whether the end was reached."""
    from whispertide.cli.interrupt import Interrupts
    from whispertide.cli.progress import counting

    steps = trainer.options.steps
    say(f"update {trainer.step} of {steps} on {trainer.device}, {workers} workers")
    with Interrupts() as interrupts, counting("updates") as advance:

        def progress(step: int, figures: dict[str, float]) -> None:
            advance("training", step, steps)
            if "held_out" in figures:
                say(f"{step}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))

        return trainer.run(progress, workers, stop=lambda: interrupts.pressed)
