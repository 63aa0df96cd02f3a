"""`whispertide train causal`: the causal adapter of a model, for recipes that encode sound as it arrives."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.errors import OptionError
from whispertide_lab.cli.train_epochs import (
    RUN,
    SPEECH,
    RankOption,
    RateOption,
    Training,
    file_for,
    length,
    with_word_times,
)
from whispertide_lab.cli.train_fit import train_device

_FRAME_S = 0.02  # of the encoder


@guarded
@arguments.group_options
def causal(
    *,
    model: arguments.ModelArgument,
    chunk: Annotated[
        str, typer.Option("--chunk", metavar="S", help="Seconds of a chunk, or any: all from 0.1 to 1 s.")
    ] = "any",
    output: arguments.Attachment = None,
    rank: RankOption = 32,
    rate: RateOption = 1e-3,
    batch_s: Annotated[
        float, typer.Option("--batch", metavar="S", min=1, help="Seconds of audio in an update.")
    ] = 40.0,
    order: Annotated[
        Literal["together", "ordered", "random"],
        typer.Option(
            "--order",
            metavar="NAME",
            help="The moments of a window in one optimiser step (together), or one step each (ordered, random).",
        ),
    ] = "together",
    training: Annotated[Training, {**SPEECH, **length(2000), **RUN}],
) -> ExitCode:
    """Make a model causal: train an adapter, so that audio is encoded once, chunk by chunk (recipe whisperrt).

    Where speech has no word times, the model's own attention places the words first. Ctrl-C saves and stops. The same
    command continues.
    """
    where = train_device(training.device)
    block = _block(chunk)
    from whispertide.checkpoint import load_checkpoint
    from whispertide.checkpoint.causal import KIND, is_inside
    from whispertide_lab.training.causal import CausalOptions, open_trainer
    from whispertide_lab.training.causal_batches import CausalBatchOptions, stream_windows

    checkpoint = load_checkpoint(model, announce=say)
    if is_inside(checkpoint):
        raise OptionError(
            f"expected a model without a causal adapter; {checkpoint.name} already contains one, which would be used "
            "instead: use it as it is, or train one for another model"
        )
    path = file_for(checkpoint, KIND, asked=output)
    options = CausalOptions(
        rank=rank,
        rate=rate,
        order=order,
        seed=training.seed,
        content_hash=checkpoint.tensors_hash,
        batch=CausalBatchOptions(block=block, seconds=batch_s, windows=stream_windows(training.language)),
        **training.length,
    )
    folder = training.run or Path(f"causal-{chunk}-{checkpoint.content_hash[:8]}")
    speech = with_word_times(checkpoint, training.speech(folder), training.language)
    trainer = open_trainer(checkpoint, speech, options, folder, where)
    return training.train(trainer, path, _told)


def _told(report: dict[str, Any]) -> str:
    return (
        f"loss per token at sample points: {report['held_out']}, without the adapter {report['held_out_without']}; "
        f"ARWER: {report['arwer']}, without {report['arwer_without']}"
    )


def _block(chunk: str) -> int:
    """Encoder frames in a chunk; 0 for any. Raises `OptionError`."""
    if chunk == "any":
        return 0
    from whispertide.checkpoint.causal import LONGEST_BLOCK, SHORTEST_BLOCK

    try:
        frames = float(chunk) / _FRAME_S
    except ValueError:
        frames = 0.0
    if not SHORTEST_BLOCK <= frames < LONGEST_BLOCK + 0.5 or abs(frames - round(frames)) > 1e-6:
        raise OptionError(f"expected --chunk any, or a multiple of {_FRAME_S} s from 0.04 to 1 s; got {chunk!r}")
    return round(frames)
