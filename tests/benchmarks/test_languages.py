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


def test_a_stream_turns_to_a_language_that_is_certain_after_the_bound() -> None:
    with benchmark("languages") as script:

        def heard(**found: tuple[str, float]) -> Any:
            return {float(at[1:]) / 10: script.DetectedLanguage(*one) for at, one in found.items()}

        cough = script.Turn("en", heard(s5=("cy", 0.95), s15=("en", 0.6)), heard(s5=("de", 0.95), s15=("en", 0.9)))
        german = script.Turn("de", heard(s5=("nl", 0.95), s15=("de", 0.95)), heard(s5=("de", 0.5), s15=("de", 0.95)))
        both = [cough, german]
        assert script.turns_by(0.5, both, ("en", "de"), among_all=True) == (2, 0, "", 2)
        assert script.turns_by(0.5, both, ("en", "de"), among_all=False) == (1, 2, "1.50", 0)
        assert script.turns_by(1.0, both, ("en", "de"), among_all=True) == (0, 1, "1.50", 0)


def test_a_bound_is_about_the_turns_that_last_so_long() -> None:
    with benchmark("languages") as script:
        turns = [script.Turn("en", dict.fromkeys(lasts, None), {}) for lasts in ((0.5,), (0.5, 1.0, 1.5))]
        assert [script.lasting(turns, bound) for bound in (0.5, 1.0, 2.0)] == [2, 1, 0]


def test_turns_begin_within_recordings_too() -> None:
    with benchmark("languages") as script:
        samples = np.zeros(4 * 16_000, np.float32)
        assert [len(part) / 16_000 for part, _ in script.parted([(samples, "ja")], 1.5)] == [4, 2.5]
        assert len(list(script.parted([(samples, "ja")], None))) == 1
