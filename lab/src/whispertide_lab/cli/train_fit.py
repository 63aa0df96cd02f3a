"""`whispertide train fit`, `resume`, `plot` and `export`: a training run. Parsing and printing only."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from whispertide.cli import completion
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.errors import OptionError
from whispertide.extras import how_to_install
from whispertide.plural import counted

if TYPE_CHECKING:
    from whispertide_lab.training.run import Run
    from whispertide_lab.training.run_options import Moved

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of the run.")]
DeviceOption = Annotated[
    str, typer.Option("--device", metavar="NAME", help="cpu or cuda. Default: cuda if there is one.")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", "-j", min=0, help="Processes that make windows. Default: one fewer than the cores, at most 16."
    ),
]
SpokenOption = Annotated[
    str | None,
    typer.Option("--language", "-l", metavar="CODE", help="Language of the speech, for multilingual models."),
]
SpeechOption = Annotated[
    list[str] | None,
    typer.Option(
        "--speech",
        metavar="FOLDER[=SHARE]",
        help="New places of the speech: every folder of the run, in the old order. Shares stay, unless given.",
    ),
]
MovedHeldOutOption = Annotated[
    list[Path] | None,
    typer.Option("--held-out", metavar="FOLDER", help="New places of the held-out shards, all in the old order."),
]


@guarded
def fit(
    speech: Annotated[
        list[str],
        typer.Argument(metavar="FOLDER[=SHARE]...", help="Shards, and the share of utterances drawn from them."),
    ],
    run: Annotated[Path, typer.Option("--run", metavar="RUN", help="A new folder for the run.")],
    shape: Annotated[
        str | None,
        typer.Option(
            "--shape", metavar="NAME", help="nano.en, tiny.en, base.en ...: from scratch, or grow --from into it."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="From a checkpoint, or from another run's folder.",
            autocompletion=completion.models,
        ),
    ] = None,
    lora: Annotated[
        int, typer.Option("--lora", metavar="RANK", min=0, help="Train only adapters of this rank (LoRA).")
    ] = 0,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Updates in all.")] = 20_000,
    finish: Annotated[
        Literal["padded", "none"],
        typer.Option(
            "--finish", help="padded: the last fifth of the updates uses windows of 30 s, as Whisper's training did."
        ),
    ] = "padded",
    batch_s: Annotated[float, typer.Option("--batch", metavar="S", min=1, help="Seconds of audio in a batch.")] = 60.0,
    accumulate: Annotated[int, typer.Option("--accumulate", metavar="N", min=1, help="Batches in an update.")] = 1,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Highest learning rate. The default depends on the kind of training.")
    ] = None,
    vocabulary: Annotated[
        Literal["auto", "used", "all"],
        typer.Option(
            "--vocabulary",
            help="used: train only the tokens in the speech, and merge the others. auto: used from scratch, else all.",
        ),
    ] = "auto",
    language: SpokenOption = None,
    held_out: Annotated[
        list[Path] | None,
        typer.Option("--held-out", metavar="FOLDER", help="Shards that are not trained on. Their loss is logged."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any setting, such as ctc=0 or windows.prompt=0.5. Repeatable."
        ),
    ] = None,
    precision: Annotated[
        Literal["auto", "bf16", "fp32"],
        typer.Option("--precision", help="auto: bf16 on a GPU or a CPU that supports it, else fp32."),
    ] = "auto",
    seed: Annotated[int, typer.Option("--seed", help="Seed for weights, windows and masks.")] = 0,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
) -> ExitCode:
    """Begin a training run. Ctrl-C saves; `train resume` continues it, also on another machine.

    It starts from scratch (--shape), or from a checkpoint (--from MODEL).
    With both, the checkpoint is grown into the shape.
    With --from MODEL --lora 16 only adapters are trained.
    """
    where = train_device(device)
    from whispertide_lab.training.device import has_bfloat16_units
    from whispertide_lab.training.presets import Wish, make_options, make_start
    from whispertide_lab.training.run import begin
    from whispertide_lab.training.run_options import Speech, with_settings

    wish = Wish(
        speech=tuple(Speech(said.folder, said.share or 1.0) for said in _folders(speech)),
        shape=shape,
        model=model,
        lora=lora,
        steps=steps,
        padded_finish=finish == "padded",
        batch_s=batch_s,
        accumulate=accumulate,
        rate=rate,
        vocabulary=vocabulary,
        language=language,
        held_out=tuple(str(folder) for folder in held_out or ()),
        precision=("bf16" if has_bfloat16_units(where) else "fp32") if precision == "auto" else precision,
        seed=seed,
    )
    start = make_start(wish, announce=say)
    options = with_settings(make_options(wish, start), settings or ())
    return _train(begin(run, options, start, where, say), workers)


@guarded
def resume(
    run: RunArgument,
    speech: SpeechOption = None,
    held_out: MovedHeldOutOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
) -> ExitCode:
    """Continue a run from its last save.

    On one machine's CPU, with as many threads, the result is the same to the bit.
    """
    where = train_device(device)
    from whispertide_lab.training.run import open_run

    moved = [str(folder) for folder in held_out or ()]
    return _train(open_run(run, where, say, _folders(speech or []), moved), workers)


@guarded
def plot(
    run: RunArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="png, pdf or svg; default: RUN/log.png.")
    ] = None,
) -> ExitCode:
    """Draw the log of a run: losses, learning rate, throughput."""
    train_device("cpu")
    from whispertide_lab.training.plot import plot as draw

    typer.echo(draw(run, output))
    return ExitCode.OK


@guarded
def export(
    run: RunArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="A new folder.")],
    dtype: Annotated[
        Literal["float16", "float32"], typer.Option("--dtype", help="Type of the stored weights.")
    ] = "float16",
) -> ExitCode:
    """Write the present weights of a run as a checkpoint in Hugging Face layout. Use it with `--model FOLDER`."""
    train_device("cpu")
    import numpy as np

    from whispertide.checkpoint.download import format_size
    from whispertide.checkpoint.hub import folder_size
    from whispertide.checkpoint.names import as_argument
    from whispertide_lab.training.run import export as write

    folder = write(run, output, np.float16 if dtype == "float16" else np.float32)
    say(f"{format_size(folder_size(folder))} of averaged weights and tokenizer")
    typer.echo(as_argument(folder))
    return ExitCode.OK


def _train(run: "Run", workers: int | None) -> ExitCode:
    """Train with a progress bar; the picture of the log is drawn anew at every save."""
    from whispertide.cli.progress import counting
    from whispertide_lab.cli.workers import interrupts_of_workers

    loop = run.options.loop
    count = train_workers() if workers is None else workers
    workers_are = counted(count, "worker")
    say(f"update {run.trainer.step} of {loop.steps} on {run.trainer.device}, {loop.precision}, {workers_are}")
    with interrupts_of_workers() as interrupts, counting("updates") as advance:

        def progress(step: int, figures: dict[str, float]) -> None:
            say(f"{step}: {_described(figures)}")
            advance("training", step, loop.steps)
            if step % loop.save_every < loop.report_every:
                _draw(run.folder)

        ended = run.train(progress, workers=count, stop=lambda: interrupts.pressed)
    picture = _draw(run.folder)
    if not ended:
        say(f"saved at update {run.trainer.step}; continue with: whispertide train resume {run.folder}")
        return ExitCode.INTERRUPTED
    say(f"done: {run.trainer.heard_s / 3600:.2f} h of audio{f'; {picture}' if picture else ''}")
    typer.echo(run.folder)
    return ExitCode.OK


def _described(figures: dict[str, float]) -> str:
    """A report as a line: losses first, then how fast it goes."""
    names = [name for name in ("next", "ctc", "guide", "held_out", "norm", "rate") if name in figures]
    parts = [f"{name} {figures[name]:.3g}" for name in names]
    if "speech_per_s" in figures:
        parts.append(f"{figures['speech_per_s']:.0f} s of speech and {figures['windows_per_s']:.1f} windows a second")
    if figures.get("waiting", 0) > 0.05:
        parts.append(f"{figures['waiting']:.0%} of the time no batch was ready")
    if figures.get("skipped"):
        parts.append(f"{figures['skipped']:.0f} updates skipped, because their gradients were not finite")
    return ", ".join(parts)


def _draw(folder: Path) -> Path | None:
    """The plot, or nothing where it cannot be drawn: a run does not end for that."""
    from whispertide.errors import WhispertideError
    from whispertide_lab.training.plot import plot as draw

    try:
        return draw(folder)
    except WhispertideError:
        return None


def train_device(name: str) -> str:
    """The device to train on; also the place where torch is missed."""
    try:
        from whispertide_lab.training.device import choose_device
    except ModuleNotFoundError as error:
        raise OptionError(
            f"expected PyTorch for training; it is missing ({error}): {how_to_install('train')}"
        ) from error
    return choose_device(name)


def train_workers() -> int:
    """The processes that make windows, unless the user says how many."""
    from whispertide.model.providers import usable_cpus

    return min(16, max(1, len(usable_cpus()) - 1))


def _folders(texts: list[str]) -> "tuple[Moved, ...]":
    """FOLDER=SHARE, or FOLDER alone, whose name may have an equals sign in it."""
    from whispertide_lab.training.run_options import Moved

    found = []
    for text in texts:
        alone = "=" not in text or Path(text).is_dir()
        folder, _, share = (text, "", "") if alone else text.rpartition("=")
        try:
            number = float(share) if share else None
        except ValueError:
            number = 0.0
        if number is not None and not 0 < number < float("inf"):
            raise OptionError(f"expected a share above 0 after the = of {text!r}, such as {folder}=0.5")
        found.append(Moved(folder, number))
    return tuple(found)
