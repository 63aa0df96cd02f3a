"""Spoken commands, heard by a network of late contextualisation: words, intents, and the wait after the end of speech
(pilot inference, section 7).

Commands come from shards (`whispertide train commands`). Each is pushed in tenths of a second with silence around it,
through the voice gate, as from a microphone. The wait is all that is computed from the push in which the gate finds the
end of speech until the final text is there, pilots too. What the gate listens for before that, half a second of
silence, is the same for every way and not counted. Processor time counts, so other load on the machine does not.
"""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from whispertide.audio.buffer import to_float
from whispertide.types import FloatArray, seconds, to_samples
from whispertide.understand.ctc_attention import CtcAttentionOptions
from whispertide.understand.model import LateModel
from whispertide.understand.understanding import PilotTimes, Understanding, Understood
from whispertide_lab.evaluation.energy import Meter
from whispertide_lab.evaluation.wer import align
from whispertide_lab.training.augment import set_level
from whispertide_lab.training.shards import Utterance

BEFORE_S, AFTER_S, BLOCK_S = 0.3, 1.0, 0.1
LEVEL_DB = 20 * math.log10(0.3)  # of the loudest sample


@dataclass(frozen=True, slots=True)
class Way:
    """When pilots run, and what the search takes from them."""

    pilots: PilotTimes
    search: CtcAttentionOptions = field(default_factory=CtcAttentionOptions)


BASE = "no pilots"
AT_PAUSES = "every 1 s and at pauses"
WAYS: Mapping[str, Way] = MappingProxyType(
    {
        BASE: Way(PilotTimes(every_s=0)),
        # As the paper has them, not at pauses: what is found there is the answer, so no search takes anything from it.
        "every 2 s": Way(PilotTimes(every_s=2.0, pause_s=0)),
        "every 1 s": Way(PilotTimes(pause_s=0)),
        "every 0.5 s": Way(PilotTimes(every_s=0.5, pause_s=0)),
        AT_PAUSES: Way(PilotTimes()),
        "no collapse": Way(PilotTimes(pause_s=0), CtcAttentionOptions(collapse=False)),
        "no length cap": Way(PilotTimes(pause_s=0), CtcAttentionOptions(cap=False)),
        "no leap": Way(PilotTimes(pause_s=0), CtcAttentionOptions(leap=False)),
        "the decoder alone": Way(PilotTimes(pause_s=0), CtcAttentionOptions(attention=1.0)),
    }
)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What came of a command: word errors and words, whether the intent is right, seconds of speech, of waiting, and of
    the processor in all.

    wait_s      None where no final text came
    early       the last guess before the end of speech had the right intent; None where there was no guess
    perplexity  of that guess
    chance      how likely the network finds the final intent, where it tells
    energy_j    of the whole machine meanwhile, where it tells
    guesses     how many there were
    """

    errors: int
    words: int
    right: bool
    speech_s: float
    wait_s: float | None
    cpu_s: float
    early: bool | None
    perplexity: float | None = None
    chance: float | None = None
    energy_j: float | None = None
    guesses: int = 0


def hear(model: LateModel, said: Utterance, way: Way) -> CommandResult:
    """One command."""
    stream = Understanding(model, pilots=way.pilots, search=way.search)
    sound, spent, told = around(said), 0.0, list[Understood]()
    waited: float | None = None
    meter = Meter()
    for block in (*np.split(sound, range(to_samples(BLOCK_S), len(sound), to_samples(BLOCK_S))), None):
        began = time.process_time()
        new = stream.finish() if block is None else stream.push(block)
        took = time.process_time() - began
        told, spent = told + new, spent + took
        waited = took if any(one.final for one in new) else waited
    joules = meter.read().energy_j
    final, guesses = [one for one in told if one.final], [one for one in told if not one.final]
    counts = align(said.text.split(), " ".join(one.text for one in final).split()).words
    return CommandResult(
        counts.errors,
        counts.reference,
        bool(final) and final[0].intent == said.intent,
        seconds(len(said.samples)),
        waited,
        spent,
        guesses[-1].intent == said.intent if guesses else None,
        guesses[-1].perplexity if guesses else None,
        final[0].chance if final else None,
        joules,
        len(guesses),
    )


def around(said: Utterance) -> FloatArray:
    """The command at an even level, with silence before and after it."""
    samples = to_float(said.samples)
    set_level(samples, LEVEL_DB)
    return np.pad(samples, (to_samples(BEFORE_S), to_samples(AFTER_S)))


@dataclass(frozen=True, slots=True)
class Score:
    """Of some commands: shares of word errors and of right intents, waits, and how often a last guess was right.

    Waits are of those commands that got a final text; `unanswered` got none. Not a number where none got one.
    """

    commands: int
    wer: float
    intents: float
    wait_mean_s: float
    wait_p90_s: float
    delay: float  # the wait as a share of real time
    cpu_s_per_s: float  # processor seconds in all for a second of speech
    early: float | None
    unanswered: int = 0
    energy_j_per_s: float | None = None


def score(heard: Iterable[CommandResult]) -> Score:
    """All together; there must be one."""
    heard = list(heard)
    answered = [(one.wait_s, one.speech_s) for one in heard if one.wait_s is not None]
    waits, speech = np.array(answered or [(math.nan, math.nan)]).T
    joules = [one.energy_j for one in heard if one.energy_j is not None]
    guessed = [one.early for one in heard if one.early is not None]
    return Score(
        len(heard),
        sum(one.errors for one in heard) / sum(one.words for one in heard),
        float(np.mean([one.right for one in heard])),
        float(np.mean(waits)),
        float(np.percentile(waits, 90)),
        float(np.sum(waits) / np.sum(speech)),
        sum(one.cpu_s for one in heard) / sum(one.speech_s for one in heard),
        float(np.mean(guessed)) if guessed else None,
        len(heard) - len(answered),
        sum(joules) / sum(one.speech_s for one in heard) if len(joules) == len(heard) else None,
    )
