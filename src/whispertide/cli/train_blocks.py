"""`whispertide train blocks`: the adapter with which a model's encoder hears in blocks, for `framing=masked`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say, writing
from whispertide.cli.train_adapter import MinutesOption, RateOption, RunOption, StepsOption, train_adapter, updates
from whispertide.cli.train_fit import DeviceOption, SpokenOption, WorkersOption, train_device, train_workers
from whispertide.cli.train_hush import speech_or_synthetic


@guarded
def blocks(
    model: arguments.ModelArgument,
    mask: Annotated[
        str,
        typer.Option("--mask", metavar="NAME", help="d750, d500 or d250: blocks of 15, 10, 5 s; c250: causal ones."),
    ] = "d750",
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", metavar="PATH", help="A manifest, or folders of shards. Default: synthetic speech."),
    ] = None,
    output: arguments.Attachment = None,
    rank: Annotated[
        int, typer.Option("--rank", min=1, help="Of the changes (LoRA). The file's size grows with it.")
    ] = 16,
    steps: StepsOption = None,
    minutes: MinutesOption = None,
    rate: RateOption = 1e-3,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Windows of 30 s in an update.")] = 4,
    language: SpokenOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed for windows and adapters.")] = 0,
    run: RunOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
) -> ExitCode:
    """Teach a model's encoder to hear in blocks, so that padding costs nothing (framing masked).

    It learns from itself, to give in blocks what it gives over 30 s. Ctrl-C saves and stops; the same command goes on.
    """
    from whispertide.checkpoint.mask import Mask

    wanted = Mask.parse(mask)
    where = train_device(device)
    from whispertide.checkpoint import load_checkpoint
    from whispertide.checkpoint.attachments import place
    from whispertide.checkpoint.masked import KIND
    from whispertide.lab.training.masked import MaskedOptions, open_trainer
    from whispertide.lab.training.masked_batches import MaskedBatchOptions

    checkpoint = load_checkpoint(model, announce=say)
    windows = MaskedBatchOptions(count=batch)
    options = MaskedOptions(
        mask=str(wanted),
        rank=rank,
        steps=updates(steps, minutes),
        minutes=minutes,
        rate=rate,
        seed=seed,
        content_hash=checkpoint.content_hash,
        batch=replace(windows, windows=replace(windows.windows, language=language)),
    )
    path = output or place(checkpoint, KIND, str(wanted))
    folder = run or Path(f"blocks-{wanted}-{checkpoint.content_hash[:8]}")
    trainer = open_trainer(checkpoint, speech_or_synthetic(data or [], folder), options, folder, where)
    say(f"the run is kept in {folder}")
    if not train_adapter(trainer, train_workers() if workers is None else workers):
        return ExitCode.INTERRUPTED
    adapter = trainer.result()
    with writing(path):
        adapter.save(path)
    now, before = adapter.report["distances"], adapter.report["distances_without"]
    say(
        f"distance to the whole encoder on held-out windows: outputs {now['outputs']}, text {now['text']}; without "
        f"training {before['outputs']} and {before['text']}"
    )
    typer.echo(path)
    return ExitCode.OK
