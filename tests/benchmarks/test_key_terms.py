"""What `benchmarks/key_terms.py` counts as found, and as false."""

from benchmark_scripts import benchmark


def test_terms_are_counted_where_their_words_follow_each_other() -> None:
    with benchmark("key_terms") as script:
        assert script.occurrences(["we", "went", "to", "new", "york", "and", "new", "york"], ["new", "york"]) == 2
        assert script.occurrences(["new"], ["new", "york"]) == 0
        assert script.occurrences(["new"], []) == 0


def test_a_term_that_nobody_said_is_false() -> None:
    with benchmark("key_terms") as script:
        found = script.Found()
        found.add("Ada went to New York.", "Aida went to new york, Ebbe, Ebbe", ["Ada", "New York", "Ebbe"])
        assert (found.said, found.found, found.false, found.made_up) == (2, 1, 2, ["ebbe", "ebbe"])
        assert found.words.reference == 5


def test_a_term_is_found_in_a_text_without_spaces() -> None:
    with benchmark("key_terms") as script:
        found = script.Found()
        found.add("今天天气很好", "今天天气很好", ["天气"], "zh")
        assert (found.said, found.found, found.false) == (1, 1, 0)
        assert found.words.reference == 6
