"""Word and character errors by hand, and which written word a counted one is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide_lab.evaluation.wer import (
    Alignment,
    Counts,
    align,
    join_written,
    normalise,
    normalise_words,
    split_words,
)


def aligned(reference: str, hypothesis: str) -> Alignment:
    return align(reference.split(), hypothesis.split())


WORDS = st.lists(
    st.sampled_from(
        ["the", "cat", "twenty", "five", "dollars", "don't", "um", "-", "Mr.", "one", "oh", "half", "(so)"]
    ),
    max_size=12,
)


def test_each_kind_of_error_is_counted_apart() -> None:
    alignment = aligned("the quick brown fox jumps over", "the quack brown jumps over very high")
    assert alignment.words == Counts(hits=4, substitutions=1, deletions=1, insertions=2)
    assert alignment.words.rate == 4 / 6


def test_characters_are_counted_on_the_normalised_text() -> None:
    alignment = align(["The", "cat!"], ["the", "cut"])
    assert alignment.characters == Counts(hits=6, substitutions=1)  # "the cat", "the cut"
    assert alignment.characters.rate == pytest.approx(1 / 7)


def test_a_rate_is_not_clamped() -> None:
    assert aligned("yes", "no no no").words.rate == 3


def test_an_empty_side() -> None:
    assert align([], ["a", "b"]).words == Counts(insertions=2)
    assert align([], ["a", "b"]).words.rate is None
    assert align(["a", "b"], []).words == Counts(deletions=2)
    assert align([], []).words == Counts()
    assert align(["um"], []).words.rate is None  # nothing of the reference is left


def test_nothing_is_cut_off_at_the_shorter_end() -> None:
    assert align(["one"], ["one", *["more"] * 500]).words.insertions == 500


def test_a_corpus_is_the_sum_of_its_counts() -> None:
    short, long = Counts(hits=1, insertions=3), Counts(hits=99)
    assert (short + long).rate == 3 / 100  # not the mean of 3 and 0


def test_numbers_and_contractions_are_compared_as_whisper_does() -> None:
    assert normalise("It's twenty five dollars, um.") == "it is $25"
    assert aligned("it's twenty-five dollars", "It is $25.").words == Counts(hits=3)


def test_other_languages_keep_their_words_and_lose_punctuation() -> None:
    assert normalise("Schöne, Grüße!", "de") == "schöne grüße"
    assert align(["twenty", "five"], ["25"], "de").words.rate == 1  # the English rules are not for German


def test_chinese_is_counted_by_character() -> None:
    assert align(["今天天气"], ["今天", "天汽"], "zh").words == Counts(hits=3, substitutions=1)


def test_the_spaces_between_chinese_characters_are_nobodys() -> None:
    """They come with the normaliser, and would count as characters that are right."""
    assert align(["今天天气"], ["今天天汽"], "zh").characters == Counts(hits=3, substitutions=1)


def test_a_letter_with_its_marks_is_a_word_where_a_language_has_no_spaces() -> None:
    assert split_words("今天，天气 好。", "zh") == ["今", "天，", "天", "气", "好。"]
    assert split_words("「はい」", "ja") == ["「は", "い」"]
    assert split_words("now, then") == ["now,", "then"]
    assert join_written(["今", "天，"], "zh") == "今天，"
    assert join_written(["now,", "then"]) == "now, then"


def test_words_that_are_merged_all_belong_to_the_token() -> None:
    text = normalise_words(["pay", "twenty", "five", "dollars", "now"])
    assert text.tokens == ("pay", "$25", "now")
    assert text.spans == ((0, 1), (1, 4), (4, 5))


def test_a_word_that_is_split_owns_all_its_tokens() -> None:
    text = normalise_words(["I", "don't", "um", "know"])
    assert text.tokens == ("i", "do", "not", "know")
    assert text.spans == ((0, 1), (1, 2), (1, 2), (3, 4))


def test_matched_words_are_written_words() -> None:
    alignment = aligned("pay twenty five dollars or don't um go", "Pay, $25 or do not leave")
    assert alignment.matched_words() == {0: 0, 1: 1, 2: 1, 3: 1, 4: 2, 5: 4}
    assert alignment.counted_words() == {0, 1, 2, 3, 4, 5, 7}


def test_half_of_a_word_is_no_match() -> None:
    assert align(["don't", "go"], ["do", "go"]).matched_words() == {1: 1}


@given(WORDS)
def test_a_text_matches_itself_word_by_word(words: list[str]) -> None:
    alignment = align(words, words)
    assert alignment.words.errors == 0
    matched = alignment.matched_words()
    assert matched.keys() == alignment.counted_words()
    assert list(matched.values()) == sorted(matched.values())


@given(WORDS, WORDS)
def test_tokens_and_spans_cover_the_text(reference: list[str], hypothesis: list[str]) -> None:
    alignment = align(reference, hypothesis)
    for side, words in ((alignment.reference, reference), (alignment.hypothesis, hypothesis)):
        assert list(side.tokens) == normalise(" ".join(words)).split()
        assert len(side.spans) == len(side.tokens)
        assert all(0 <= start < end <= len(words) for start, end in side.spans)
        assert list(side.spans) == sorted(side.spans)
    assert alignment.words.reference == len(alignment.reference.tokens)
    assert alignment.words.hits + alignment.words.substitutions + alignment.words.insertions == len(
        alignment.hypothesis.tokens
    )
