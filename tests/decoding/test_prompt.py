from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from each_row import each_row
from whispertide.decoding.prompt import build_prompt, shown_text
from whispertide.errors import OptionError
from whispertide.options import DecodeOptions

SOT, PREV, NO_TIMES = 100, 101, 102
CONTEXT = 20  # so that 9 tokens of previous text are kept and 10 may be sampled


def sot_sequence(language: str | None, task: str, timestamps: bool) -> tuple[int, ...]:
    return (SOT,) if timestamps else (SOT, NO_TIMES)


TOKENIZER: Any = SimpleNamespace(sot_prev=PREV, sot_sequence=sot_sequence)


def build(options: DecodeOptions | None = None, **text: Any) -> Any:
    return build_prompt(TOKENIZER, CONTEXT, options or DecodeOptions(), language=None, **text)


def test_without_text_there_is_only_the_start() -> None:
    prompt = build()
    assert prompt.tokens == (SOT,)
    assert prompt.sot_index == 0
    assert prompt.limit == CONTEXT // 2


def test_previous_text_comes_before_and_the_forced_prefix_after() -> None:
    prompt = build(DecodeOptions(timestamps=False), previous=[1, 2], prefix=[3])
    assert prompt.tokens == (PREV, 1, 2, SOT, NO_TIMES, 3)
    assert prompt.tokens[prompt.sot_index] == SOT


def test_only_the_end_of_long_previous_text_is_kept() -> None:
    prompt = build(previous=range(50))
    assert prompt.tokens == (PREV, *range(41, 50), SOT)


@each_row(
    ("lasting", "context", "shown"),
    [
        ([], [], ()),
        ([], range(50), tuple(range(41, 50))),
        ([7, 8], [1], (7, 8, 1)),
        ([7, 8], range(50), (7, 8, *range(43, 50))),
        (range(9), [1, 2], tuple(range(9))),
        (range(50), [1, 2], tuple(range(9))),
    ],
)
def test_what_is_to_last_comes_first_and_leaves_the_rest_to_the_newest(
    lasting: Sequence[int], context: Sequence[int], shown: tuple[int, ...]
) -> None:
    found = shown_text(lasting, context, CONTEXT)
    assert found == shown
    assert build(previous=found).tokens == ((PREV, *shown, SOT) if shown else (SOT,))


def test_sampling_stops_where_the_context_is_full() -> None:
    prompt = build(previous=range(50), prefix=range(5))
    assert len(prompt.tokens) == 16
    assert prompt.limit == CONTEXT + 1 - 16  # the last token is sampled but not fed


def test_the_number_of_tokens_can_be_limited() -> None:
    assert build(DecodeOptions(max_tokens=3)).limit == 3


def test_a_prefix_that_fills_the_context_is_refused() -> None:
    with pytest.raises(OptionError, match="20 tokens"):
        build(prefix=range(20))


# --- text before a window, cut to what there is room for ------------------------------------------------------------
