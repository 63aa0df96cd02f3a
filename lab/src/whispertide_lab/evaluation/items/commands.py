"""Sentences as voice commands, heard by pilots: how long somebody waits after the last word (arXiv 2311.17065).

The utterances are sentences of synthetic talks of 2 to 8 s, each cut out with a quarter of a second around it, or whole
commands where a corpus has them; the end of the audio is the end of speech, or the voice gate finds it in the silence
after that (`GATED`). Audio comes as it is spoken on a simulated clock. Computing occupies the one worker for the
processor time that it took, so other load on the machine does not count; or for wall time.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from whispertide.api import Transcriber
from whispertide.audio.vad import SpeechStopped
from whispertide.decoding.search import Guard
from whispertide.methods.pilot.hybrid import HybridExecutor
from whispertide.methods.pilot.pilot import HeardUtterance, Pilot, Scores
from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.ahead import HeardAhead
from whispertide.streaming.round import Opened, RoundPlan, RoundResult
from whispertide.streaming.stages import SerialExecutor, Staged
from whispertide.types import SAMPLE_RATE, FloatArray, seconds
from whispertide_lab.evaluation.clips import cut_sentences
from whispertide_lab.evaluation.clock import play
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.evaluation.trained_offramp import Asking, OffloadModel
from whispertide_lab.evaluation.views import look
from whispertide_lab.evaluation.wer import Counts, align
from whispertide_lab.speech.utterance import Utterance

WAYS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "no pilots": {"pilots_from_s": 30.0, "collapse": False, "length_cap": False},
        "greedy without pilots": {"pilots_from_s": 30.0, "search": "greedy"},
        "pilots": {"executor": "hybrid"},
        "pilots to their end": {},
        "no collapse": {"executor": "hybrid", "collapse": False},
        "no length cap": {"executor": "hybrid", "length_cap": False},
        "no allowance": {"executor": "hybrid", "allowance": 0},
        "allowance 3": {"executor": "hybrid", "allowance": 3},
        "no chain": {"executor": "hybrid", "chain": False},
        "every 2 s": {"executor": "hybrid", "step_s": 2.0},
        "every 1 s": {"executor": "hybrid", "step_s": 1.0},
        "every 0.25 s": {"executor": "hybrid", "step_s": 0.25},
    }
)
BASE = "no pilots"
_NONE = WAYS[BASE]
# Ended by the voice gate, half a second after the last word.
GATED: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        BASE: {**_NONE, "at_pauses": False},
        "pilots": {"executor": "hybrid", "at_pauses": False},
        "at pauses too": {"executor": "hybrid"},
        "at pauses alone": {**_NONE, "executor": "hybrid"},
    }
)
SILENCE = np.zeros(SAMPLE_RATE, np.float32)
AROUND_S = 0.25
SHORTEST_S, LONGEST_S = 2.0, 8.0


@dataclass(frozen=True, slots=True)
class Sentence:
    """What is said, and how it sounds: 16 kHz mono; of a command what is wanted. The language is known, as everywhere
    in the evaluation. `group` is that of its recording: the speaker.
    """

    words: tuple[str, ...]
    audio: FloatArray
    intent: str | None = None
    language: str = "en"
    group: str = ""


def sentences(utterances: Iterable[Utterance]) -> Iterator[Sentence]:
    """Those of some recordings with word times that are neither too short nor too long; commands whole."""
    for utterance in utterances:
        if utterance.intent is not None:
            words = tuple(word.text for word in utterance.words)
            yield Sentence(words, utterance.audio(), utterance.intent, utterance.language, utterance.group)
            continue
        for audio, said in cut_sentences(utterance, AROUND_S, SHORTEST_S, LONGEST_S):
            words = tuple(word.text for word in said)
            yield Sentence(words, audio, None, utterance.language, utterance.group)


@dataclass(slots=True)
class Counted:
    """Stages that say what they took of the processor. Satisfies `stages.Staged` and `policy.Executor`; keeps what was
    `heard` last.
    """

    stages: Staged
    wall: bool
    spent: float = 0.0
    total: float = 0.0
    heard: HeardUtterance | None = None
    before: Scores | None = None

    def now(self) -> float:
        """Seconds since some moment."""
        return time.perf_counter() if self.wall else time.process_time()

    def encode(self, plan: RoundPlan, audio: FloatArray, state: EncoderState | None) -> Opened | None:
        """The first stage."""
        began = self.now()
        opened = self.stages.encode(plan, audio, state)
        self.spent = self.now() - began
        return opened

    def decode(
        self, plan: RoundPlan, opened: Opened | None, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult[Any]:
        """The second stage."""
        began = self.now()
        result = self.stages.decode(plan, opened, options, guards)
        encoded, decoded = self.spent, self.now() - began
        self.total += encoded + decoded
        self.heard = result.heard
        hearing = plan.hearing.asked if isinstance(plan.hearing, HeardAhead) else plan.hearing
        if isinstance(hearing, Pilot):
            self.before = hearing.before
        return replace(result, stats=replace(result.stats, encode_s=encoded, decode_s=decoded, align_s=0.0))

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None = None
    ) -> RoundResult[Any]:
        """One stage after the other."""
        return self.decode(plan, self.encode(plan, audio, state), options)


@dataclass(slots=True)
class Way:
    """What was found with one: seconds from the end of the audio to the final text, errors and words, what it cost."""

    waits: list[float] = field(default_factory=list)
    errors: list[tuple[float, float]] = field(default_factory=list)
    cpu_s: float = 0.0
    perplexities: list[float] = field(default_factory=list)
    pilots: list[tuple[Scores, float]] = field(default_factory=list)  # the newest, and the utterance's error rate
    energy_j: float | None = None  # of the whole machine meanwhile, where it tells


def hear(
    model: Transcriber,
    sentence: Sentence,
    changes: Mapping[str, Any],
    wall: bool,
    way: Way,
    offload: OffloadModel | None = None,
    *,
    gated: bool = False,
) -> None:
    """One utterance by one way; `offload` is asked about every text. What is `gated` ends where the voice gate says."""
    recipe = get_recipe("pilot").replace(**changes, vad=gated)
    recipe = model.framed(recipe).recipe
    executor = model.session(recipe.replace(executor="serial"), vad=False).executor
    assert isinstance(executor, SerialExecutor)
    counted = Counted(executor if offload is None else Asking.of(executor.resources, offload), wall)
    where = HybridExecutor(counted) if recipe.executor.kind == "hybrid" else counted
    options = DecodeOptions(language=sentence.language)
    session = Session(recipe, where, recipe.schedule.gate(), options=options, live=True)
    audio = np.concatenate((sentence.audio, SILENCE)) if gated else sentence.audio
    trace = play(session, audio, compute_time=lambda result: result.stats.encode_s + result.stats.decode_s)
    final = max((shown.at_s for shown in trace.shown if shown.confirmed), default=trace.shown[-1].at_s)
    way.waits.append(final - (_ended_s(recipe, audio) if gated else trace.audio_s))
    counts = errors_of(sentence, trace)
    way.errors.append((counts.errors, counts.reference))
    way.cpu_s += counted.total
    if counted.heard is not None:
        way.perplexities.append(counted.heard.scores.perplexity)
    if counted.before is not None:
        way.pilots.append((counted.before, counts.rate or 0.0))


def errors_of(sentence: Sentence, trace: Trace) -> Counts:
    """Those of the final text, whose pieces may be parts of words (" 10" and ",000")."""
    return align(sentence.words, look(trace).words).words


def _ended_s(recipe: Recipe, audio: FloatArray) -> float:
    """When the voice gate knows that speech is over."""
    gate = recipe.schedule.gate()
    assert gate is not None
    stops = [event for event in gate.feed(audio) if isinstance(event, SpeechStopped)]
    return seconds(stops[-1].decided_at if stops else len(audio))


def area(scores: Sequence[float], bad: Sequence[bool]) -> float:
    """The area under the ROC curve: how often a bad one has the higher score of a pair of a bad and a good one.

    0.5 by random choice, 1 at best.
    """
    marked, values = np.asarray(bad, bool), np.asarray(scores)
    # Every pair of a bad and a good one; ties count half.
    one, other = values[marked][:, None], values[~marked]
    above = (one > other) + 0.5 * (one == other)
    return float(np.mean(above)) if above.size else 0.5
