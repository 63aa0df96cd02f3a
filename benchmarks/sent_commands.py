"""Right intents against the share of commands that a server hears (pilot inference, table 5 and figure 4).

    whispertide train commands slurp/test.jsonl --voices held-out -o spoken-test
    python benchmarks/sent_commands.py commands --data spoken-test [--server MODEL]

Here each command is understood as from a microphone, with pilots; what the server hears tells the intent by the same
words' weights. The server has base, or another Whisper checkpoint, or another network of `whispertide train
latecontext`, of any kind; or it knows the text: no real one does, so that is the most a server can bring. "Sent" is how
many commands must be sent, those first that the signal finds worst, for at most one point of intents fewer than when
all are. Ways are those of `whispertide_lab.training.latecontext.understood`: when pilots run. Needs the laboratory;
with a network for the server also its extra train.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from whispertide import api
from whispertide.cli.progress import counting
from whispertide.tuning.page import Table
from whispertide.understand.checkpoint import is_late, load_late
from whispertide.understand.intent_words import plain
from whispertide.understand.model import LateModel
from whispertide_lab.evaluation.items.commands import area
from whispertide_lab.evaluation.items.offloading import GREEDY, POINT, in_order, needed, needed_by_chance
from whispertide_lab.evaluation.items.pilot import SERVER
from whispertide_lab.evaluation.markdown import markdown_table
from whispertide_lab.training.latecontext.understood import AT_PAUSES, WAYS, around, hear
from whispertide_lab.training.shards import Shards, Utterance, open_shards

TEXT = "text"  # in place of a server's model


@dataclass(frozen=True, slots=True)
class Sent:
    """A command: whether its intent is right here and there, and the signals here, the higher the less certain."""

    here: bool
    there: bool
    signals: dict[str, float]


def measure(model: LateModel, server: str, commands: Shards, ways: Sequence[str]) -> dict[str, list[Sent]]:
    """Every command here, by each way, and there."""
    found: dict[str, list[Sent]] = {way: [] for way in ways}
    listens = listening(server)
    with counting("commands") as advance:
        for number, said in enumerate(commands, 1):
            meant = model.checkpoint.meaning(listens(said))
            for way, results in found.items():
                heard = hear(model, said, WAYS[way])
                signals = {
                    "chance of the intent": 1.0 if heard.chance is None else 1 - heard.chance,
                    # Without a guess nobody knows, and it stays here.
                    "perplexity of the last guess": heard.perplexity or 0.0,
                }
                results.append(Sent(heard.right, meant is not None and meant.intent == said.intent, signals))
            advance("hearing", number, len(commands))
    return found


def listening(server: str) -> Callable[[Utterance], str]:
    """What the server hears of a command, as plain words. Raises what loading raises."""
    if server == TEXT:
        return lambda said: said.text
    if is_late(Path(server)):
        return _by_network(Path(server))
    whisper = api.load(server)
    return lambda said: plain(whisper.transcribe(around(said), options=GREEDY).text)


def _by_network(folder: Path) -> Callable[[Utterance], str]:
    from whispertide_lab.training.latecontext.accuracy import Listener

    checkpoint = load_late(folder)
    listener = Listener(checkpoint)

    def text(said: Utterance) -> str:
        tokens, _ = listener.tokens(around(said))
        return checkpoint.vocabulary.decode(tokens)[1]

    return text


def wrong(found: Sequence[Sent], scores: Sequence[float]) -> list[float]:
    """The share of wrong intents with the first 0, 1, 2 ... commands sent."""
    missed = sum(not one.here for one in found)
    gains = [found[at].there - found[at].here for at in in_order(scores)]
    return [(missed - int(gain)) / len(found) for gain in np.cumsum([0, *gains])]


def table(found: Mapping[str, Sequence[Sent]]) -> Table:
    """For each way a row for each signal, then random choice on average."""
    rows = [(way, *row) for way, heard in found.items() for row in _rows(heard)]
    return Table(("pilots", "right here %", "sent by", "sent", "fewer than all %", "area: wrong here"), tuple(rows))


def _rows(found: Sequence[Sent]) -> list[tuple[str, ...]]:
    right = 100 * sum(one.here for one in found) / len(found)
    here = [not one.here for one in found]
    rows = []
    for name in found[0].signals:
        scores = [one.signals[name] for one in found]
        sent = needed(wrong(found, scores), POINT)
        rows.append((name, sent, area(scores, here)))
    rows.append(("random", needed_by_chance(len(found), partial(wrong, found)), 0.5))
    return [
        (f"{right:.1f}", name, str(sent), f"{100 * (1 - sent / len(found)):.1f}", f"{under:.2f}")
        for name, sent, under in rows
    ]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder of `whispertide train latecontext`")
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FOLDER", help="shards of commands")
    told = f"a Whisper checkpoint or a network, or {TEXT!r}: what was said; default: {SERVER}"
    parser.add_argument("--server", default=SERVER, metavar="MODEL", help=told)
    parser.add_argument("--count", type=int, default=1000, help="commands, spread evenly over the shards")
    parser.add_argument("--ways", nargs="+", default=[AT_PAUSES], choices=list(WAYS), metavar="WAY")
    given = parser.parse_args()
    commands = open_shards(given.data).spread(given.count)
    model = LateModel.open(given.model)
    found = measure(model, given.server, commands, list(dict.fromkeys(given.ways)))
    there = 100 * sum(one.there for one in next(iter(found.values()))) / len(commands)
    print(f"{len(commands)} commands, {commands.seconds:.0f} s of speech; intents right by ", end="")
    print(f"{'a server that knows the text' if given.server == TEXT else given.server} {there:.1f} %\n")
    print(markdown_table(table(found)))


if __name__ == "__main__":
    main()
