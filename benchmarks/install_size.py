"""What a base install downloads, and how long a start takes: `python benchmarks/install_size.py`.

Builds the wheel, lets pip download it with everything it needs into an empty folder, and adds up the files. Prints a
table, then one JSON line with `download_mb` (limit 130), `import_s` (limit 0.4) and `help_s` of `whispertide --help`
(limit 0.3), both in processor seconds of a fresh process, the median of five. What else is installed here counts, too:
the laboratory's commands are in the help.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def download(folder: Path) -> dict[str, int]:
    """File name -> bytes of all that `pip install whispertide` would fetch."""
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("whispertide-*.whl")
    subprocess.run([*pip, "download", "--dest", folder, wheel], check=True, stderr=subprocess.DEVNULL)
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def processor_seconds(*arguments: str) -> float:
    """Of a fresh process of Python, less those of one that does nothing."""

    def run(*rest: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, *rest], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return statistics.median(run(*arguments) - run("-c", "pass") for _ in range(5))


def main() -> None:
    """Print the table and the JSON line."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = download(Path(folder))
    for name, size in sorted(sizes.items(), key=lambda item: -item[1])[:12]:
        print(f"{size / 1e6:8.1f} MB  {name}")
    total = sum(sizes.values()) / 1e6
    print(f"{total:8.1f} MB  in {len(sizes)} files")
    times = {
        "import_s": processor_seconds("-c", "import whispertide"),
        "help_s": processor_seconds("-m", "whispertide", "--help"),
    }
    print(json.dumps({"download_mb": round(total, 1)} | {name: round(value, 3) for name, value in times.items()}))


if __name__ == "__main__":
    main()
