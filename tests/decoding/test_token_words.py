"""Words and their times from the attention of a decode."""

from dataclasses import replace

import numpy as np
import pytest

from attention_ramps import SLACK, looking_at
from each_row import each_row
from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.tokenizer import token_kinds
from whispertide.decoding.token_words import (
    Sampled,
    TokenWord,
    merge_punctuation,
    part_marks,
    read_words,
    spoken,
    whole_characters,
    word_timings,
)
from whispertide.types import FRAME_SAMPLES, Span, Word
from word_timing import timing

TOKENIZER = load_checkpoint("nano.en").tokenizer
FRAMES = 200
WINDOW = Span(32_000, 32_000 + FRAMES * FRAME_SAMPLES)


def sampled(text: str, places: list[int], forced: str = "") -> Sampled:
    """`places`: where the queries look that predict the forced tokens, the others, and (if given) what came next."""
    before, tokens = TOKENIZER.encode(forced), TOKENIZER.encode(text)
    attention = looking_at([0, *places], FRAMES)
    return Sampled(tuple(tokens), (-0.1,) * len(tokens), attention, 2 + len(before), tuple(before))


def frames(words: tuple[TokenWord, ...]) -> list[tuple[int, int]]:
    return [((w.start - WINDOW.start) // FRAME_SAMPLES, (w.end - WINDOW.start) // FRAME_SAMPLES) for w in words]


def test_words_follow_the_attention() -> None:
    words = read_words(sampled(" The cat sat", [20, 60, 100, 150]), TOKENIZER, WINDOW)
    assert [word.word.text for word in words] == [" The", " cat", " sat"]
    assert [word.tokens for word in words] == [(token,) for token in TOKENIZER.encode(" The cat sat")]
    (_, first), (second, third), (fourth, last) = frames(words)
    assert first == second
    assert third == fourth
    assert 20 < second < 60 + SLACK
    assert 60 < third < 100 + SLACK
    assert last <= 150 + SLACK
    assert words[0].word.probability == pytest.approx(np.exp(-0.1), rel=1e-5)


@pytest.mark.parametrize(
    ("text", "forced", "language", "first"),
    [
        ("The cat", "", None, " The"),
        ("The cat", "", "de", " The"),
        (" The cat", "", None, " The"),
        ("ing cat", " The", None, "ing"),  # the rest of a word
        (", cat", "", None, ","),
        ("The cat", "", "zh", "The"),
    ],
)
def test_a_text_begins_apart_from_the_one_before(text: str, forced: str, language: str | None, first: str) -> None:
    """Checkpoints that were fine-tuned on texts without it write no space at the beginning."""
    count = len(TOKENIZER.encode(text)) + len(TOKENIZER.encode(forced)) + 1
    words = read_words(sampled(text, [*range(10, 20 * count, 20)], forced), TOKENIZER, WINDOW, language=language)
    assert words[0].word.text == first


def test_words_without_those_that_are_blank() -> None:
    words = [TokenWord(Word(text, 0, 320), (1,)) for text in (" The", "", " ", "\n", " cat", "。")]
    assert [one.word.text for one in spoken(words)] == [" The", " cat", "。"]


def test_a_word_knows_what_its_last_spoken_token_attends_to() -> None:
    words = read_words(sampled(" Well, yes.", [20, 40, 60, 80, 100]), TOKENIZER, WINDOW)
    attended = [(word.attended or 0) - WINDOW.start for word in words]
    assert [place / FRAME_SAMPLES for place in attended] == [pytest.approx(20, abs=SLACK), pytest.approx(60, abs=SLACK)]


def test_attended_takes_the_strongest_frames() -> None:
    words = read_words(sampled(" The cat sat", [20, 60, 100, 150]), TOKENIZER, WINDOW, times="attended")
    for (start, end), place in zip(frames(words), [20, 60, 100], strict=True):
        assert start == pytest.approx(place, abs=SLACK)
        assert end == start + 1


def test_what_is_forced_has_its_own_share() -> None:
    words = read_words(sampled(" sat down", [20, 60, 100, 140, 170], forced=" The cat"), TOKENIZER, WINDOW)
    assert [word.word.text for word in words] == [" sat", " down"]
    assert frames(words)[0][0] > 60


def test_where_the_warp_goes_astray_words_are_where_they_attend_to() -> None:
    """What came next looks at all of a long pause before the words, so that the warp has the pause after them."""
    given = sampled(" cat sat", [120, 150, 0])
    attention = given.attention.copy()
    attention[:, -1] = np.where(np.arange(FRAMES) < 110, 1.0, 1e-3)
    given = replace(given, attention=attention)
    assert frames(read_words(given, TOKENIZER, WINDOW))[1] == (1, 2)
    words = read_words(given, TOKENIZER, WINDOW, times="checked")
    assert [start for start, _ in frames(words)] == [pytest.approx(120, abs=SLACK), pytest.approx(150, abs=SLACK)]
    assert words == read_words(given, TOKENIZER, WINDOW, times="attended")


def test_a_warp_that_agrees_with_the_attention_stands() -> None:
    given = sampled(" The cat sat", [20, 60, 100, 150])
    assert read_words(given, TOKENIZER, WINDOW, times="checked") == read_words(given, TOKENIZER, WINDOW)


@pytest.mark.parametrize("heads_first", [False, True])
def test_without_a_further_query_a_uniform_one_ends_the_last_word(heads_first: bool) -> None:
    words = read_words(sampled(" The cat sat", [20, 60, 100]), TOKENIZER, WINDOW, heads_first=heads_first)
    assert len(words) == 3
    assert all(WINDOW.start <= word.start <= word.end <= WINDOW.end for word in words)


def test_heads_that_are_averaged_first_count_by_their_strength() -> None:
    """One head looks hard at one place, two others but glance at another: as many heads, or as much attention."""
    strong, weak = (
        looking_at([0, 20, 60, 100, 150], FRAMES, heads=1),
        looking_at([0, 50, 90, 130, 180], FRAMES, heads=2),
    )
    attention = np.concatenate([strong, (weak + 0.5) / (1 + 0.5 * FRAMES)])
    given = replace(sampled(" The cat sat", [20, 60, 100, 150]), attention=attention)
    for heads_first, places in ((True, [20, 60, 100]), (False, [50, 90, 130])):
        words = read_words(given, TOKENIZER, WINDOW, times="attended", heads_first=heads_first)
        assert [start for start, _ in frames(words)] == [pytest.approx(place, abs=SLACK) for place in places]


def test_punctuation_goes_with_its_word() -> None:
    words = read_words(sampled(" Well, yes.", [20, 40, 60, 80, 100]), TOKENIZER, WINDOW)
    assert [word.word.text for word in words] == [" Well,", " yes."]
    assert [len(word.tokens) for word in words] == [2, 2]


@pytest.mark.parametrize(("text", "parts"), [(" quickly.", (" quickly", ".")), (' said?!"', (" said", '?!"'))])
def test_a_word_and_the_marks_after_it_are_parted(text: str, parts: tuple[str, str]) -> None:
    tokens = tuple(TOKENIZER.encode(text))
    whole = TokenWord(Word(text, 320, 640, 0.8), tokens, attended=500)
    parted = part_marks(whole, [-0.1] * (len(tokens) - 1) + [-0.7], token_kinds(TOKENIZER))
    assert parted is not None
    word, marks = parted
    assert (word.word.text, marks.word.text) == parts
    assert word.tokens + marks.tokens == tokens
    assert (word.start, word.end, word.word.probability) == (320, 640, 0.8)
    assert (marks.start, marks.end) == (640, 640)
    assert marks.word.probability == pytest.approx(np.exp(-0.7))


@each_row("text", [" quickly", ".", " Mr.", " 7", " (a"])
def test_what_has_no_mark_of_its_own_is_not_parted(text: str) -> None:
    tokens = tuple(TOKENIZER.encode(text))
    assert part_marks(TokenWord(Word(text, 320, 640), tokens), [-0.1] * len(tokens), token_kinds(TOKENIZER)) is None


def test_no_tokens_no_words() -> None:
    assert read_words(sampled("", [20]), TOKENIZER, WINDOW) == ()


def test_a_character_that_is_not_whole_is_held_back() -> None:
    tokens = TOKENIZER.encode(" a 鱻")
    assert len(tokens) > 3
    assert whole_characters(TOKENIZER, tokens) == len(tokens)
    assert whole_characters(TOKENIZER, tokens[:-1]) <= 2
    assert TOKENIZER.decode(tokens[: whole_characters(TOKENIZER, tokens[:-1])]).rstrip() == " a"
    assert whole_characters(TOKENIZER, tokens[-1:]) == 0


def test_a_word_lasts_until_the_next_one_begins() -> None:
    timings = word_timings([" so", " it"], [[1], [2, 3]], np.array([0, 4, 6, 9]), np.array([0.5, 0.2, 0.4], np.float32))
    assert [(each.text, each.start, each.end) for each in timings] == [
        (" so", 0, 4 * FRAME_SAMPLES),
        (" it", 4 * FRAME_SAMPLES, 9 * FRAME_SAMPLES),
    ]
    assert [each.probability for each in timings] == pytest.approx([0.5, 0.3])


def test_each_word_has_its_tokens() -> None:
    starts, shares = np.array([0, 4, 6, 9]), np.array([0.5, 0.2, 0.4], np.float32)
    assert [each.tokens for each in word_timings([" so", " it"], [[1], [2, 3]], starts, shares)] == [(1,), (2, 3)]
    with pytest.raises(ValueError, match="zip"):
        word_timings([" so"], [[1], [2, 3]], starts, shares)


class TestMergePunctuation:
    def test_closing_marks_join_the_word_before(self) -> None:
        merged = merge_punctuation([timing(" well", 0, 10), timing(",", 10, 12), timing('"', 12, 13)])
        assert [each.text for each in merged] == [' well,"']
        assert merged[0].end == 10 * FRAME_SAMPLES
        assert merged[0].tokens == (1, 1, 1)

    def test_opening_marks_join_the_word_after(self) -> None:
        merged = merge_punctuation([timing(" (", 0, 3), timing('"', 3, 4), timing(" yes", 4, 9)])
        assert [each.text for each in merged] == [' ("', " yes"]  # the mark without a space closes
        merged = merge_punctuation([timing(' "', 0, 3), timing(" yes", 3, 9)])
        assert [(each.text, each.start) for each in merged] == [(' " yes', 3 * FRAME_SAMPLES)]

    def test_nothing_to_merge(self) -> None:
        assert merge_punctuation([]) == []
        assert len(merge_punctuation([timing(" a"), timing(" b")])) == 2

    def test_a_mark_after_a_space_is_left_alone(self) -> None:
        assert [each.text for each in merge_punctuation([timing(" a "), timing(",")])] == [" a ", ","]
