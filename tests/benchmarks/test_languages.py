"""What `benchmarks/languages.py` counts of guesses."""

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
