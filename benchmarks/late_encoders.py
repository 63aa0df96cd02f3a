"""Word errors and right intents of trained networks: late contextualisation and its rivals (pilot inference, table 3).

    whispertide train latecontext --kind conformer --convolving 3 --attending 1 --width 120 --data spoken -o conformer
    python benchmarks/late_encoders.py late conformer --data spoken-test

Each hears the same commands, or recordings without intents, as a whole, in torch, without pilots. The interval of a
difference to the first network is a paired bootstrap over their speakers. What encoding leaves for the end of speech,
and how long one waits: `whispertide bench paper pilot --items "table 3"`. Needs the laboratory and its extra train.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from whispertide.cli.progress import counting
from whispertide.tuning.page import Table
from whispertide.understand.checkpoint import LateCheckpoint, load_late
from whispertide_lab.evaluation.bootstrap import paired_over
from whispertide_lab.evaluation.markdown import markdown_table
from whispertide_lab.training.latecontext.accuracy import Answer, Listener
from whispertide_lab.training.shards import Shards, open_shards


def measure(networks: Mapping[str, LateCheckpoint], commands: Shards) -> dict[str, list[Answer]]:
    """Every command by every network."""
    listeners = {name: Listener(network) for name, network in networks.items()}
    found: dict[str, list[Answer]] = {name: [] for name in networks}
    with counting("commands") as advance:
        for number, said in enumerate(commands, 1):
            for name, listener in listeners.items():
                found[name].append(listener.hear(said))
            advance("hearing", number, len(commands))
    return found


def scores(found: Mapping[str, Sequence[Answer]], speakers: Sequence[str]) -> dict[str, dict[str, float]]:
    """Shares by network: word errors, right intents, and the ends of the interval of the difference in word errors;
    `speakers` of the commands.
    """
    first = next(iter(found.values()))
    told = {}
    for name, answers in found.items():
        apart = paired_over(speakers, *([(one.errors, one.words) for one in each] for each in (first, answers)))
        told[name] = {
            "wer": sum(one.errors for one in answers) / sum(one.words for one in answers),
            "intents": float(np.mean([one.right for one in answers])),
            "low": apart.low,
            "high": apart.high,
        }
    return told


def table(told: Mapping[str, Mapping[str, float]], networks: Mapping[str, LateCheckpoint]) -> Table:
    """A row for each network."""
    rows = []
    for number, (name, score) in enumerate(told.items()):
        report = networks[name].report
        rows.append(
            (
                name,
                networks[name].dims.kind,
                f"{report.get('parameters', 0) / 1e6:.2f}",
                f"{report.get('updates', 0)}",
                f"{100 * score['wer']:.2f}",
                f"{100 * score['low']:+.2f} to {100 * score['high']:+.2f}" if number else "–",
                f"{100 * score['intents']:.1f}",
            )
        )
    heads = ("network", "kind", "million weights", "updates", "WER %", "difference, points", "intents right %")
    return Table(heads, tuple(rows))


def by_name(folders: Sequence[Path], parser: argparse.ArgumentParser) -> dict[str, Path]:
    """The folders by their names, in their order; ends the program where two are called the same."""
    named = {folder.name: folder for folder in folders}
    if len(named) < len(folders):
        parser.error("expected folders of different names: rows are told apart by them")
    return named


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", type=Path, nargs="+", help="folders of `whispertide train latecontext`")
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FOLDER", help="shards of commands")
    parser.add_argument("--count", type=int, default=300, help="commands, spread evenly over the shards")
    given = parser.parse_args()
    folders = by_name(given.networks, parser)
    commands = open_shards(given.data).spread(given.count)
    networks = {name: load_late(folder) for name, folder in folders.items()}
    print(f"{len(commands)} commands, {commands.seconds:.0f} s of speech\n")
    speakers = [place.entry["source"] for place in commands.places]
    print(markdown_table(table(scores(measure(networks, commands), speakers), networks)))


if __name__ == "__main__":
    main()
