"""What a network of late contextualisation understands, and how long one waits for it: errors, intents, waits.

    whispertide train commands slurp/test.jsonl --voices held-out -o spoken-test
    python benchmarks/understanding.py commands --data spoken-test

Commands are heard one by one, as from a microphone, by every way before the next one is taken: without pilots, with a
pilot every 2, 1 and 0.5 s and at pauses, and without each part of pilot decoding. One thread. The wait is the processor
time from the audio in which the voice gate finds the end of speech to the final text. The interval of the difference
of word errors is a paired bootstrap over commands. Needs the extra bench.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from whispertide.cli.progress import counting
from whispertide.lab.evaluation.bootstrap import paired
from whispertide.lab.evaluation.page import Table, markdown_table
from whispertide.lab.training.latecontext.understood import BASE, WAYS, CommandResult, hear, score
from whispertide.lab.training.shards import Shards, open_shards
from whispertide.model.latecontext import LateModel


def measure(model: LateModel, commands: Shards, ways: Sequence[str]) -> dict[str, list[CommandResult]]:
    """Every command by every way."""
    found: dict[str, list[CommandResult]] = {name: [] for name in ways}
    for name in ways:
        hear(model, commands[0], WAYS[name])  # once without counting
    with counting("commands") as advance:
        for number, said in enumerate(commands, 1):
            for name in ways:
                found[name].append(hear(model, said, WAYS[name]))
            advance("hearing", number, len(commands))
    return found


def table(found: Mapping[str, Sequence[CommandResult]]) -> Table:
    """A row for each way."""
    base = score(found[BASE])
    rows = []
    for name, heard in found.items():
        way = score(heard)
        apart = paired(*([(one.errors, one.words) for one in each] for each in (found[BASE], heard)))
        rows.append(
            (
                name,
                f"{100 * way.wer:.2f}",
                "–" if name == BASE else f"{100 * apart.low:+.2f} to {100 * apart.high:+.2f}",
                f"{100 * way.intents:.1f}",
                None if way.early is None else f"{100 * way.early:.1f}",
                f"{1000 * way.wait_mean_s:.1f}",
                f"{1000 * way.wait_p90_s:.1f}",
                f"{base.wait_mean_s / way.wait_mean_s:.2f}",
                f"{way.cpu_s_per_s:.3f}",
            )
        )
    heads = ("pilots", "WER %", "difference, points", "intents right %", "of last guesses %", "wait mean ms", "p90 ms")
    return Table((*heads, "times less", "processor s per s"), tuple(rows))


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder of `whispertide train latecontext`")
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FOLDER", help="shards of commands")
    parser.add_argument("--count", type=int, default=300, help="commands, spread evenly over the shards")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS), metavar="WAY")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the scores as JSON")
    given = parser.parse_args()
    commands = open_shards(given.data).spread(given.count)
    found = measure(LateModel.open(given.model), commands, list(dict.fromkeys([BASE, *given.ways])))
    print(f"{len(commands)} commands, {commands.seconds:.0f} s of speech, {given.model.name}\n")
    print(markdown_table(table(found)))
    if given.write:
        scores = {name: asdict(score(heard)) for name, heard in found.items()}
        given.write.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
