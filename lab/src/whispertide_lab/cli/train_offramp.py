"""`whispertide train offramp`: small networks that say which utterances a model hears badly."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.atomic import writing
from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide_lab.cli.train_epochs import timed_speech, told_figures
from whispertide_lab.cli.train_fit import train_device

if TYPE_CHECKING:
    from whispertide_lab.training.offramp import Example, OfframpOptions
    from whispertide_lab.training.shards import Utterance


@dataclass(frozen=True, slots=True)
class _Listener:
    """A model that hears utterances: its folder, and what their last texts were like."""

    folder: Path
    content_hash: str
    hear: "Callable[[list[Utterance], OfframpOptions], Iterator[Example | None]]"


def _listener(name: str) -> _Listener:
    """A Whisper checkpoint."""
    import whispertide
    from whispertide_lab.training.offramp import hear_examples, pilots_recipe

    loaded = whispertide.load(name, announce=say)
    hear = partial(hear_examples, loaded.model, loaded.framed(pilots_recipe()).recipe)
    return _Listener(loaded.model.checkpoint.folder, loaded.model.content_hash, hear)


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
    minutes: Annotated[float, typer.Option("--minutes", min=1.0, help="Minutes of synthetic speech.")] = 60.0,
    utterances: Annotated[int, typer.Option("--utterances", min=50, help="Largest number of utterances.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Seed for speech, noise and training.")] = 0,
) -> ExitCode:
    """Train networks that predict which utterances a model gets wrong, to compare them with perplexity.

    The model decodes every utterance, in noise and rooms, with pilots. From the newest pilot the networks learn which
    texts had more than 10 % of wrong words. `bench paper pilot` compares the networks next to the model with
    perplexity.
    """
    train_device("cpu")
    from whispertide.atomic import check_place
    from whispertide.cli.progress import counting
    from whispertide_lab.evaluation.trained_offramp import TRAINED
    from whispertide_lab.training.offramp import OfframpOptions, fitting, train_offramp

    options = OfframpOptions(utterances=utterances, seed=seed)
    listener = _listener(model)
    folder = output or listener.folder
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        check_place(folder / TRAINED[0])
    examples = []
    with timed_speech(data, minutes, seed) as speech:
        said = fitting(speech, options)
        with counting("utterances") as advance:
            for number, example in enumerate(listener.hear(said, options), 1):
                examples += [] if example is None else [example]
                advance("hearing", number, len(said))
    for kind in TRAINED:
        with counting("epochs") as advance:
            progress = partial(advance, f"training {kind}")
            trained = train_offramp(kind, examples, options, listener.content_hash, progress)
        with writing(folder):
            path = trained.save(folder)
        say(told_figures(trained.report))
        typer.echo(path)
    return ExitCode.OK
