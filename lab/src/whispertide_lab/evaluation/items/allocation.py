"""WhisperFlow's figure 12: latency by how the processor's cores are divided between encoding and decoding.

The same recorded rounds run with every division that `whispertide profile` knows; the figure is what it measured.
"""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from whispertide.model.providers import thread_count
from whispertide.recipes.allocation import Allocation, Measured
from whispertide.recipes.catalogue import get_recipe
from whispertide.tuning.page import Table
from whispertide.tuning.profile import label, measure_all
from whispertide.types import FloatArray
from whispertide_lab.evaluation import plots
from whispertide_lab.evaluation.items import whisperflow
from whispertide_lab.evaluation.paper import Outcome, Plot

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner

UTTERANCES = 3
MADE_BY = (__name__, whisperflow.__name__)


def division_figure(runner: "Runner") -> Outcome:
    """WhisperFlow, figure 12."""
    rows, bars = [], []
    for number, model in enumerate(runner.models):
        measure = partial(_measure, runner, model)
        for item in runner.kept("divisions", list[Measured], measure, *MADE_BY, models=(model,)):
            times = (f"{1000 * figure:.0f}" for figure in (item.round_s, item.period_s, item.delay_s))
            rows.append((model, label(item.allocation), *times))
            bars.append(plots.Bar(f"{Path(model).name}, {_threads(item.allocation)}", item.delay_s, colour=number))
    columns = ("model", "division", "a round (ms)", "from result to result (ms)", "delay (ms)")
    caption = "Delay by division of the threads: encoder + decoder, or both by all"
    drawing = plots.bars(bars, x_label="from the audio to the result that takes it in (s)", title=caption)
    return Outcome((Table(columns, tuple(rows)),), (Plot(drawing, caption),), _note(runner))


def _threads(allocation: Allocation) -> str:
    """Of the encoder, and of the decoder if it has a worker of its own."""
    places = (allocation.encoder, allocation.decoder)
    return " + ".join(str(place.threads) for place in places if place is not None)


def _measure(runner: "Runner", model: str) -> list[Measured]:
    def say(what: str, done: int, total: int) -> None:
        runner.watch.say(f"{model}, {done} of {total}: {what}")

    return measure_all(runner.transcriber(model).model, get_recipe(whisperflow.SYSTEM), _audio(runner), say)


def _audio(runner: "Runner") -> FloatArray:
    """The corpus's first utterances, one after the other."""
    found: Sequence[FloatArray] = [utterance.audio() for utterance in islice(runner.corpus.utterances(), UTTERANCES)]
    return np.concatenate(found)


def _note(runner: "Runner") -> str:
    return (
        f"Rounds of `{whisperflow.SYSTEM}`, recorded once and run again as fast as they can, with at most "
        f"{thread_count(runner.setup.engine)} threads. The delay is half the time between results plus a round. "
        "The paper divides the cores of a processor, with the other stage on a GPU. Here both are on the processor."
    )
