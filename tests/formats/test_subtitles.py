import unicodedata
from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from each_row import each_row
from whispertide.formats import phrases
from whispertide.formats.document import Document, TextSegment, segment_words
from whispertide.formats.subtitles import LONGEST, SHORTEST, SUBTITLES, Cue, cues
from whispertide.options import SubtitleOptions
from whispertide.types import SAMPLE_RATE, Word

SECOND = SAMPLE_RATE


def said(text: str, *, at: float = 0.0, word_s: float = 0.3, gap_s: float = 0.0) -> list[Word]:
    """The words of `text` one after the other, from `at` on."""
    first, length, step = (round(value * SECOND) for value in (at, word_s, word_s + gap_s))
    return [Word(f" {part}", first + step * n, first + step * n + length) for n, part in enumerate(text.split())]


def document_of(words: list[Word]) -> Document:
    return Document(segment_words(words))


def texts(found: list[Cue]) -> list[str]:
    return [cue.text for cue in found]


def test_a_word_without_length_stays_in_its_line_and_makes_no_cue_of_its_own() -> None:
    """As in the demo: "A" at 3.98 s has no length, and the next word begins a second later."""
    words = [*said("She read the book every morning.", at=0.4), Word(" A", 63_680, 63_680)]
    found = cues(document_of([*words, *said("large bird came.", at=5.06)]))
    assert texts(found) == ["She read the book every morning.", "A large bird came."]
    assert found[1].start == round(5.06 * SECOND), "where it lies is not known: the cue begins with the next word"


def test_a_short_cue_stays_on_into_the_silence_after_it() -> None:
    found = cues(document_of([*said("No.", at=1), *said("He did not go to the river.", at=4)]))
    assert (found[0].start, found[0].end) == (SECOND, 2 * SECOND)


def test_short_sentences_that_follow_fast_share_a_cue() -> None:
    assert texts(cues(document_of(said("Yes. No. Maybe.", word_s=0.25)))) == ["Yes. No. Maybe."]
    assert len(cues(document_of(said("Yes. No. Maybe.", word_s=0.5, gap_s=1)))) == 3


def test_a_long_sentence_is_broken_at_its_commas() -> None:
    text = "When the weather had been cold for many days, the farmer stayed in his house near the old river."
    first, second = cues(document_of(said(text)))
    assert first.text.endswith("days,")
    assert second.text.startswith("the farmer")


def test_a_cue_is_broken_at_a_breath_rather_than_anywhere() -> None:
    before, after = (
        "one two three four five six seven eight nine ten",
        "eleven twelve thirteen fourteen fifteen sixteen",
    )
    found = cues(document_of([*said(before), *said(after, at=10 * 0.3 + 0.4)]))
    assert [" ".join(text.split()) for text in texts(found)] == [before, after]


def test_a_line_does_not_end_with_a_short_word() -> None:
    (cue,) = cues(document_of(said("Every morning they walked along the edge of the forest.", word_s=0.2)))
    assert cue.text.splitlines()[0].split()[-1] not in ("the", "of")


def test_a_title_stays_with_the_name() -> None:
    text = "Everybody in the old town was asked by Mr. Quilter and Dr. Brown to come to the dinner."
    assert [segment.text for segment in segment_words(said(text))] == [f" {text}"]
    lines = [line for cue in cues(document_of(said(text))) for line in cue.text.splitlines()]
    assert not any(line.endswith(("Mr.", "Dr.")) for line in lines)


JAPANESE = "客観的実在の判断的知識が整理するのである"
CHINESE = "今天天气很好我们一起去公园玩吧"
THAI = "วันนี้อากาศดีมากเราไปเที่ยวสวนกันเถอะ"


def characters(text: str, *, word_s: float = 0.2) -> list[Word]:
    """Words as Whisper writes them in scripts without spaces: a character each, or with its marks."""
    step = round(word_s * SECOND)
    return [Word(char, n * step, (n + 1) * step) for n, char in enumerate(text)]


def lines_of(text: str, width: int) -> list[str]:
    found = cues(document_of(characters(text)), options=SubtitleOptions(line_width=width))
    return [line for cue in found for line in cue.text.splitlines()]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        (JAPANESE, 20, ["客観的実在の", "判断的知識が", "整理するのである"]),
        (JAPANESE, 42, [JAPANESE]),
        (CHINESE, 16, ["今天天气很好我们", "一起去公园玩吧"]),
    ],
)
def test_lines_without_spaces_end_between_phrases(text: str, width: int, expected: list[str]) -> None:
    assert lines_of(text, width) == expected


def test_thai_lines_end_between_words() -> None:
    lines = lines_of(THAI, 12)
    (words,) = phrases.starts(THAI)
    assert len(lines) > 2
    assert words.issuperset(list(accumulate(map(len, lines)))[:-1])


def test_what_fits_no_line_is_broken_in_a_word() -> None:
    lines = lines_of(JAPANESE, 10)
    assert "".join(lines) == JAPANESE
    assert all(len(line) <= 5 for line in lines)


def test_the_language_decides_where_the_script_does_not() -> None:
    """Characters alone may be Japanese or Chinese; scripts of which nothing is known have no phrases."""
    assert phrases.starts("東京都知事選挙", "ja") != phrases.starts("東京都知事選挙", "zh")
    assert phrases.starts("ສະບາຍດີ") == phrases.starts("hello") == ()


def test_a_comma_ends_a_line() -> None:
    (cue,) = cues(document_of(said("If the weather is cold, you should close the window.")))
    assert cue.text == "If the weather is cold,\nyou should close the window."


@pytest.mark.parametrize("length", range(1, 12))
def test_no_line_of_french_begins_with_a_mark_or_ends_with_an_opening_one(length: int) -> None:
    """Where there is hardly room for the mark, too."""
    text = f"{'mot ' * 19}{'x' * length} ? Il dit « {'o' * length} » : est-ce que {'mot ' * 15}{'y' * length} !"
    lines = [line for cue in cues(document_of(said(text))) for line in cue.text.split("\n")]
    assert " ".join(lines) == text
    assert [line for line in lines if line[0] in "»:!?" or line[-1] == "«"] == []


def test_lines_without_a_comma_are_of_like_length() -> None:
    document = Document((TextSegment(0, SECOND, " one two three four five six seven eight nine ten"),))
    assert texts(cues(document)) == ["one two three four five\nsix seven eight nine ten"]


def test_lines_may_be_shorter() -> None:
    text = "When the weather had been cold for many days, the farmer stayed in his house near the old river."
    found = cues(document_of(said(text)), options=SubtitleOptions(line_width=20))
    lines = [line for cue in found for line in cue.text.splitlines()]
    assert max(map(len, lines)) <= 20
    assert max(len(cue.text.splitlines()) for cue in found) == 2
    assert " ".join(lines) == text


def test_a_cue_may_be_one_line() -> None:
    text = "If the weather is cold, you should close the window. Then you should light a fire, and sit down."
    found = cues(document_of(said(text)), options=SubtitleOptions(lines=1))
    assert " ".join(texts(found)) == text
    assert not any("\n" in cue.text or len(cue.text) > 42 for cue in found)
    longer = Document((TextSegment(0, SECOND, " one two three four five six seven eight nine ten"),))
    assert len(cues(longer, options=SubtitleOptions(lines=1))) == 2


def test_a_script_without_spaces_is_broken_between_words_and_counts_double() -> None:
    words = [Word("東京", n * 4000, n * 4000 + 4000) for n in range(16)]
    (cue,) = cues(document_of(words))
    lines = cue.text.splitlines()
    assert [len(line) for line in lines] == [16, 16]
    assert "".join(lines) == "東京" * 16


@pytest.mark.parametrize("text", ["เก้าน้ำแม่ไป", "ເກົ້ານ້ຳແມ່ໄປ", "မြန်မာဘာသာ"])
def test_no_line_begins_inside_a_syllable(text: str) -> None:
    """There a word of the model may be a single character."""
    for count in range(30, 120, 7):
        said = [Word((text * 12)[n], n * 1600, n * 1600 + 1600) for n in range(count)]
        lines = [line for cue in cues(document_of(said)) for line in cue.text.splitlines()]
        assert "".join(lines) == "".join(word.text for word in said)
        assert not [line for line in lines if unicodedata.category(line[0]).startswith("M") or line[0] in "าຳำ"]
        assert not [line for line in lines[:-1] if line[-1] in "เแไເແໄ"]


@each_row(
    ("first", "second", "shown"),
    [
        ("好的。", "走吧。", "好的。走吧。"),
        ("好的", "走吧", "好的走吧"),
        ("“好的。”", "“走吧。”", "“好的。”“走吧。”"),
        ("「はい……」", "「いいえ。」", "「はい……」「いいえ。」"),
        ("好的。", " 走吧。", "好的。 走吧。"),
        ("好的。", "Yes.", "好的。 Yes."),
        ("네", "아니요", "네 아니요"),
        ("ไป", "มา", "ไป มา"),
        ("ở", "ấy", "ở ấy"),
        ("“No.”", "“Yes.”", "“No.” “Yes.”"),
    ],
)
def test_no_space_is_put_between_phrases_of_chinese_and_japanese(first: str, second: str, shown: str) -> None:
    turns = (segment_words([Word(text, at, at + 4000)]) for text, at in ((first, 0), (second, 4000)))
    assert texts(cues(Document(tuple(segment for turn in turns for segment in turn)))) == [shown]


def test_a_sentence_that_ends_in_a_corner_bracket_ends_a_line() -> None:
    said = [Word(f"「{'東' * 11}。」", 0, 8000), *(Word("京", 8000 + n * 800, 8800 + n * 800) for n in range(20))]
    (cue,) = cues(document_of(said))
    assert cue.text == f"「{'東' * 11}。」\n{'京' * 20}"


def test_a_number_is_not_torn() -> None:
    words = [Word(" x" * 20, 0, 1000), Word(" 3.", 1000, 2000), Word("5", 2000, 3000)]
    assert "3.5" in cues(document_of(words))[-1].text


def test_a_text_without_word_times_is_cut_all_the_same() -> None:
    found = cues(Document((TextSegment(0, 20 * SECOND, " word" * 40),)))
    check(found, [Word(" word", 0, 0)] * 40)
    assert len(found) >= 3
    assert found[-1].end == 20 * SECOND


@each_row(
    ("text", "language"),
    [
        (CHINESE * 5, "zh"),
        (JAPANESE * 4, "ja"),
        (f"{JAPANESE}。" * 4, "ja"),
        (THAI * 4, "th"),
        ("ເກົ້ານ້ຳແມ່ໄປ" * 9, "lo"),
        (f"iPhone {CHINESE * 2} 和{CHINESE * 3}", "zh"),
    ],
)
def test_a_text_without_spaces_and_word_times_is_cut_all_the_same(text: str, language: str) -> None:
    """As a translation is: it was one line, however long."""
    found = cues(Document((TextSegment(0, 20 * SECOND, text),), language))
    lines = [line for cue in found for line in cue.text.splitlines()]
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    for line in lines:
        wide = [char for char in line if unicodedata.category(char) != "Mn"]
        assert sum(1 + (unicodedata.east_asian_width(char) == "W") for char in wide) <= 42, line
    assert all(len(cue.text.splitlines()) <= 2 for cue in found)
    assert not [line for line in lines if line[0] in "。" or unicodedata.category(line[0]).startswith("M")]
    assert all(before.end <= after.start for before, after in pairwise([Cue(0, 0, ""), *found]))
    assert all(cue.end <= 20 * SECOND for cue in found)


def test_korean_is_not_cut_in_a_word() -> None:
    text = "가" * 50
    assert texts(cues(Document((TextSegment(0, 5 * SECOND, f" {text} {text}"),), "ko"))) == [text, text]


@pytest.mark.slow
def test_a_speech_without_a_pause_is_cut() -> None:
    words = said("word " * 2000, word_s=0.4)
    check(cues(document_of(words)), words)


def test_a_cue_that_lies_far_too_late_does_not_push_the_others() -> None:
    sentences = [(0, "One was here."), (60, "Two went wrong."), (4, "Three came later."), (8, "Four is last.")]
    segments = tuple(TextSegment(at * SECOND, (at + 2) * SECOND, f" {text}") for at, text in sentences)
    found = cues(Document(segments))
    assert texts(found) == [text for _, text in sentences], "none is lost"
    assert [round(cue.start / SECOND) for cue in found] == [0, 4, 4, 8]


def test_a_cue_that_lies_too_early_does_not_pull_the_others() -> None:
    segments = tuple(TextSegment(at * SECOND, (at + 1) * SECOND, " Word.") for at in (4, 8, 0, 12, 16))
    assert [round(cue.start / SECOND) for cue in cues(Document(segments))] == [4, 8, 8, 12, 16]


PARTS = st.sampled_from(
    [
        " word",
        " a",
        " end.",
        " clause,",
        "glued",
        " " + "x" * 30,
        " " + "y" * 60,
        " ?",
        " two words",
        "東",
        "京。",
        " ",
        "",
    ]
)
LENGTHS = st.sampled_from([0, 0, 1, 320, 4000, 8000, 20_000, 200_000])
GAPS = st.sampled_from([0, 0, 0, 0, 320, 5000, 16_000, 100_000, -100])


@st.composite
def transcripts(draw: st.DrawFn) -> list[list[Word]]:
    """Words in segments, as recognised: without length, at one instant, out of order by a little, very long."""
    segments, at = [], 200
    for count in draw(st.lists(st.integers(1, 25), max_size=4)):
        words = []
        for _ in range(count):
            at = max(0, at + draw(GAPS))
            length = draw(LENGTHS)
            words.append(Word(draw(PARTS), at, at + length))
            at += length
        segments.append(words)
    return segments


def check(found: list[Cue], words: list[Word]) -> None:
    """The rules that hold for every transcript."""
    assert "".join("".join(cue.text for cue in found).split()) == "".join("".join(word.text for word in words).split())
    for cue in found:
        lines = cue.text.split("\n")
        assert len(lines) <= 2
        for line in lines:
            assert line == line.strip() != ""
            assert sum(1 + (char in "東京。") for char in line) <= SUBTITLES.line_width or " " not in line
        assert 0 < cue.end - cue.start <= LONGEST
    for cue, after in pairwise(found):
        assert cue.start < cue.end <= after.start
        assert cue.end - cue.start >= SHORTEST or cue.end == after.start, "it could have stayed longer"
    if found:
        assert found[-1].end - found[-1].start >= SHORTEST


@given(transcripts())
@example([[Word(" loop", 5000, 5000)] * 25])
@example([[Word(" " + "y" * 60, 0, 100), Word(" " + "y" * 60, 100, 200)]])
def test_cues_keep_the_rules_and_lose_no_word(segments: list[list[Word]]) -> None:
    parts = [
        TextSegment(words[0].start, words[-1].end, "".join(w.text for w in words), tuple(words)) for words in segments
    ]
    words = [word for segment in segments for word in segment]
    check(cues(Document(tuple(parts))), words)


@given(transcripts())
@example(
    [[Word(" word", 0, 0), Word("東", 0, 0), Word("東", 0, 0), Word(" " + "x" * 30, 0, 0), Word(" clause,", 0, 0)]]
)
def test_cues_are_their_own_cues(segments: list[list[Word]]) -> None:
    """What is written and read again is the same: nothing drifts."""
    found = cues(document_of([word for segment in segments for word in segment]))
    again = cues(Document(tuple(TextSegment(cue.start, cue.end, " " + cue.text) for cue in found)))
    assert again == found
