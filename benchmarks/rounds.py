"""When should a round begin? `python benchmarks/rounds.py [--seconds 450 --seed 41 --model nano.en]`

`tide` on synthetic talks with exact word times, computing left out, with rounds

    every N s      on a grid
    N, M s         every N s, but after M s where guessed words wait to be confirmed
    word end + N   N s after each word's true end (and 0.5 s after the last round at most), which nobody can know

Prints a row for each: word errors, mean delay until a word is confirmed and until it is first seen, rounds and
processor seconds per second of audio. What a round brings is judged by delay against rounds.
"""

import argparse
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from rich.progress import track

from whispertide import Session, Transcriber, load
from whispertide.lab.evaluation.clock import play
from whispertide.lab.evaluation.corpora import open_corpus
from whispertide.lab.evaluation.page import Table, text_table
from whispertide.lab.evaluation.score import aggregate, judge
from whispertide.lab.speech.utterance import Utterance
from whispertide.streaming.recipes import get_recipe, make_gate
from whispertide.streaming.schedule import Adaptive, Schedule
from whispertide.types import seconds, to_samples

GRID_S = (0.3, 0.25, 0.2, 0.15)
PENDING_S = ((0.3, 0.2), (0.3, 0.15), (0.3, 0.1), (0.4, 0.15), (0.4, 0.1))
AFTER_WORD_S = (0.1, 0.2)
COLUMNS = ("rounds", "WER %", "errors", "confirmed ms", "first seen ms", "revisions per 100", "rounds/s", "CPU s/s")
LEAST_S, MOST_S = 0.1, 0.5  # between rounds at word ends


@dataclass(frozen=True)
class AtWordEnds:
    """A round when the audio reaches one of `moments`, rising."""

    moments: tuple[int, ...]
    recorded: ClassVar[bool] = False
    ahead: ClassVar[bool] = False

    def frontier(self, last: int, known: int, received: int, spent: int = 0, *, pending: bool = False) -> int | None:
        """All that has arrived, if a moment has come since the last round."""
        soonest = last + to_samples(LEAST_S)
        at = bisect_left(self.moments, soonest)
        reached = received >= soonest and at < len(self.moments) and self.moments[at] <= received
        return received if reached or received - last >= to_samples(MOST_S) else None

    def load(self, last: int, frontier: int, spent: int, waited: int = 0) -> int:
        """Computing takes no time here."""
        return 0


Chosen = Callable[[Utterance], Schedule]


def always(schedule: Schedule, _: Utterance) -> Schedule:
    """One schedule for all talks."""
    return schedule


def after_words(after_s: float, talk: Utterance) -> Schedule:
    """That of one talk."""
    return AtWordEnds(tuple(word.end + to_samples(after_s) for word in talk.words if word.end is not None))


def choices() -> Iterator[tuple[str, Chosen]]:
    """Each way to begin rounds, by what it is called."""
    for step_s in GRID_S:
        yield f"every {step_s} s", partial(always, Adaptive(step_s=step_s))
    for step_s, pending_s in PENDING_S:
        yield f"{step_s}, {pending_s} s", partial(always, Adaptive(step_s=step_s, pending_step_s=pending_s))
    for after_s in AFTER_WORD_S:
        yield f"word end + {after_s} s", partial(after_words, after_s)


def row(transcriber: Transcriber, talks: list[Utterance], name: str, chosen: Chosen) -> tuple[str, ...]:
    """What comes of it."""
    recipe = transcriber.framed(get_recipe("tide")).recipe
    executor = transcriber.session(recipe).executor
    judged, rounds, cpu_s = [], 0, 0.0
    audio_s = sum(seconds(len(talk.audio())) for talk in talks)
    for talk in track(talks, name, transient=True):
        session = Session(recipe, executor, make_gate(recipe), schedule=chosen(talk))
        trace = play(session, talk.audio(), utterance=talk.id, clock="free")
        judged.append(judge(talk, trace))
        rounds += len(trace.rounds)
        cpu_s += trace.cpu_s  # of hearing alone; to judge takes time, too
    found = aggregate(judged, {})
    delays = [f"{1000 * found[f'{moment}_mean_s']:.0f}" for moment in ("confirmed", "first_seen")]
    errors = [
        f"{100 * found['wer']:.2f}",
        str(sum(found[kind] for kind in ("substitutions", "deletions", "insertions"))),
    ]
    costs = [f"{rounds / audio_s:.2f}", f"{cpu_s / audio_s:.3f}"]
    return name, *errors, *delays, f"{found['revisions_per_100']:.1f}", *costs


def main() -> None:
    """Measure all, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano.en")
    parser.add_argument("--seconds", type=float, default=450.0)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--only", default="", help="rows whose names contain this")
    arguments = parser.parse_args()
    talks = list(open_corpus("talks", seed=arguments.seed, length_s=arguments.seconds).utterances())
    transcriber = load(arguments.model, threads=1)
    transcriber.warm_up()
    rows = []
    for name, chosen in choices():
        if arguments.only in name:
            rows.append(row(transcriber, talks, name, chosen))
            print(*rows[-1], sep="\t", file=sys.stderr)
    print(text_table(Table(COLUMNS, tuple(rows))))


if __name__ == "__main__":
    main()
