"""`whispertide train drafter`: the recurrent drafter of a model."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide_lab.cli.train_epochs import SEED, SPEECH, Training, file_for, length, told_figures
from whispertide_lab.cli.train_fit import train_device


@guarded
@arguments.group_options
def drafter(
    *,
    model: arguments.ModelArgument,
    output: arguments.Attachment = None,
    windows: Annotated[int, typer.Option("--windows", min=40, help="Windows of speech to learn from.")] = 2000,
    known: Annotated[int, typer.Option("--known", min=1, help="Tokens that it knows, the commonest.")] = 4096,
    size: Annotated[int, typer.Option("--size", min=1, help="Of its state.")] = 160,
    training: Annotated[Training, {**SPEECH, **length(1500), **SEED}],
) -> ExitCode:
    """Train a drafter: a small network that guesses the next tokens, so that greedy search takes fewer decoder runs.

    The text stays the same (--set search=drafted). Ctrl-C saves and stops. The same command continues.
    """
    train_device("cpu")
    from whispertide.cli.interrupt import Interrupts
    from whispertide.cli.progress import counting
    from whispertide.decoding.recurrent import KIND
    from whispertide.model.whisper import load_model
    from whispertide.options import EngineOptions
    from whispertide_lab.training.drafter import DrafterOptions, open_trainer

    loaded = load_model(model, EngineOptions(precision="fp32"), announce=say)
    path = file_for(loaded.checkpoint, KIND, asked=output)
    options = DrafterOptions(
        windows=windows,
        known=known,
        size=size,
        language=training.language,
        seed=training.seed,
        content_hash=loaded.content_hash,
        **training.length,
    )
    folder = training.run or Path(f"drafter-{loaded.content_hash[:8]}")
    speech = training.speech(folder)
    with Interrupts() as interrupts, counting("windows") as advance:
        heard = partial(advance, "hearing")
        trainer = open_trainer(loaded, speech, options, folder, heard, lambda: interrupts.pressed)
    if trainer is None:
        say(f"what was heard is kept in {folder}; the same command continues")
        return ExitCode.INTERRUPTED
    here = replace(training, workers=0)  # its batches are in memory
    return here.train(trainer, path, told_figures)
