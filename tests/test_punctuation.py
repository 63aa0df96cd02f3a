import re
from pathlib import Path

import whispertide
from each_row import each_row
from whispertide.punctuation import ABBREVIATIONS, belong_together, ends_sentence, is_initial, may_stand, runs_on


@each_row("text", ["Yes.", "yes.”", "(yes!)", "'yes?'\"", "yes…", "是。", "「是。」", "نعم؟", "हाँ।", "."])
def test_a_sentence_ends_with_a_mark_and_what_closes_after_it(text: str) -> None:
    assert ends_sentence(text)


@each_row("text", ["", "yes", "yes,", "“yes”", "3.5", "yes. ", "yes.\n", "。是", "」"])
def test_other_texts_go_on(text: str) -> None:
    assert not ends_sentence(text)


@each_row("text", [" Mr.", "“Dr.", "Mrs.", "(e.g.", "z.B.", "to Prof.", "M.", "Sra."])
def test_the_full_stop_of_an_abbreviation_ends_no_sentence(text: str) -> None:
    assert not ends_sentence(text)


@each_row("text", ["etc.", "p.m.", "one more rep.", "dr.x.", "Best.", "Am.", "A.M.", "Mr.”", "Mr?"])
def test_another_word_ends_one(text: str) -> None:
    assert ends_sentence(text)


def test_the_page_has_the_same_abbreviations() -> None:
    source = (Path(whispertide.__file__).parent / "server" / "web" / "transcript.js").read_text(encoding="utf-8")
    (written,) = re.findall(r"const ABBREVIATIONS =((?:\s+\"[^\"]+\"[ +;]*)+)", source)
    assert tuple(" ".join(re.findall(r'"([^"]+)"', written)).split()) == ABBREVIATIONS


@each_row(
    ("before", "after", "together"),
    [
        *(
            (" oui", " ?", True),
            (" oui", " !", True),
            (" oui", "»", True),
            (" « oui", " » ", True),
            (" «", " oui", True),
        ),
        *((" oui", " »Komm", False), ("»Komm«", " sagt", False), (" oui", " «", False), (" oui", " ...", False)),
        *((" oui", " non", False), (" oui", "", False), ("", " non", False)),
    ],
)
def test_what_french_parts_by_a_space_belongs_together(before: str, after: str, together: bool) -> None:
    assert belong_together(before, after) is together


@each_row(
    ("before", "text", "after", "initial"),
    [
        *((" George", " W.", " Bush", True), (" by", " J.", " K.", True), (" J.", " K.", " Rowling", True)),
        *(("", " A.", " Smith", True), (" ist", " z.", " B.", True), (" z.", " B.", " ein", True)),
        *((" plan", " B.", " We", False), (" than", " I.", " He", False), (" George", " WW.", " Bush", False)),
        *((" Two", " x.", " One", False), ("", " x.", " One", False), (" Ist", " z.", " B.", True)),
        *((" George", " 5.", " Bush", False), (" George", " W", " Bush", False), (" am", " Am.", " Bush", False)),
    ],
)
def test_the_full_stop_of_an_initial_ends_no_sentence(before: str, text: str, after: str, initial: bool) -> None:
    assert is_initial(before, text, after) is initial


@each_row(
    ("mark", "following", "may"),
    [
        *((".", " Ask", True), (".", " ask", False), ("!", ' "ask', False), (",", " ask", True), (".", " 7", True)),
        *(("?", " I'm", True), ("。", "は", True), (".", "", True), (",", " Ask", True), (".", " été", False)),
    ],
)
def test_no_sentence_ends_before_a_small_letter(mark: str, following: str, may: bool) -> None:
    assert may_stand(mark, following) is may


@each_row(
    ("text", "unended"),
    [
        ("", False),
        (19 * "so i ", True),
        (9 * "so i " + "want", False),
        (10 * "so, i ", True),
        (10 * "so i " + "do.", False),
        ("I do. " + 10 * "so i ", False),
        ("I do. " + 20 * "so i ", True),
        (10 * "so i " + "met Mr. Li", True),
    ],
)
def test_a_text_runs_on_without_the_end_of_a_sentence(text: str, unended: bool) -> None:
    assert runs_on(text) is unended
