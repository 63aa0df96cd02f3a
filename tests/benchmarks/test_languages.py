"""What `benchmarks/languages.py` counts of guesses."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmark_scripts import benchmark


def test_a_guess_that_is_certain_and_wrong_misleads() -> None:
    with benchmark("languages") as script:
        counted = script.Guesses()
        for language, heard, probability in (
            ("de", "de", 0.95),
            ("de", "en", 0.95),
            ("de", "en", 0.5),
            (None, "cy", 1),
        ):
            counted.add(language, heard, probability)
        assert (counted.windows, counted.right, counted.misled) == (4, 1, 2)


def test_recordings_in_several_languages_do_not_count() -> None:
    def spoken(language: str) -> Any:
        return SimpleNamespace(language=language, audio=lambda: np.zeros(1, np.float32))

    given = [spoken("ja"), spoken("en+de"), spoken("none")]
    with benchmark("languages") as script:
        assert [language for _, language in script.recordings(given, ("en", "ja"), kind="people-languages")] == ["ja"]
        assert [language for _, language in script.recordings(given, ("en",), kind="people-nonspeech")] == [None] * 3
