"""A causal adapter of lower rank, the nearest to one of higher: `python benchmarks/lower_rank.py MODEL IN OUT RANK`.

Each product B A keeps its largest singular values. The package's adapter of tiny.en was made so, to be half as large.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.causal import CausalAdapter
from whispertide.checkpoint.low_rank import Matrices


def lowered(matrices: Matrices, rank: int) -> Matrices:
    """A [rank, in] and B [out, rank] of each weight, whose product is nearest to the one before."""
    found = {}
    for name, (a, b) in matrices.items():
        left, values, right = np.linalg.svd(b @ a, full_matrices=False)
        root = np.sqrt(values[:rank])
        found[name] = (root[:, None] * right[:rank], left[:, :rank] * root)
    return found


def main(model: str, source: str, target: str, rank: str) -> None:
    """Read, lower, write."""
    adapter = CausalAdapter.load(Path(source), load_checkpoint(model))
    report = {**adapter.report, "lowered_from_rank": adapter.rank}
    replace(adapter, rank=int(rank), matrices=lowered(adapter.matrices, int(rank)), report=report).save(Path(target))


if __name__ == "__main__":
    main(*sys.argv[1:])
