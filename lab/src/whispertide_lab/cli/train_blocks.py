"""`whispertide train blocks`: the adapter with which a model's encoder hears in blocks, for `framing=masked`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide_lab.cli.train_epochs import RUN, SPEECH, RankOption, RateOption, Training, file_for, length
from whispertide_lab.cli.train_fit import train_device


@guarded
@arguments.group_options
def blocks(
    *,
    model: arguments.ModelArgument,
    mask: Annotated[
        str,
        typer.Option("--mask", metavar="NAME", help="d750, d500 or d250: blocks of 15, 10, 5 s; c250: causal ones."),
    ] = "d750",
    output: arguments.Attachment = None,
    rank: RankOption = 16,
    rate: RateOption = 1e-3,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Windows of 30 s in an update.")] = 4,
    training: Annotated[Training, {**SPEECH, **length(2000), **RUN}],
) -> ExitCode:
    """Train a model's encoder for separate blocks, so that padding costs nothing (framing masked).

    It learns to give its own output for 30 s also in blocks. Ctrl-C saves and stops; the same command continues.
    """
    from whispertide.checkpoint.mask import Mask

    wanted = Mask.parse(mask)
    where = train_device(training.device)
    from whispertide.checkpoint import load_checkpoint
    from whispertide.checkpoint.masked import KIND
    from whispertide_lab.training.masked import MaskedOptions, open_trainer
    from whispertide_lab.training.masked_batches import MaskedBatchOptions

    checkpoint = load_checkpoint(model, announce=say)
    path = file_for(checkpoint, KIND, str(wanted), asked=output)
    windows = MaskedBatchOptions(count=batch)
    options = MaskedOptions(
        mask=str(wanted),
        rank=rank,
        rate=rate,
        seed=training.seed,
        content_hash=checkpoint.tensors_hash,
        batch=replace(windows, windows=replace(windows.windows, language=training.language)),
        **training.length,
    )
    folder = training.run or Path(f"blocks-{wanted}-{checkpoint.content_hash[:8]}")
    trainer = open_trainer(checkpoint, training.speech(folder), options, folder, where)
    return training.train(trainer, path, _told)


def _told(report: dict[str, Any]) -> str:
    now, before = report["distances"], report["distances_without"]
    return (
        f"distance to the whole encoder on held-out windows: outputs {now['outputs']}, text {now['text']}; without "
        f"training {before['outputs']} and {before['text']}"
    )
