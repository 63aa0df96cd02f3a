"""`whispertide train causal`: the causal adapter of a model, for recipes that encode sound as it arrives."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say, writing
from whispertide.cli.train_adapter import MinutesOption, RateOption, RunOption, StepsOption, train_adapter, updates
from whispertide.cli.train_fit import DeviceOption, SpokenOption, WorkersOption, train_device, train_workers
from whispertide.cli.train_hush import speech_or_synthetic
from whispertide.errors import OptionError

_FRAME_S = 0.02


@guarded
def causal(
    model: arguments.ModelArgument,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            metavar="PATH",
            help="A manifest, or folders of shards, with word times. Default: synthetic speech.",
        ),
    ] = None,
    chunk: Annotated[
        str, typer.Option("--chunk", metavar="S", help="Seconds of a chunk, or any: all from 0.1 to 1 s.")
    ] = "any",
    output: arguments.Attachment = None,
    rank: Annotated[
        int, typer.Option("--rank", min=1, help="Of the changes (LoRA). The file's size grows with it.")
    ] = 32,
    steps: StepsOption = None,
    minutes: MinutesOption = None,
    rate: RateOption = 1e-3,
    batch_s: Annotated[
        float, typer.Option("--batch", metavar="S", min=1, help="Seconds of sound in an update.")
    ] = 40.0,
    order: Annotated[
        Literal["together", "ordered", "random"],
        typer.Option(
            "--order",
            metavar="NAME",
            help="The moments of a window in one optimiser step (together), or one step each (ordered, random).",
        ),
    ] = "together",
    language: SpokenOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed for windows, moments and adapters.")] = 0,
    run: RunOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
) -> ExitCode:
    """Make a model causal: train an adapter, so that sound is encoded once, chunk by chunk (recipe whisperrt).

    Ctrl-C saves and stops. The same command continues.
    """
    where = train_device(device)
    block = _block(chunk)
    from whispertide.checkpoint import load_checkpoint
    from whispertide.checkpoint.attachments import place
    from whispertide.checkpoint.causal import KIND
    from whispertide.lab.training.causal import CausalOptions, open_trainer
    from whispertide.lab.training.causal_batches import CausalBatchOptions, stream_windows

    checkpoint = load_checkpoint(model, announce=say)
    options = CausalOptions(
        rank=rank,
        steps=updates(steps, minutes),
        minutes=minutes,
        rate=rate,
        order=order,
        seed=seed,
        content_hash=checkpoint.content_hash,
        batch=CausalBatchOptions(block=block, seconds=batch_s, windows=stream_windows(language)),
    )
    path = output or place(checkpoint, KIND)
    folder = run or Path(f"causal-{chunk}-{checkpoint.content_hash[:8]}")
    trainer = open_trainer(checkpoint, speech_or_synthetic(data or [], folder), options, folder, where)
    say(f"the run is kept in {folder}")
    if not train_adapter(trainer, train_workers() if workers is None else workers):
        return ExitCode.INTERRUPTED
    say("choosing among the best epochs by ARWER")
    adapter = trainer.result()
    with writing(path):
        adapter.save(path)
    report = adapter.report
    say(
        f"loss per token at sample points: {report['held_out']}, without the adapter {report['held_out_without']}; "
        f"ARWER: {report['arwer']}, without {report['arwer_without']}"
    )
    typer.echo(path)
    return ExitCode.OK


def _block(chunk: str) -> int:
    """Encoder frames in a chunk; 0 for any. Raises `OptionError`."""
    if chunk == "any":
        return 0
    try:
        frames = float(chunk) / _FRAME_S
    except ValueError:
        frames = 0.0
    if not 1 <= round(frames) <= 50 or abs(frames - round(frames)) > 1e-6:
        raise OptionError(f"expected --chunk any, or a multiple of {_FRAME_S} s up to 1 s; got {chunk!r}")
    return round(frames)
