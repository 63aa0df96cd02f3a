"""The decoder in use: tokens at once or one by one, rows that continue others, a cache that is cut back, and what of a
distribution is given back.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

from random_models import MINI
from reference import nano
from whispertide.decoding.rules import log_softmax
from whispertide.model.engine import DecodeOutput, DecodeRequest, DecoderRun, Encoded
from whispertide.model.onnx_engine import KVCache
from whispertide.types import FloatArray

TOKENS = (50257, 50362, 383, 2068, 11, 464)
HEADS = ((0, 0), (3, 1))


@pytest.fixture(scope="module")
def encoded() -> Encoded:
    return nano().encode(np.random.default_rng(1).normal(size=(80, 200)).astype(np.float32))


def same(found: FloatArray, expected: FloatArray) -> None:
    """As exact as sums over the whole vocabulary are in fp32."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)


def start(encoded: Encoded) -> DecoderRun:
    return nano().decoder(encoded, heads=HEADS)


def logits(run: DecoderRun, *rows: tuple[int, ...], **about: Any) -> FloatArray:
    """[rows, vocab] after the last token of each row."""
    found = run.run(DecodeRequest(np.array(rows), (len(rows[0]) - 1,), need="logits", **about)).logits
    assert found is not None
    return found[:, 0]


def test_tokens_at_once_are_tokens_one_by_one(encoded: Encoded) -> None:
    whole, single = start(encoded), start(encoded)
    places = tuple(range(len(TOKENS)))
    at_once = whole.run(DecodeRequest(np.array([TOKENS]), places, need="logits", hidden=True))
    parts = [single.run(DecodeRequest(np.array([[token]]), (0,), need="logits", hidden=True)) for token in TOKENS]
    for name, axis in (("logits", 1), ("hidden", 1), ("attention", 2)):
        joined = np.concatenate([getattr(part, name) for part in parts], axis=axis)
        same(getattr(at_once, name), joined)
    changed = logits(start(encoded), (*TOKENS[:2], 11, *TOKENS[3:]))
    assert at_once.logits is not None
    with pytest.raises(AssertionError):
        same(at_once.logits[:, -1], changed)


def test_only_the_places_that_are_asked_for_are_given_back(encoded: Encoded) -> None:
    everywhere = start(encoded).run(DecodeRequest(np.array([TOKENS]), (0, 1, 2, 3, 4, 5), need="logits"))
    some = start(encoded).run(DecodeRequest(np.array([TOKENS]), (1, 4), need="logits"))
    assert everywhere.logits is not None
    assert some.logits is not None
    same(some.logits, everywhere.logits[:, [1, 4]])


def test_each_row_continues_the_row_that_it_names(encoded: Encoded) -> None:
    run = start(encoded)
    logits(run, TOKENS[:2])
    first, second, third = (11,), (464,), (290,)
    logits(run, first, second, third, parents=(0, 0, 0))
    moved = logits(run, (383,), (383,), (262,), parents=(2, 0, 0))
    alone = [logits(start(encoded), (*TOKENS[:2], *rows)) for rows in ((290, 383), (11, 383), (11, 262))]
    same(moved, np.concatenate(alone))


def test_what_is_suppressed_counts_in_no_distribution(encoded: Encoded) -> None:
    plain = logits(start(encoded), TOKENS)
    best = int(plain.argmax())
    never = np.zeros(plain.shape[1], np.float32)
    never[best] = -np.inf
    found = start(encoded).run(DecodeRequest(np.array([TOKENS]), (5,), suppress=never))
    assert found.top_ids is not None
    assert found.top_logprobs is not None
    expected = log_softmax(plain[0] + never)
    assert best not in found.top_ids
    same(found.top_logprobs[0, 0], np.sort(expected)[::-1][: found.top_ids.shape[-1]])
    rows = np.stack([np.zeros_like(never), never])
    by_row = start(encoded).run(DecodeRequest(np.array([TOKENS] * 2), (5,), parents=(0, 0), suppress=rows)).top_ids
    assert by_row is not None
    assert [best in row for row in by_row] == [True, False]


def test_times_are_told_apart_from_text(encoded: Encoded) -> None:
    begin = nano().tokenizer.timestamp_begin
    found = start(encoded).run(DecodeRequest(np.array([TOKENS]), (5,), need="times"))
    every = log_softmax(logits(start(encoded), TOKENS)[0])
    assert found.time_ids is not None
    assert found.time_logprobs is not None
    assert found.time_mass is not None
    times = found.time_ids[0, 0]
    assert times.min() >= begin
    assert times[0] == begin + every[begin:].argmax()
    same(found.time_logprobs[0, 0], every[times])
    same(found.time_mass[0, 0], np.log(np.exp(every[begin:]).sum()))


@pytest.mark.parametrize(
    ("request_", "given"),
    [
        (DecodeRequest(np.array([TOKENS]), (5,)), {"top_ids", "top_logprobs"}),
        (DecodeRequest(np.array([TOKENS]), (5,), need="logits"), {"logits"}),
        (DecodeRequest(np.array([TOKENS]), (5,), hidden=True), {"top_ids", "top_logprobs", "hidden"}),
    ],
)
def test_nothing_is_given_back_that_was_not_asked_for(
    encoded: Encoded, request_: DecodeRequest, given: set[str]
) -> None:
    found: DecodeOutput = nano().decoder(encoded).run(request_)
    arrays = {name for name in DecodeOutput.__slots__ if isinstance(getattr(found, name), np.ndarray)}
    assert arrays == given


# --- the cache --------------------------------------------------------------------------------------------------------


def cache_of(values: npt.NDArray[np.float32]) -> KVCache:
    """One layer whose keys [rows, heads, length, size] are `values`, and whose values are their negatives."""
    keys, others = (onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(each)) for each in (values, -values))
    return KVCache((keys,), (others,), values.shape[2])


VALUES = np.arange(3 * 2 * 5 * 4, dtype=np.float32).reshape(3, 2, 5, 4)


def test_a_cache_begins_with_one_row_of_nothing() -> None:
    empty = KVCache.empty(MINI)
    assert (empty.keys[0].shape()[0], empty.length, len(empty.keys), len(empty.values)) == (1, 0, 2, 2)
    assert empty.keys[0].shape() == [1, MINI.n_text_head, 0, 64]


@pytest.mark.parametrize("rows", [(0, 1, 2), (2, 0), (1, 1, 1, 0)])
def test_rows_of_a_cache_are_taken_in_any_order(rows: tuple[int, ...]) -> None:
    cache = cache_of(VALUES)
    taken = cache.of(rows)
    assert (taken is cache) == (rows == (0, 1, 2)), "nothing is copied where nothing moves"
    np.testing.assert_array_equal(taken.keys[0].numpy(), VALUES[list(rows)])
    np.testing.assert_array_equal(taken.values[0].numpy(), -VALUES[list(rows)])
    assert taken.length == 5


@pytest.mark.parametrize("length", [5, 3, 0])
def test_a_cache_is_cut_back_and_the_one_before_stays(length: int) -> None:
    cache = cache_of(VALUES)
    cut = cache.rewound(length)
    assert cut.length == length
    np.testing.assert_array_equal(cut.keys[0].numpy(), VALUES[:, :, :length])
    np.testing.assert_array_equal(cut.values[0].numpy(), -VALUES[:, :, :length])
    np.testing.assert_array_equal(cache.keys[0].numpy(), VALUES)


@pytest.mark.parametrize("length", [-1, 6])
def test_no_cache_is_cut_to_what_it_never_had(length: int) -> None:
    with pytest.raises(ValueError, match="0 to 5 cached positions"):
        cache_of(VALUES).rewound(length)
