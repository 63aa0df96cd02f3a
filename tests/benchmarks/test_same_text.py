"""Which recordings `benchmarks/same_text.py` takes, and how it shows a difference."""

import json
from pathlib import Path

from benchmark_scripts import benchmark


def test_short_recordings_in_a_language_that_the_model_knows(tmp_path: Path) -> None:
    entries = [
        {"file": f"{number}.flac", "seconds": seconds, "language": language}
        for number, (seconds, language) in enumerate([(3, "en"), (30, "en"), (30.1, "en"), (3, "none"), (3, "en")])
    ]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, entries)))
    with benchmark("same_text") as script:
        taken = [path.name for path, _ in script.recordings(tmp_path, ("en",), 1)]
        other = [path.name for path, _ in script.recordings(tmp_path, ("en",), 2)]
    assert (taken, other) == (["0.flac", "1.flac", "4.flac"], ["0.flac", "4.flac"])


def test_a_difference_is_shown_where_it_is() -> None:
    with benchmark("same_text") as script:
        assert script.difference("a b c d", "a x c") == "a [b|x] c [d|]"
        assert script.difference("a b", "a b") == "a b"
