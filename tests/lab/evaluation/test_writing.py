import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from whispertide_lab.evaluation.writing import WritingErrors, writing_errors


def errors(reference: str, heard: str) -> tuple[int, int]:
    """Those of case and of punctuation."""
    found = writing_errors(reference.split(), heard.split())
    return found.case, found.punctuation


@each_row(
    ("offline", "live", "case", "punctuation"),
    [
        ("My fellow Americans ask not.", "My fellow Americans ask not.", 0, 0),
        ("my fellow Americans ask not.", "my fellow Americans. Ask not.", 1, 1),  # broken in the middle
        ("He came quickly. Then he left.", "He came quickly Then he left.", 0, 1),  # a lost full stop
        ("With third party apps.", "with Third party apps.", 2, 0),  # wrong capitals
        ("Is it so?", "Is it so.", 0, 1),
        ("Yes, of course.", "Yes of course.", 0, 1),
        ("He said “well”…", 'He said "well"...', 0, 0),  # the same marks in another form
        ("It's the well-known NASA.", "It's the well-known Nasa.", 1, 0),
        ("Don't go.", "Don’t go.", 0, 0),
    ],
)
def test_case_and_punctuation_count_apart(offline: str, live: str, case: int, punctuation: int) -> None:
    assert errors(offline, live) == (case, punctuation)


def test_word_errors_do_not_count() -> None:
    found = writing_errors(*map(str.split, ("The cat sat down. It slept.", "The dog sat. It slept.")))
    # "cat" was misheard and "down." is missing; "sat" has a full stop that is not there offline
    assert found == WritingErrors(compared=4, case=0, punctuation=1)


def test_a_number_in_other_letters_is_not_compared() -> None:
    assert writing_errors(*map(str.split, ("It costs $25.", "It costs twenty five dollars."))).compared == 2


@pytest.mark.parametrize(("reference", "heard"), [("", ""), ("", "Some text."), ("Some text.", ""), ("-", "...")])
def test_nothing_to_compare_is_no_error(reference: str, heard: str) -> None:
    assert writing_errors(reference.split(), heard.split()) == WritingErrors()


WORDS = st.lists(st.sampled_from(["river", "Bridge", "the", "stone,", "water.", "Is", "it?"]), max_size=12)


@given(WORDS, st.data())
def test_as_many_errors_are_counted_as_were_made(words: list[str], data: st.DataObject) -> None:
    changed = data.draw(st.sets(st.integers(0, len(words) - 1)) if words else st.just(set()))
    lost = data.draw(st.sets(st.integers(0, len(words) - 1)) if words else st.just(set()))
    live = [word.swapcase() if at in changed else word for at, word in enumerate(words)]
    live = [word + "!" if at in lost else word for at, word in enumerate(live)]
    assert writing_errors(words, live) == WritingErrors(len(words), len(changed), len(lost))
