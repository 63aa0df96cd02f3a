"""Errors of live texts at every chunk, `whisperrt` and others: `python benchmarks/chunk_errors.py MODEL CORPUS`.

WhisperRT's figure 4 for a few recipes, so that a long corpus can be measured with a slow model; all of them has
`whispertide bench paper whisperrt --items "figure 4"`. CORPUS as for `whispertide bench run`; computing takes no time.
Words without times are placed by `--aligner`. Cells are kept in the folder. Needs the laboratory.
"""

import argparse
import math
from pathlib import Path

from whispertide.options import EngineOptions
from whispertide.tuning.page import text_table
from whispertide_lab.evaluation.grid import Setup
from whispertide_lab.evaluation.items.whisperrt import SYSTEM, chunk_errors
from whispertide_lab.evaluation.runner import Runner
from whispertide_lab.evaluation.watch import Watch


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("corpus")
    parser.add_argument("--others", nargs="+", default=["tide"], metavar="RECIPE")
    parser.add_argument("--chunks", nargs="+", type=float, default=[0.1, 0.3], metavar="S")
    parser.add_argument("--excerpt", type=float, default=math.inf, metavar="S", help="only so much of the corpus")
    parser.add_argument("--aligner", default="", metavar="MODEL", help="default: the model itself")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("bench-results"), metavar="DIR")
    args = parser.parse_args()
    setup = Setup(
        clock="free",
        excerpt_s=args.excerpt,
        engine=EngineOptions(threads=args.threads),
        models=(args.model,),
        align=True,
        aligner=args.aligner,
    )
    runner = Runner(args.output, setup, Watch())
    with runner.on_corpus(args.corpus):
        outcome = chunk_errors(runner, dict.fromkeys([SYSTEM, *args.others], args.chunks))
        print(runner.about(), outcome.note, sep="\n")
    for table in outcome.tables:
        print(text_table(table))


if __name__ == "__main__":
    main()
