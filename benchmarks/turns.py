"""When the end of a turn is known, and how often it is taken for one where it is none: pauses next to Smart Turn.

`python benchmarks/turns.py people-utterances/choose people-accents/choose`: parts of people's recordings as for
`bench run -c`. Each sentence becomes a turn: with a pause inside, where it is quietest in its middle, and `GAP_S` after
it, in which somebody else would speak. Both are filled with noise as loud as the recording's own. Whatever needs no
words is measured by the gate alone, in the time of the audio. With `-m MODEL` recipes are run too (`--recipe`
and `--set` as there, several settings separated by commas), and their delays contain the computing.

`--call TALK.wav TALK.stm` is a real call: each speaker alone, as on a line of their own, between the labelled times.
A turn ends where the other one speaks next. Needs the laboratory, and `whispertide models pull smart-turn`.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import numpy as np

from whispertide import load
from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.audio.silero import SileroState, load_silero
from whispertide.audio.vad import Gate, GateOptions, SpeechGate, SpeechStopped, TurnJudged
from whispertide.events import TurnEnd
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe, parse_overrides
from whispertide.streaming.end_of_turn import EndOfTurn, TurnLimits
from whispertide.streaming.smart_turn import load_smart_turn
from whispertide.streaming.turn_gate import TurnGate
from whispertide.types import SAMPLE_RATE, FloatArray, join_words, seconds, to_samples
from whispertide_lab.evaluation.corpora.people import open_people
from whispertide_lab.evaluation.wer import Counts, align
from whispertide_lab.speech.utterance import Utterance

GAP_S = 5.0
PAUSES_S = (0.4, 0.8, 1.2)  # inside, in turn
LEAST_WORDS = 4
DOZEN = 12  # turns in a stream
BLOCK = SAMPLE_RATE // 50
PAUSE_ALONE_S = (0.3, 0.5, 0.7, 1.0, 1.5)
LIMITS = {
    "high": TurnLimits(0.3, 0.0, 2.0),
    "medium": TurnLimits(0.5, 0.0, 4.0),
    "low": TurnLimits(0.8, 0.0, 8.0),
    "as it comes": TurnLimits(),
    "Flux": TurnLimits(0.7, 0.0, 5.0),
    "Flux, eager 0.4": TurnLimits(0.7, 0.4, 5.0),
}


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn in a stream, in samples: speech from `start` to `end`, and the pause inside it."""

    start: int
    end: int
    pause: tuple[int, int] | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """Turns of a speaker."""

    samples: FloatArray
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """An end that was said `at` so many samples, `late_s` seconds of computing later, of audio up to `end`."""

    at: int
    eager: bool = False
    late_s: float = 0.0


@dataclass(slots=True)
class Found:
    """What became of the turns: delays of their ends in seconds, and how many ended too early, or never.

    eager and taken_back are the same of ends that may be taken back.
    """

    turns: int = 0
    delays: list[float] = field(default_factory=list)
    early: int = 0
    missed: int = 0
    eager: list[float] = field(default_factory=list)
    taken_back: int = 0

    def add(self, turns: Sequence[Turn], ends: Sequence[Ended]) -> None:
        """Count one stream."""
        for turn, until in zip(turns, [*(turn.start for turn in turns[1:]), None], strict=True):
            self.turns += 1
            those = [end for end in ends if end.at > turn.start and (until is None or end.at <= until)]
            self.early += any(end.at < turn.end and not end.eager for end in those)
            self.taken_back += any(end.at < turn.end and end.eager for end in those)
            last = [_delay(end, turn) for end in those if end.at >= turn.end and not end.eager]
            self.delays += last[:1]
            self.missed += not last
            self.eager += [_delay(end, turn) for end in those if end.at >= turn.end and end.eager][:1]

    def row(self, name: str) -> str:
        """One line of the table."""
        eager = f"{np.median(self.eager):.2f}, {self.taken_back}" if self.eager else ""
        middle, late = np.quantile(self.delays, (0.5, 0.9)) if self.delays else (np.nan, np.nan)
        return f"| {name} | {self.turns} | {self.early} | {self.missed} | {middle:.2f} | {late:.2f} | {eager} |"


def _delay(end: Ended, turn: Turn) -> float:
    return seconds(end.at - turn.end) + end.late_s


# --- turns out of recordings ------------------------------------------------------------------------------------------


def loudness(samples: FloatArray) -> FloatArray:
    """The root mean square of each 20 ms, smoothed over 60."""
    frames = samples[: len(samples) // BLOCK * BLOCK].reshape(-1, BLOCK)
    each = np.sqrt((frames**2).mean(axis=1) + 1e-12)
    return np.convolve(each, np.ones(3) / 3, mode="same").astype(np.float32)


def speech_span(samples: FloatArray) -> tuple[int, int]:
    """Where speech begins and ends: what is within 20 dB of the loud parts."""
    loud = loudness(samples)
    heard = np.flatnonzero(loud > np.quantile(loud, 0.95) / 10)
    return int(heard[0]) * BLOCK, (int(heard[-1]) + 1) * BLOCK


def with_pause(samples: FloatArray, words: tuple[str, ...], pause_s: float, rng: np.random.Generator) -> Stream:
    """The recording as a turn with a pause inside, and `GAP_S` after it."""
    start, end = speech_span(samples)
    loud = loudness(samples)
    floor = float(np.quantile(loud, 0.05))
    low, high = ((start + share * (end - start)) / BLOCK for share in (0.35, 0.75))
    cut = (int(low) + int(np.argmin(loud[int(low) : int(high)]))) * BLOCK + BLOCK // 2

    def noise(length_s: float) -> FloatArray:
        return (floor * rng.standard_normal(to_samples(length_s))).astype(np.float32)

    pause = noise(pause_s)
    parts = [samples[:cut], pause, samples[cut:end], noise(GAP_S)]
    turn = Turn(start, end + len(pause), (cut, cut + len(pause)), words)
    return Stream(np.concatenate(parts), (turn,))


def joined(parts: Iterable[Stream]) -> Stream:
    """One after the other."""
    samples: list[FloatArray] = []
    turns: list[Turn] = []
    at = 0
    for part in parts:
        for turn in part.turns:
            pause = None if turn.pause is None else (turn.pause[0] + at, turn.pause[1] + at)
            turns.append(replace(turn, start=turn.start + at, end=turn.end + at, pause=pause))
        samples.append(part.samples)
        at += len(part.samples)
    return Stream(np.concatenate(samples), tuple(turns))


def made(utterances: Iterable[Utterance], seed: int = 0) -> Iterator[Stream]:
    """Streams of a dozen turns of people who speak in like ways."""
    rng = np.random.default_rng(seed)
    chosen = [one for one in utterances if len(one.words) >= LEAST_WORDS]
    for _, found in groupby(chosen, lambda one: one.id.partition("/")[0]):
        turns = [
            with_pause(one.audio(), tuple(word.text for word in one.words), PAUSES_S[n % len(PAUSES_S)], rng)
            for n, one in enumerate(found)
        ]
        yield from (joined(turns[at : at + DOZEN]) for at in range(0, len(turns), DOZEN))


def call(audio: Path, labels: Path) -> Iterator[Stream]:
    """Each speaker of a real call alone; `labels` are in NIST's STM: file, channel, speaker, start, end, words."""
    samples = load_audio(audio)
    lines = [line.split() for line in labels.read_text(encoding="utf-8").splitlines() if line.strip()]
    labelled = [(name, to_samples(float(start)), to_samples(float(end))) for _, _, name, start, end, *_ in lines]
    said = sorted(labelled, key=lambda each: each[1])
    for speaker in dict.fromkeys(name for name, _, _ in said):
        alone = np.zeros_like(samples)
        for name, start, end in said:
            alone[start:end] += samples[start:end] * (name == speaker)
        turns = []
        for name, segments in groupby(said, lambda each: each[0]):
            if name == speaker:
                those = list(segments)
                turns.append(Turn(those[0][1], those[-1][2]))
        yield Stream(np.concatenate([alone, np.zeros(to_samples(GAP_S), np.float32)]), tuple(turns))


# --- what is measured -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Remembering:
    """Asked the same again, it answers at once. `cost_s` is what each first answer took."""

    ear: EndOfTurn
    answers: dict[bytes, float] = field(default_factory=dict)
    cost_s: list[float] = field(default_factory=list)

    @property
    def longest(self) -> int:
        """As the one inside."""
        return self.ear.longest

    def probability(self, audio: FloatArray) -> float:
        """As the one inside."""
        key = audio.tobytes()
        if key not in self.answers:
            began = time.perf_counter()
            self.answers[key] = self.ear.probability(audio)
            self.cost_s.append(time.perf_counter() - began)
        return self.answers[key]


def by_gate(gate: Gate, samples: FloatArray) -> list[Ended]:
    """The ends that a gate says: turns where it hears them, else utterances. That of the audio is none of them."""
    hears = isinstance(gate, TurnGate)
    kind = TurnJudged if hears else SpeechStopped
    events = [event for event in gate.feed(samples) if isinstance(event, kind)]
    return [Ended(event.decided_at, isinstance(event, TurnJudged) and not event.is_over) for event in events]


def by_recipe(model: Transcriber, recipe: Recipe, samples: FloatArray) -> tuple[list[Ended], list[str]]:
    """The ends that a session says, and its words; an end is later by what its round took."""
    session, ends = model.session(recipe), []
    for at in range(0, len(samples), BLOCK):
        began = time.perf_counter()
        events = session.push(samples[at : at + BLOCK])
        late_s = time.perf_counter() - began
        ends += [Ended(event.at, event.eager, late_s) for event in events if isinstance(event, TurnEnd)]
    session.finish()
    return ends, join_words(session.transcript.words).split()


@dataclass(slots=True)
class Heard:
    """A voice detector that hears a stream once, and says the same to every further gate that is fed the stream."""

    voice: list[float] = field(default_factory=list)
    state: SileroState | None = None

    def step(self, block: FloatArray, state: int | None) -> tuple[float, int]:
        """As Silero; the state is the number of blocks."""
        at = state or 0
        if at == len(self.voice):
            voice, self.state = load_silero().step(block, self.state)
            self.voice.append(voice)
        return self.voice[at], at + 1


def gates(ear: EndOfTurn) -> dict[str, Callable[[Heard], Gate]]:
    """Every way that needs no words."""

    def pause(length_s: float) -> Callable[[Heard], Gate]:
        options = GateOptions(min_silence=length_s, post_pad=min(0.3, length_s))
        return lambda voice: SpeechGate(options, voice)

    def heard(limits: TurnLimits) -> Callable[[Heard], Gate]:
        return lambda voice: TurnGate(SpeechGate(None, voice), ear, limits)

    found = {f"pause of {length_s:g} s": pause(length_s) for length_s in PAUSE_ALONE_S}
    return found | {f"Smart Turn, {name}": heard(limits) for name, limits in LIMITS.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, hear, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="*", metavar="people-PART/HALF[:FOLDER]")
    parser.add_argument("--call", nargs=2, type=Path, metavar=("AUDIO", "STM"))
    parser.add_argument("-m", "--model")
    parser.add_argument("-r", "--recipe", default="tide")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE,...", help="a run each")
    parser.add_argument("--streams", type=int, help="no more than so many streams of a part")
    options = parser.parse_args(arguments)
    streams: list[Stream] = []
    for corpus in options.corpora:
        kind, _, folder = corpus.partition(":")
        streams += list(made(open_people(kind, folder).utterances()))[: options.streams]
    streams += call(*options.call) if options.call else []
    ear = Remembering(load_smart_turn())
    print("| | turns | ended early | not ended | delay, median | 90 % | eager: delay, taken back |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    results: dict[str, Found] = {}
    voices = [Heard() for _ in streams]
    for name, gate in gates(ear).items():
        found = results[name] = Found()
        for stream, voice in zip(streams, voices, strict=True):
            found.add(stream.turns, by_gate(gate(voice), stream.samples))
        print(found.row(name), flush=True)
    if options.model:
        model = load(options.model, threads=1)
        for settings in options.set or [""]:
            recipe = parse_overrides(get_recipe(options.recipe), filter(None, settings.split(",")))
            found, words = Found(), Counts()
            for stream in streams:
                ends, text = by_recipe(model, recipe, stream.samples)
                found.add(stream.turns, ends)
                words += align([word for turn in stream.turns for word in turn.words], text).words
            name = f"{recipe.name} {settings}: {words.rate or 0:.2%} word errors"
            results[name] = found
            print(found.row(name), flush=True)
    cost_ms = 1000 * float(np.median(ear.cost_s)) if ear.cost_s else 0.0
    audio_s = sum(seconds(len(stream.samples)) for stream in streams)
    print(f"\n{len(ear.cost_s)} different answers, {cost_ms:.0f} ms each; {audio_s:.0f} s of audio")
    print(json.dumps({name: {"turns": f.turns, "early": f.early, "missed": f.missed} for name, f in results.items()}))


if __name__ == "__main__":
    main()
