"""How long somebody waits after the last word, with pilots and without: `python benchmarks/pilot.py`.

The utterances are sentences of the synthetic talks of 2 to 8 s, each cut out with a quarter of a second around it; the
end of the audio is the end of speech. Audio comes as it is spoken on a simulated clock. Computing occupies the one
worker for the processor time that it took (one thread), so other load on the machine does not count; `--wall` counts
wall time instead. Every way hears the same utterance before the next one is taken.

Prints, per way, the wait from the end of the audio to the final text, the word errors, how many times longer the wait
is without pilots, and what is computed in all per second of audio; then one JSON line. The interval of the difference
of word errors is a paired bootstrap over utterances. espeak-ng and flite must be installed.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import whispertide
from whispertide.api import Transcriber
from whispertide.decoding.search import Guard
from whispertide.lab.evaluation.bootstrap import paired
from whispertide.lab.evaluation.clock import simulate
from whispertide.lab.evaluation.corpora import open_corpus
from whispertide.lab.evaluation.corpora.parts import Excerpt
from whispertide.lab.evaluation.wer import align
from whispertide.lab.speech.utterance import RefWord
from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.session import Session
from whispertide.streaming.hybrid import HybridExecutor
from whispertide.streaming.pilot import HeardUtterance, Pilot, Scores
from whispertide.streaming.recipes import get_recipe
from whispertide.streaming.round import Opened, RoundPlan, RoundResult
from whispertide.streaming.stages import SerialExecutor, Staged
from whispertide.streaming.trained_offramp import Doubts
from whispertide.types import SAMPLE_RATE, FloatArray

WAYS: dict[str, dict[str, Any]] = {
    "no pilots": {"pilots_from_s": 30.0, "collapse": False, "length_cap": False},
    "greedy without pilots": {"pilots_from_s": 30.0, "search": "greedy"},
    "pilots": {"executor": "hybrid"},
    "pilots to their end": {},
    "no collapse": {"executor": "hybrid", "collapse": False},
    "no length cap": {"executor": "hybrid", "length_cap": False},
    "no allowance": {"executor": "hybrid", "allowance": 0},
    "allowance 3": {"executor": "hybrid", "allowance": 3},
    "no chain": {"executor": "hybrid", "chain": False},
    "every 1 s": {"executor": "hybrid", "step_s": 1.0},
    "every 0.25 s": {"executor": "hybrid", "step_s": 0.25},
}
BASE = "no pilots"
AROUND = SAMPLE_RATE // 4
SHORTEST, LONGEST = 2 * SAMPLE_RATE, 8 * SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Sentence:
    """What is said, and how it sounds."""

    words: tuple[str, ...]
    audio: FloatArray


def sentences(corpus: str, excerpt_s: float) -> Iterator[Sentence]:
    """Those of a corpus that are neither too short nor too long."""
    for utterance in Excerpt(open_corpus(corpus), excerpt_s).utterances():
        audio, said = utterance.audio(), list[RefWord]()
        for word in utterance.words:
            said.append(word)
            if not word.text.endswith((".", "?", "!")):
                continue
            first, last = said[0].start, said[-1].end
            assert first is not None
            assert last is not None
            piece = audio[max(first - AROUND, 0) : last + AROUND]
            if SHORTEST <= len(piece) <= LONGEST:
                yield Sentence(tuple(item.text for item in said), piece)
            said = []


@dataclass(slots=True)
class Counted:
    """Stages that say what they took of the processor. Satisfies `stages.Staged`; keeps what was `heard` last."""

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
        if isinstance(plan.hearing, Pilot):
            self.before = plan.hearing.before
        return replace(result, stats=replace(result.stats, encode_s=encoded, decode_s=decoded, align_s=0.0))


@dataclass(slots=True)
class InPlace:
    """One stage after the other. Satisfies `policy.Executor`."""

    stages: Counted

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None = None
    ) -> RoundResult[Any]:
        """Both."""
        return self.stages.decode(plan, self.stages.encode(plan, audio, state), options)


@dataclass(slots=True)
class Way:
    """What was found with one."""

    waits: list[float] = field(default_factory=list)
    errors: list[tuple[float, float]] = field(default_factory=list)
    cpu_s: float = 0.0
    perplexities: list[float] = field(default_factory=list)
    pilots: list[tuple[Scores, float]] = field(default_factory=list)  # the newest, and the utterance's error rate


def hear(
    model: Transcriber, sentence: Sentence, changes: dict[str, Any], wall: bool, way: Way, doubts: Doubts | None = None
) -> None:
    """One utterance by one way; `doubts` is asked about every text."""
    recipe = get_recipe("pilot").replace(**changes, vad=False)
    recipe = model.framed(recipe).recipe
    executor = model.session(recipe.replace(executor="serial"), vad=False).executor
    assert isinstance(executor, SerialExecutor)
    executor.equipment.offramp = doubts
    counted = Counted(executor, wall)
    where = HybridExecutor(counted) if recipe.executor.kind == "hybrid" else InPlace(counted)
    session = Session(recipe, where, live=True)
    trace = simulate(session, sentence.audio, compute_time=lambda result: result.stats.encode_s + result.stats.decode_s)
    final = max((shown.at_s for shown in trace.shown if shown.confirmed), default=trace.shown[-1].at_s)
    way.waits.append(final - trace.audio_s)
    counts = align(sentence.words, trace.words).words
    way.errors.append((counts.errors, counts.reference))
    way.cpu_s += counted.total
    if counted.heard is not None:
        way.perplexities.append(counted.heard.scores.perplexity)
    if counted.before is not None:
        way.pilots.append((counted.before, counts.errors / counts.reference))


def area(scores: Sequence[float], bad: Sequence[bool]) -> float:
    """How often a bad utterance has the higher score of a bad one and a good one: 0.5 by random choice, 1 at best."""
    pairs = [(one, other) for one, is_bad in zip(scores, bad, strict=True) if is_bad for other in _good(scores, bad)]
    return sum(1.0 if one > other else 0.5 * (one == other) for one, other in pairs) / len(pairs) if pairs else 0.5


def _good(scores: Sequence[float], bad: Sequence[bool]) -> list[float]:
    return [score for score, is_bad in zip(scores, bad, strict=True) if not is_bad]


def offramps(way: Way) -> dict[str, float]:
    """How well each signal of the newest pilot tells the utterances with more than 10 % of word errors."""
    bad = [rate > 0.1 for _, rate in way.pilots]
    print(f"of {len(bad)} utterances with pilots {sum(bad)} have more than 10 % of word errors; area under the curve:")
    signals = {name: [getattr(scores, name) for scores, _ in way.pilots] for name in ("perplexity", "entropy")}
    areas = {name: area(values, bad) for name, values in signals.items()}
    print(", ".join(f"{name} {value:.2f}" for name, value in areas.items()), "random 0.50", sep=", ")
    return areas


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano.en")
    parser.add_argument("--corpus", default="talks")
    parser.add_argument("--excerpt", type=float, default=300.0, help="seconds of the corpus")
    parser.add_argument("--ways", default=",".join(WAYS), help="those to measure")
    parser.add_argument("--wall", action="store_true", help="wall time in place of processor time")
    given = parser.parse_args()
    model = whispertide.load(given.model, threads=1)
    model.warm_up()
    chosen = list(dict.fromkeys([BASE, *(name.strip() for name in given.ways.split(","))])) if given.ways else []
    every = list(sentences(given.corpus, given.excerpt))
    audio_s = sum(len(item.audio) for item in every) / SAMPLE_RATE
    ways = {name: Way() for name in chosen}
    for name in chosen:  # once without counting
        hear(model, every[0], WAYS[name], given.wall, Way())
    for sentence in every:
        for name in chosen:
            hear(model, sentence, WAYS[name], given.wall, ways[name])
    base = ways[BASE]
    counted = "wall" if given.wall else "processor"
    print(f"{len(every)} sentences, {audio_s:.0f} s, {given.model}, {given.corpus}, {counted} time")
    heads = ("wait", "p90", "times less", "WER %", "difference, points", "cpu s/s", "PPL")
    print("{:24} {:>7} {:>7} {:>10} {:>6} {:>22} {:>8} {:>5}".format("way", *heads))
    rows = {}
    for name, way in ways.items():
        mean, p90 = statistics.mean(way.waits), float(np.percentile(way.waits, 90))
        found = paired(base.errors, way.errors)
        less = statistics.mean(base.waits) / mean
        wer = sum(errors for errors, _ in way.errors) / sum(words for _, words in way.errors)
        perplexity = statistics.mean(way.perplexities)
        apart = f"{100 * found.difference:+.2f} ({100 * found.low:+.2f}..{100 * found.high:+.2f})"
        print(
            f"{name:24} {mean:7.3f} {p90:7.3f} {less:10.2f} {100 * wer:6.2f} {apart:>22} {way.cpu_s / audio_s:8.3f}"
            f" {perplexity:5.2f}"
        )
        rows[name] = {
            "wait_mean_s": mean,
            "wait_p90_s": p90,
            "times_less": less,
            "wer": wer,
            "wer_difference": found.difference,
            "cpu_s_per_s": way.cpu_s / audio_s,
            "perplexity": perplexity,
        }
    areas = offramps(ways["pilots"]) if "pilots" in ways else {}
    print(
        json.dumps({"offramps": areas, "sentences": len(every), "audio_s": audio_s, "model": given.model, "ways": rows})
    )


if __name__ == "__main__":
    main()
