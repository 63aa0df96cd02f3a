"""What a base install downloads, and how long the import takes: `python benchmarks/install_size.py`.

Builds the wheel, lets pip download it with everything it needs into an empty folder, and adds up the files. Prints a
table, then one JSON line with `download_mb` (limit 150) and `import_s` (median of five fresh processes, limit 0.5).
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def download(folder: Path) -> dict[str, int]:
    """File name -> bytes of all that `pip install whispertide` would fetch."""
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("whispertide-*.whl")
    subprocess.run([*pip, "download", "--dest", folder, wheel], check=True, stderr=subprocess.DEVNULL)
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def import_seconds() -> float:
    """Wall time of a fresh process that imports the package, less that of one that imports nothing."""

    def run(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - began

    return statistics.median(run("import whispertide") - run("pass") for _ in range(5))


def main() -> None:
    """Print the table and the JSON line."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = download(Path(folder))
    for name, size in sorted(sizes.items(), key=lambda item: -item[1])[:12]:
        print(f"{size / 1e6:8.1f} MB  {name}")
    total = sum(sizes.values()) / 1e6
    print(f"{total:8.1f} MB  in {len(sizes)} files")
    print(json.dumps({"download_mb": round(total, 1), "import_s": round(import_seconds(), 3)}))


if __name__ == "__main__":
    main()
