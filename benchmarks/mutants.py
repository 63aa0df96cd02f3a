"""How many one-line faults the tests notice, as `make mutants` found: `python benchmarks/mutants.py`.

mutmut makes the faults and runs the tests; this reads its results in `mutants/`, finished or not. Prints a row per
file, then one JSON line. A fault counts as caught where a test fails or never ends; one that no test reaches counts as
missed. Where not all faults of a file were tried the share is that of those tried, with its 95 % interval (Wilson).

    python benchmarks/mutants.py --names missed             the names of these faults, for `mutmut show` or `mutmut run`
    python benchmarks/mutants.py --sample 300 --seed 7      the names of so many that were not tried, drawn at random
"""

import argparse
import json
import math
import random
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

RESULTS = Path(__file__).parents[1] / "mutants"
Verdict = Literal["caught", "never ends", "missed", "no test", "untried"]
CAUGHT: tuple[Verdict, ...] = ("caught", "never ends")
MISSED: tuple[Verdict, ...] = ("missed", "no test")


def verdict(exit_code: int | None) -> Verdict:
    """What mutmut's exit code says of one fault: pytest's own codes, and mutmut's for tests that do not end."""
    if exit_code is None:
        return "untried"
    if exit_code == 0:
        return "missed"
    if exit_code in (5, 33):
        return "no test"
    return "caught" if exit_code in (1, 3) else "never ends"


def read(folder: Path) -> dict[str, dict[str, Verdict]]:
    """File -> fault -> verdict. Raises `SystemExit` where there are no results."""
    found = {
        path.relative_to(folder).as_posix().removesuffix(".meta"): {
            name: verdict(code) for name, code in json.loads(path.read_text("utf-8"))["exit_code_by_key"].items()
        }
        for path in sorted(folder.rglob("*.meta"))
    }
    if not any(found.values()):
        raise SystemExit(f"expected mutmut's results in {folder}; there are none: run `make mutants` first")
    return {path: faults for path, faults in found.items() if faults}


def interval(caught: int, tried: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson's formula."""
    z = 1.96
    middle = (caught + z * z / 2) / (tried + z * z)
    reach = z * math.sqrt(caught * (tried - caught) / tried + z * z / 4) / (tried + z * z)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def row(name: str, faults: Counter[Verdict]) -> str:
    """One line of the table."""
    caught = sum(faults[each] for each in CAUGHT)
    tried = caught + sum(faults[each] for each in MISSED)
    share = f"{caught / tried:6.1%}" if tried else "     -"
    if 0 < tried < faults.total():
        low, high = interval(caught, tried)
        share += f" ({low:.1%} to {high:.1%})"
    numbers = (faults.total(), tried, caught, faults["never ends"], tried - caught)
    return f"{name:46}" + "".join(f"{number:8}" for number in numbers) + f"  {share}"


def sample(found: dict[str, dict[str, Verdict]], count: int, seed: int) -> list[str]:
    """So many untried faults of all files, each as likely as another."""
    untried = [name for faults in found.values() for name, each in faults.items() if each == "untried"]
    return random.Random(seed).sample(untried, min(count, len(untried)))


def main() -> None:
    """Print the table or the names."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("files", nargs="*", help="patterns like src/whispertide/streaming/* (default: all)")
    arguments.add_argument("--results", type=Path, default=RESULTS, help="where mutmut ran")
    arguments.add_argument("--names", choices=["missed", "untried"], help="print the names of these faults instead")
    arguments.add_argument("--sample", type=int, help="print the names of so many untried faults instead")
    arguments.add_argument("--seed", type=int, default=0, help="of the sample")
    given = arguments.parse_args()
    found = {
        path: faults
        for path, faults in read(given.results).items()
        if not given.files or any(fnmatch(path, pattern) for pattern in given.files)
    }
    if given.sample is not None:
        print(*sample(found, given.sample, given.seed), sep="\n")
    elif given.names:
        wanted = MISSED if given.names == "missed" else ("untried",)
        print(*(name for faults in found.values() for name, each in faults.items() if each in wanted), sep="\n")
    else:
        counts = {path: Counter(faults.values()) for path, faults in found.items()}
        print(f"{'file':46}{'faults':>8}{'tried':>8}{'caught':>8}{'no end':>8}{'missed':>8}  share")
        for path, faults in counts.items():
            print(row(path, faults))
        total = sum(counts.values(), Counter[Verdict]())
        print(row("all", total))
        print(json.dumps(total))


if __name__ == "__main__":
    main()
