"""`whispertide train hush`: the hush word of a model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide_lab.cli.train_epochs import RUN, SPEECH, RateOption, Training, file_for, length, with_pseudo_labels
from whispertide_lab.cli.train_fit import train_device


@guarded
@arguments.group_options
def hush(
    *,
    model: arguments.Model,
    seconds: Annotated[float, typer.Option("--seconds", help="Length of the hush word.")] = 0.5,
    output: arguments.Attachment = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Windows in an update.")] = 8,
    rate: RateOption = 0.01,
    held_out: Annotated[
        int, typer.Option("--held-out", min=1, help="Held-out windows, by which the best epochs are chosen.")
    ] = 80,
    pseudo_labels: Annotated[
        bool,
        typer.Option(
            "--pseudo-labels",
            help="Learn from the model's own text of each recording: for transcripts without case and punctuation.",
        ),
    ] = False,
    training: Annotated[Training, {**SPEECH, **length(1200), **RUN}],
) -> ExitCode:
    """Train a hush word: a short sound after the audio that marks the end of speech for the model.

    Ctrl-C saves and stops. The same command continues.
    """
    where = train_device(training.device)
    from whispertide.checkpoint import load_checkpoint
    from whispertide.methods.short.hush import KIND
    from whispertide_lab.training.hush import HushOptions, open_trainer
    from whispertide_lab.training.hush_windows import HushWindowOptions
    from whispertide_lab.training.network import load_network

    checkpoint = load_checkpoint(model, announce=say)
    path = file_for(checkpoint, KIND, f"{seconds:g}", asked=output)
    options = HushOptions(
        seconds=seconds,
        batch=batch,
        rate=rate,
        held_out=held_out,
        seed=training.seed,
        content_hash=checkpoint.tensors_hash,
        windows=HushWindowOptions(language=training.language),
        **training.length,
    )
    folder = training.run or Path(f"hush-{seconds:g}s-{checkpoint.content_hash[:8]}")
    speech = training.speech(folder)
    if pseudo_labels:
        speech = with_pseudo_labels(checkpoint, speech, training.language)
    trainer = open_trainer(load_network(checkpoint), checkpoint.tokenizer, speech, options, folder, where)
    return training.train(trainer, path, _told)


def _told(report: dict[str, Any]) -> str:
    return f"loss per token on held-out windows: {report['held_out']}; with as much silence: {report['held_out_zeros']}"
