"""`whispertide train offramp`: small networks that say which utterances a model hears badly."""

from pathlib import Path
from typing import Annotated

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say, writing
from whispertide.cli.train_epochs import timed_speech, told_figures
from whispertide.cli.train_fit import train_device


@guarded
def offramp(
    model: arguments.ModelArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Default: next to the checkpoint.")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", metavar="DIR", help="Speech with its text, as shards. Default: synthetic speech."),
    ] = None,
    minutes: Annotated[float, typer.Option("--minutes", min=1.0, help="Of synthetic speech.")] = 60.0,
    utterances: Annotated[int, typer.Option("--utterances", min=50, help="That are heard at most.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Seed for speech, noise and training.")] = 0,
) -> ExitCode:
    """Train networks that tell which utterances a model hears badly (pilot, executor.offramp=bilstm, cnn or linear).

    The model hears every utterance, in noise and rooms, with pilots. From the newest pilot the networks learn which
    texts had more than 10 % of wrong words.
    """
    train_device("cpu")
    from functools import partial

    import whispertide
    from whispertide.atomic import check_place
    from whispertide.cli.progress import counting
    from whispertide.lab.training.offramp import OfframpOptions, fitting, hear_examples, pilots_recipe, train_offramp
    from whispertide.streaming.trained_offramp import TRAINED

    options = OfframpOptions(utterances=utterances, seed=seed)
    loaded = whispertide.load(model, announce=say)
    folder, recipe = output or loaded.model.checkpoint.folder, loaded.framed(pilots_recipe()).recipe
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        check_place(folder / TRAINED[0])
    examples = []
    with timed_speech(data, minutes, seed) as speech:
        said = fitting(speech, options)
        with counting("utterances") as advance:
            for number, example in enumerate(hear_examples(loaded.model, recipe, said, options), 1):
                examples += [] if example is None else [example]
                advance("hearing", number, len(said))
    for kind in TRAINED:
        with counting("epochs") as advance:
            progress = partial(advance, f"training {kind}")
            trained = train_offramp(kind, examples, options, loaded.model.content_hash, progress)
        with writing(folder):
            path = trained.save(folder)
        say(told_figures(trained.report))
        typer.echo(path)
    return ExitCode.OK
