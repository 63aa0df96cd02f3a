"""One cell of a benchmark: a recogniser hears every utterance of a corpus, and its traces become one line of scores.

    score, rows = run_cell(streaming(transcriber, recipe), corpus, about)

A recogniser is a function from an utterance to its trace: `streaming` and `offline` make ours, peers bring their own.
What becomes of a trace is `score`'s affair.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from whispertide.api import Transcriber
from whispertide.options import DecodeOptions
from whispertide.recipes.recipe import Recipe
from whispertide.types import seconds
from whispertide_lab.evaluation.clock import play
from whispertide_lab.evaluation.energy import Meter
from whispertide_lab.evaluation.score import aggregate, judge
from whispertide_lab.evaluation.store import Json
from whispertide_lab.evaluation.trace import FREE, PROCESSOR, ClockName, RoundCost, Shown, Trace
from whispertide_lab.speech.utterance import Corpus, Utterance

OFFLINE = DecodeOptions(word_timestamps=False)

Recogniser = Callable[[Utterance], Trace]


def streaming(
    transcriber: Transcriber,
    recipe: Recipe,
    *,
    clock: ClockName = "simulated",
    options: DecodeOptions | None = None,
) -> Recogniser:
    """Our recogniser by that recipe, a new session for each utterance, under one of the three clocks.

    Unless `options` say otherwise it is told the utterance's language. The graphs are opened now, so that no round
    pays for it. Raises `UnknownLanguageError` for an utterance in a language that the model cannot write.
    """
    transcriber.warm_up()

    def recognise(utterance: Utterance) -> Trace:
        asked = options or DecodeOptions(language=utterance.language)
        session = transcriber.session(recipe, options=asked, live=True)
        samples, dims = utterance.audio(), transcriber.dims
        return play(session, samples, clock=clock, utterance=utterance.id, recogniser=recipe.name, dims=dims)

    return recognise


def offline(
    transcriber: Transcriber, *, clock: ClockName = "simulated", options: DecodeOptions = OFFLINE
) -> Recogniser:
    """Our offline transcription: all text is confirmed when it is done, which began when the last sample was spoken.

    It is told each utterance's language. With the free clock it is done at once. Its encoder work is not counted.
    """
    transcriber.warm_up()

    def recognise(utterance: Utterance) -> Trace:
        samples = utterance.audio()
        chosen = replace(options, language=utterance.language)
        meter = Meter()
        segments = list(transcriber.transcribe_segments(samples, options=chosen))
        usage = meter.read()
        took = usage.cpu_s if clock == PROCESSOR else usage.wall_s
        length_s = seconds(len(samples))  # a header, or a manifest, may say something else
        end = length_s + (0.0 if clock == FREE else took)
        words = tuple(word for segment in segments for word in segment.text.split())
        return Trace(
            utterance=utterance.id,
            recogniser="offline",
            clock="simulated" if clock == "live" else clock,
            audio_s=length_s,
            shown=(Shown(end, words),),
            rounds=(RoundCost(length_s, took, length_s),),
            **asdict(usage),
        )

    return recognise


def run_cell(
    recogniser: Recogniser,
    corpus: Corpus,
    about: Mapping[str, Any],
    *,
    offline: Mapping[str, Trace] | None = None,
) -> tuple[Json, list[Json]]:
    """Every utterance of the corpus, one after the other: the rows of the cell and of each (`score`).

    `offline` has what the same weights write of the utterances offline, by their names.
    """
    rows = [judge(said, recogniser(said), (offline or {}).get(said.id)) for said in corpus.utterances()]
    return aggregate(rows, about), rows
