"""How long a compressed checkpoint takes to load against the original: `python benchmarks/compression.py [MODEL]`.

Loading is all of it, with the int8 graphs built anew in an empty cache each time. CPU seconds of this process, the two
in turns; the ratio of the medians is what counts. Prints a table, then one JSON line.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from whispertide.checkpoint import load_checkpoint
from whispertide.lab.compression.folder import as_kept, write_folder
from whispertide.lab.compression.palettise import palettise
from whispertide.lab.compression.sensitivity import compressible

BITS = 6  # what most tensors get at 0.4 of fp16
TIMES = 5


def compressed(model: str, folder: Path) -> Path:
    """The model with every tensor at the same bits; how they were chosen makes no difference to loading."""
    checkpoint = load_checkpoint(model)
    names = frozenset(compressible(checkpoint))
    tensors = {
        name: palettise(checkpoint.tensors.get(name), BITS) if name in names else as_kept(checkpoint.tensors.get(name))
        for name in sorted(checkpoint.tensors.names())
    }
    folder.mkdir()
    write_folder(checkpoint, tensors, folder)
    return folder


def load_seconds(model: str) -> float:
    """CPU seconds of a load that builds the graphs."""
    from whispertide import api

    with tempfile.TemporaryDirectory() as cache:
        os.environ["WHISPERTIDE_CACHE"] = cache
        began = time.process_time()
        api.load(model, precision="int8", threads=1)
        return time.process_time() - began


def main() -> None:
    """Print the table and the JSON line."""
    model = sys.argv[1] if len(sys.argv) > 1 else "nano.en"
    with tempfile.TemporaryDirectory() as folder:
        small = str(compressed(model, Path(folder) / "compressed"))
        load_seconds(model)  # what is imported on the way
        pairs = [(load_seconds(model), load_seconds(small)) for _ in range(TIMES)]
    original, palettes = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"original    {original:.2f} s\npalettes    {palettes:.2f} s")
    print(json.dumps({"model": model, "bits": BITS, "load_ratio": round(palettes / original, 2)}))


if __name__ == "__main__":
    main()
