import io
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from whispertide.checkpoint.untrusted import count_elements, first_of, quote, read_exactly, shorten

E = 10**4000  # a length that is a number of 4,000 digits


@given(shape=st.lists(st.integers(0, 50), max_size=4).map(tuple), most=st.integers(0, 10_000))
def test_elements_are_counted(shape: tuple[int, ...], most: int) -> None:
    if prod(shape) <= most:
        assert count_elements(shape, most) == prod(shape)
    else:
        with pytest.raises(ValueError, match=rf"more than {most} numbers"):
            count_elements(shape, most)


@each_row("shape", [(E,), (1,) * 100_000, (E, E, E), (-1,), (True,), (1.5,), ("9" * 10**6,), ((1,),), (None,)])
def test_absurd_shapes_are_refused_briefly(shape: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="a tensor of") as raised:
        count_elements(shape, 1 << 40)
    assert len(str(raised.value)) < 120


def test_what_is_quoted_is_short() -> None:
    assert (quote("384"), quote(384), shorten("384")) == ("'384'", "384", "384")
    assert quote(E * E) == "a int beyond measure"
    assert len(quote(["x" * 9] * 10**5)) == len(shorten("y" * 10**6)) == 60
    assert shorten("two\nlines\x1b[31m") == "two lines [31m"
    assert first_of(["a", "b", "c", "d"]) == "a, b, c ..."
    assert first_of(["a", "b"]) == "a, b"


def test_a_file_that_ends() -> None:
    file = io.BytesIO(b"abc")
    assert read_exactly(file, 2) == b"ab"
    with pytest.raises(EOFError, match="ends early"):
        read_exactly(file, 2)
