"""What networks of late contextualisation, or rivals with attention, understand, and how long one waits for it.

    whispertide train commands slurp/test.jsonl --voices held-out -o spoken-test
    python benchmarks/understanding.py commands --data spoken-test

Commands are heard one by one, as from a microphone, by each network and way before the next one is taken: without
pilots, with a pilot every 2, 1 and 0.5 s and at pauses, and without each part of pilot decoding. One thread. The wait
is the processor time from the audio in which the voice gate finds the end of speech to the final text; commands that
get none are counted apart. The interval of
the difference of word errors to the network's own without pilots is a paired bootstrap over commands.
Needs the extra bench.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from named_folders import by_name

from whispertide.cli.progress import counting
from whispertide.lab.evaluation.bootstrap import paired
from whispertide.lab.evaluation.page import Table, markdown_table
from whispertide.lab.training.latecontext.understood import BASE, WAYS, CommandResult, hear, score
from whispertide.lab.training.shards import Shards, open_shards
from whispertide.model.latecontext import LateModel

Heard = Mapping[tuple[str, str], Sequence[CommandResult]]  # by network and way


def measure(models: Mapping[str, LateModel], commands: Shards, ways: Sequence[str]) -> Heard:
    """Every command by every network and way."""
    found: dict[tuple[str, str], list[CommandResult]] = {(name, way): [] for name in models for way in ways}
    for name, way in found:
        hear(models[name], commands[0], WAYS[way])  # once without counting
    with counting("commands") as advance:
        for number, said in enumerate(commands, 1):
            for (name, way), results in found.items():
                results.append(hear(models[name], said, WAYS[way]))
            advance("hearing", number, len(commands))
    return found


def table(found: Heard) -> Table:
    """A row for each network and way."""
    rows = []
    for (name, kind), heard in found.items():
        way, base = score(heard), score(found[name, BASE])
        apart = paired(*([(one.errors, one.words) for one in each] for each in (found[name, BASE], heard)))
        rows.append(
            (
                name,
                kind,
                f"{100 * way.wer:.2f}",
                "–" if kind == BASE else f"{100 * apart.low:+.2f} to {100 * apart.high:+.2f}",
                f"{100 * way.intents:.1f}",
                None if way.early is None else f"{100 * way.early:.1f}",
                f"{1000 * way.wait_mean_s:.1f}",
                f"{1000 * way.wait_p90_s:.1f}",
                str(way.unanswered),
                f"{base.wait_mean_s / way.wait_mean_s:.2f}",
                f"{way.cpu_s_per_s:.3f}",
            )
        )
    heads = ("network", "pilots", "WER %", "difference, points", "intents right %", "of last guesses %")
    return Table((*heads, "wait mean ms", "p90 ms", "no final text", "times less", "processor s per s"), tuple(rows))


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", type=Path, nargs="+", help="folders of `whispertide train latecontext`")
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FOLDER", help="shards of commands")
    parser.add_argument("--count", type=int, default=300, help="commands, spread evenly over the shards")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS), metavar="WAY")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the scores as JSON")
    given = parser.parse_args()
    folders = by_name(given.networks, parser)
    commands = open_shards(given.data).spread(given.count)
    models = {name: LateModel.open(folder) for name, folder in folders.items()}
    found = measure(models, commands, list(dict.fromkeys([BASE, *given.ways])))
    print(f"{len(commands)} commands, {commands.seconds:.0f} s of speech\n")
    print(markdown_table(table(found)))
    if given.write:
        scores: dict[str, dict[str, object]] = {name: {} for name in models}
        for (name, way), heard in found.items():
            scores[name][way] = asdict(score(heard))
        given.write.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
