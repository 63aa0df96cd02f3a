import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from whispertide.formats.document import SENTENCES, Document, Limits, Segmenter, TextSegment, segment_words
from whispertide.types import SAMPLE_RATE, Word


def words(text: str, *, gap: float = 0.0) -> list[Word]:
    """The words of `text`, half a second each, `gap` seconds apart."""
    step = round((0.5 + gap) * SAMPLE_RATE)
    return [Word(f" {part}", step * n, step * n + SAMPLE_RATE // 2) for n, part in enumerate(text.split())]


def characters(text: str, *, pause_before: int | None = None) -> list[Word]:
    """Each character as a word of 0.1 s, as in languages without spaces; a pause of 2 s before one of them."""
    step, late = SAMPLE_RATE // 10, len(text) if pause_before is None else pause_before
    starts = [step * n + 2 * SAMPLE_RATE * (n >= late) for n in range(len(text))]
    return [Word(character, start, start + step) for character, start in zip(text, starts, strict=True)]


def texts(segments: tuple[TextSegment, ...]) -> list[str]:
    return [segment.text.strip() for segment in segments]


def test_a_sentence_ends_a_segment() -> None:
    assert texts(segment_words(words("It rains. Does it? Yes!"))) == ["It rains.", "Does it?", "Yes!"]


def test_a_sentence_end_may_stand_inside_quotation_marks() -> None:
    assert texts(segment_words(words('He said "no." Then he left.'))) == ['He said "no."', "Then he left."]


def test_a_number_with_a_point_is_not_cut() -> None:
    parts = [Word(" costs", 0, 100), Word(" 3.", 100, 200), Word("5", 200, 300), Word(" euros", 300, 400)]
    assert texts(segment_words(parts)) == ["costs 3.5 euros"]


def test_a_language_without_spaces_is_cut_at_its_full_stop() -> None:
    parts = [Word("雨", 0, 100), Word("です。", 100, 200), Word("そう", 200, 300)]
    assert texts(segment_words(parts)) == ["雨です。", "そう"]


@pytest.mark.parametrize("sentences", [["「はい。」", "と言った。"], ["“好。”", "他说。"], ["『「え？」』", "【い】"]])
def test_a_closing_mark_stays_with_the_sentence_that_it_closes(sentences: list[str]) -> None:
    assert texts(segment_words(characters("".join(sentences)))) == sentences


@pytest.mark.parametrize("quoted", ["「はい」", "“好的”", "（はい）"])
def test_no_pause_parts_a_closing_mark_from_what_it_closes(quoted: str) -> None:
    assert texts(segment_words(characters(quoted, pause_before=len(quoted) - 1))) == [quoted]


def test_a_name_with_initials_is_not_cut() -> None:
    sentences = ["George W. Bush met J. K. Rowling.", "A. Smith was there, z. B. as plan B.", "He left."]
    assert texts(segment_words(words(" ".join(sentences)))) == sentences


@pytest.mark.parametrize("gap", [0.0, 1.5])
def test_french_parts_marks_by_a_space_and_they_stay_with_their_sentence(gap: float) -> None:
    assert texts(segment_words(words("« Où vas-tu ? » Elle sort."))) == ["« Où vas-tu ? »", "Elle sort."]
    assert texts(segment_words(words("« Viens ! » puis : « Non ! » Il dort."))) == [
        "« Viens ! »",
        "puis : « Non ! »",
        "Il dort.",
    ]
    alone = [*words("Tu viens"), Word(" ?", round((1 + gap) * SAMPLE_RATE), round((1.1 + gap) * SAMPLE_RATE))]
    assert texts(segment_words(alone)) == ["Tu viens ?"]


@pytest.mark.parametrize("sentences", [["هل تسمعني؟", "نعم."], ["وہ آیا۔", "پھر گیا۔"], ["वह आया।", "फिर गया।"]])
def test_arabic_urdu_and_hindi_have_marks_of_their_own_for_an_end(sentences: list[str]) -> None:
    assert texts(segment_words(words(" ".join(sentences)))) == sentences


@pytest.mark.parametrize("mark", "،؛")
def test_arabic_clauses_end_with_marks_of_their_own(mark: str) -> None:
    limits = Limits(chars=30, span=100 * SAMPLE_RATE)
    found = texts(segment_words(words(f"one two three four five{mark} six seven eight nine"), limits))
    assert found == [f"one two three four five{mark}", "six seven eight nine"]


@each_row("chars", range(4, 12))
def test_no_syllable_of_thai_is_cut(chars: int) -> None:
    text = "เก้าน้ำ" * 6
    found = texts(segment_words(characters(text), Limits(chars, 100 * SAMPLE_RATE)))
    assert "".join(found) == text
    assert max(map(len, found)) <= chars
    assert {part[0] for part in found} <= {"เ", "น"}
    assert not any(part.endswith("เ") for part in found)


def test_no_pause_parts_a_mark_from_its_letter() -> None:
    for place, character in enumerate("เก้าน้ำ"):
        apart = len(segment_words(characters("เก้าน้ำ", pause_before=place))) == 2
        assert apart == (place == 4), unicodedata.name(character)


@pytest.mark.parametrize("mark", [".", "?!", ",", '."'])
def test_a_mark_that_was_confirmed_after_its_word_stays_with_it(mark: str) -> None:
    said = [*words("It rained all day"), Word(mark, 2 * SAMPLE_RATE, 2 * SAMPLE_RATE)]
    limits = Limits(chars=len("It rained all day"), span=10 * SAMPLE_RATE)
    assert all(not text.startswith(mark[0]) for text in texts(segment_words(said, limits)))
    assert "".join(segment.text for segment in segment_words(said, limits)) == f" It rained all day{mark}"
    late = [*said[:-1], Word(mark, 5 * SAMPLE_RATE, 5 * SAMPLE_RATE), *words("Then")]
    assert texts(segment_words(late))[0].startswith(f"It rained all day{mark}")


def test_a_pause_of_a_second_ends_a_segment() -> None:
    first, second = Word(" one", 0, 8000), Word(" two", 8000 + SAMPLE_RATE, 40000)
    assert len(segment_words([first, second])) == 2
    assert len(segment_words([first, Word(" two", 7999 + SAMPLE_RATE, 40000)])) == 1


def test_no_pause_is_measured_from_a_word_without_length() -> None:
    """Its place in the silence is not known, so it stays with what it belongs to: here "A" begins a sentence."""
    rests, a = Word(" rests.", 0, 8000), Word(" A", 16_000, 16_000)
    bird, sings = Word(" bird", 33_000, 40_000), Word(" sings", 40_000, 44_000)
    assert texts(segment_words([rests, a, bird, sings])) == ["rests.", "A bird sings"]
    of, late = Word(" of", 44_000, 44_000), Word(" late", 70_000, 78_000)
    assert texts(segment_words([bird, sings, of, late])) == ["bird sings of", "late"]


def test_a_long_sentence_is_cut_at_a_clause_of_its_second_half() -> None:
    limits = Limits(chars=30, span=100 * SAMPLE_RATE)
    found = texts(segment_words(words("one, two three four five, six seven eight nine"), limits))
    assert found == ["one, two three four five,", "six seven eight nine"]


def test_segments_have_the_times_of_their_words() -> None:
    segment = segment_words(words("one two"))[0]
    assert (segment.start, segment.end) == (0, SAMPLE_RATE)


def test_the_end_of_a_turn_ends_a_segment() -> None:
    segmenter = Segmenter()
    assert segmenter.push(words("no full stop")) == []
    assert texts(tuple(segmenter.end_turn())) == ["no full stop"]
    assert segmenter.end_turn() == []


@given(
    parts=st.lists(st.sampled_from([" word", " end.", " clause,", "glued", " x" * 30, " ?"]), max_size=40),
    gaps=st.lists(st.integers(0, 2 * SAMPLE_RATE), min_size=40, max_size=40),
    cuts=st.lists(st.integers(1, 7), min_size=40, max_size=40),
    limits=st.sampled_from([SENTENCES, Limits(chars=84, span=7 * SAMPLE_RATE)]),
)
def test_segments_do_not_depend_on_how_words_arrive(
    parts: list[str], gaps: list[int], cuts: list[int], limits: Limits
) -> None:
    said, at = [], 0
    for text, gap in zip(parts, gaps, strict=False):
        said.append(Word(text, at + gap, at + gap + 4000))
        at += gap + 4000
    segmenter, segments, first = Segmenter(limits), [], 0
    for cut in cuts:
        segments += segmenter.push(said[first : first + cut])
        first += cut
    segments += segmenter.end_turn()
    assert tuple(segments) == segment_words(said, limits)
    assert [word for segment in segments for word in segment.words] == said
    assert "".join(segment.text for segment in segments) == "".join(parts)


def test_the_text_of_a_document_is_what_was_written() -> None:
    document = Document(segment_words(words("One. Two.")))
    assert document.text == "One. Two."
    assert len(document.words) == 2
    assert Document().text == ""
