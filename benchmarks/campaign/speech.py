"""A day of speech through one session: the bundled recording again and again on nano.en, as fast as the machine can.

As in the server, the session lets go of what its client was told of after every step (`Session.forget`).

A seed is some loops of the recording with pauses between them, so that rounds fall differently each time. After each
the whole state goes to disk next to the lines, so the session goes on where it was after an interruption. Every loop is
compared with what the model hears of the recording alone in real time: no sentence less, and the other words counted.
"""

import gc
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from campaign.difference import other_words
from campaign.lines import Line
from campaign.scenario import Runner, Scenario
from paces import bursts, hear, lost, outage, real_time, sentences_of
from whispertide import Session, Transcriber, load
from whispertide.cli.bundled import bundled_audio
from whispertide.events import Confirmed, Unheard
from whispertide.recipes.catalogue import get_recipe
from whispertide.types import SAMPLE_RATE, FloatArray, Word, join_words, seconds, to_samples
from whispertide_lab.evaluation.energy import resident_mb

LOOPS = 6
BLOCK = SAMPLE_RATE // 10
DAY_S = 24 * 3600
RECIPE = "tide"
UNSURE = -0.01  # mean log-probability below which `tide` hears a window again with a beam: nearly all of them


@dataclass
class Run:
    """What survives an interruption."""

    seeds: int = 0
    last_end: int = 0
    session: Any = None


@dataclass
class Loop:
    """One playing of the recording, and what was heard of it."""

    start: int
    stop: int
    words: list[Word] = field(default_factory=list)


def audio_of(seed: int, recording: FloatArray, at: int) -> tuple[FloatArray, list[Loop]]:
    """The loops of a seed with pauses of up to 5 s, a long one at the end; and where in the stream they are."""
    dice = np.random.default_rng(seed)
    parts: list[FloatArray] = []
    loops = []
    for number in range(LOOPS):
        loops.append(Loop(at, at + len(recording)))
        pause = dice.integers(SAMPLE_RATE // 3, 5 * SAMPLE_RATE) if number < LOOPS - 1 else 4 * SAMPLE_RATE
        parts += [recording, np.zeros(pause, np.float32)]
        at = loops[-1].stop + int(pause)
    return np.concatenate(parts), loops


def play(run: Run, session: Session, samples: FloatArray) -> tuple[list[Word], list[str]]:
    """The samples in blocks of 0.1 s; returns what was confirmed, and what was wrong with it."""
    recipe = session.recipe
    cap = to_samples(recipe.policy.hard_cap_s + recipe.schedule.step_s + recipe.schedule.vad_pre_roll_s + 2)
    heard: list[Word] = []
    wrong = []
    for start in range(0, len(samples), BLOCK):
        before = len(session.transcript.words)
        events = session.push(samples[start : start + BLOCK])
        fresh = [word for event in events if isinstance(event, Confirmed) for word in event.words]
        if session.transcript.words[before:] != fresh:
            wrong.append("confirmed events and transcript differ")
        session.forget()  # as the server does; from here on it is with the client
        for word in fresh:
            if not run.last_end <= word.start <= word.end <= session.received:
                wrong.append(f"{word} lies outside the audio, or before an earlier one")
            run.last_end = word.end
        if session.buffered > cap:
            wrong.append(f"{seconds(session.buffered):.1f} s of audio are kept")
        wrong += [f"unheard: {event}" for event in events if isinstance(event, Unheard)]
        heard += fresh
    return heard, wrong


def missing(sentences: Sequence[str], loops: Sequence[Loop], words: Sequence[Word]) -> tuple[list[str], int]:
    """Sentences that are not in a loop, and how many of all words are not there as they were in real time."""
    truth = " ".join(sentences).split()
    gone: list[str] = []
    other = 0
    for loop in loops:
        text = join_words([word for word in words if loop.start <= (word.start + word.end) // 2 < loop.stop + BLOCK])
        gone += lost(list(sentences), text)
        other += other_words(truth, text.split())
    return gone, other


@contextmanager
def speech(folder: Path) -> Iterator[Runner]:
    """One session for all seeds."""
    transcriber, recording = load("nano.en", threads=1), bundled_audio()
    sentences = sentences_of(hear(transcriber, recording, real_time())[0])
    hear_all_again(transcriber, recording)
    state = folder / "speech.pickle"
    run, session = _restored(state, transcriber.session(RECIPE))

    def one(seed: int) -> Line:
        if seed != run.seeds:
            raise RuntimeError(f"expected seed {run.seeds} of the one session that there is; got {seed}")
        samples, loops = audio_of(seed, recording, session.received)
        began = time.monotonic()
        heard, wrong = play(run, session, samples)
        line = Line("speech", seed, round(seconds(len(samples)), 1), 1, wall_s=round(time.monotonic() - began, 2))
        gone, other = missing(sentences, loops, heard)
        line.problem = "; ".join([*wrong, *(f"not heard: {each}" for each in gone)])
        line.words, line.harm = len(heard), round(line.audio_s)
        run.seeds, run.session = seed + 1, session.snapshot()
        _keep(state, run)
        run.session = None
        gc.collect()
        line.rss_mb = round(resident_mb(), 1)
        line.figures = {"other_words": other, "pace": round(line.audio_s / line.wall_s, 1)}
        return line

    yield one


def hear_all_again(transcriber: Transcriber, recording: FloatArray) -> None:
    """What few windows of a day need is used once: a beam takes 20 MB that the runtime keeps from then on."""
    session = transcriber.session(get_recipe(RECIPE).replace(rescue_logprob=UNSURE))
    for start in range(0, len(recording), BLOCK):
        session.push(recording[start : start + BLOCK])
    session.finish()


def _restored(state: Path, session: Session) -> tuple[Run, Session]:
    run = Run()
    if state.is_file():  # our own file in our own folder
        run = pickle.loads(state.read_bytes())
        session.restore(run.session)
        run.session = None
    return run, session


def _keep(state: Path, run: Run) -> None:
    unfinished = state.with_suffix(".new")
    state.parent.mkdir(parents=True, exist_ok=True)
    unfinished.write_bytes(pickle.dumps(run))
    unfinished.replace(state)


@contextmanager
def paces(_: Path) -> Iterator[Runner]:
    """nano.en hears the recording after an outage, or in bursts: what it hears in real time is the truth."""
    transcriber, recording = load("nano.en", threads=1), bundled_audio()
    truth = hear(transcriber, recording, real_time())[0]

    def run(seed: int) -> Line:
        began = time.monotonic()
        text, events = hear(transcriber, recording, (outage if seed % 2 else bursts)(seed))
        unheard = [str(event) for event in events if isinstance(event, Unheard)]
        gone = [f"not heard: {sentence}" for sentence in lost(sentences_of(truth), text)]
        line = Line("outages-nano", seed, round(seconds(len(recording)), 1), 1, len(events), len(text.split()), 1)
        line.figures["other_words"] = other_words(truth.split(), text.split())
        line.problem, line.rss_mb = "; ".join(unheard + gone), round(resident_mb(), 1)
        line.wall_s = round(time.monotonic() - began, 2)
        return line

    yield run


SPEECH = Scenario(
    "speech",
    "the bundled recording over and over on nano.en, one session",
    "seconds of speech",
    DAY_S,
    speech,
    share=4.0,
    exact=False,
    steady=True,
)
PACES = Scenario(
    "outages-nano",
    "the bundled recording on nano.en with `tide`, after an outage of 3 to 8 s or in bursts",
    "recordings",
    500,
    paces,
    exact=False,
    steady=True,
)
