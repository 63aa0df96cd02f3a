"""Losses against their definitions, by hand or by a plain computation."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from small_training import nano, small_dims
from whispertide_lab.training.compact import CompactVocabulary, tokens_in_use, whole_vocabulary
from whispertide_lab.training.losses import (
    CHARACTERS,
    Blur,
    CharacterHead,
    departure,
    guidance,
    next_tokens,
    spelled,
)
from whispertide_lab.training.network import new_network

pytestmark = pytest.mark.slow


def test_spelling_leaves_out_what_is_not_heard() -> None:
    assert spelled("  Don't,\n go! ") == [CHARACTERS.index(letter) + 1 for letter in "don't go"]
    assert spelled("¿...?") == []


def test_ctc_sums_over_all_ways_to_say_it() -> None:
    """Two frames, one letter: the letter twice, or next to a blank."""
    head = CharacterHead(4)
    hidden = torch.randn(2, 2, 4)
    p = head.output(hidden[0]).softmax(-1).detach()
    letter = spelled("b")[0]
    ways = p[0, letter] * p[1, letter] + p[0, 0] * p[1, letter] + p[0, letter] * p[1, 0]
    assert float(head.loss(hidden, ["B.", ""]).detach()) == pytest.approx(-math.log(float(ways)), rel=1e-5)


def test_ctc_of_nothing_and_of_too_much() -> None:
    head = CharacterHead(4)
    hidden = torch.randn(1, 2, 4, requires_grad=True)
    for text in ("", "much too long"):
        loss = head.loss(hidden, [text])
        loss.backward()
        assert float(loss.detach()) == 0


def test_guidance_is_the_attention_that_is_elsewhere() -> None:
    """Two targets, one of them heard from 0.04 to 0.06 s, frames 2 and 3; two heads."""
    weights = torch.tensor([[[0.1, 0.2, 0.3, 0.4], [0.25] * 4], [[0.0, 0.0, 0.5, 0.5], [0.25] * 4]])[None]
    places = torch.tensor([[[0.04, 0.06], [-1.0, -1.0]]])
    expected = -(math.log(0.7 + 1e-4) + math.log(1 + 1e-4)) / 2
    assert float(guidance(weights, places, 0.001)) == pytest.approx(expected, abs=1e-6)
    wide = -(math.log(0.9 + 1e-4) + math.log(1 + 1e-4)) / 2
    assert float(guidance(weights, places, 0.021)) == pytest.approx(wide, abs=1e-6)
    assert float(guidance(weights, torch.full((1, 2, 2), -1.0), 0.1)) == 0


def test_a_timestamp_is_taught_with_its_neighbours() -> None:
    """Rows 4 to 8 are timestamps; a bell of one row, cut off at their ends, and none on text."""
    logits = torch.randn(3, 10)
    scores = logits.log_softmax(-1)
    bell = [math.exp(-(away**2) / 2) for away in range(4)]
    inside = [bell[2], bell[1], bell[0], bell[1], bell[2]]
    at_end = [bell[3], bell[2], bell[1], bell[0]]
    expected = float(scores[0, 2])
    expected += sum(share * float(scores[1, 4 + row]) for row, share in enumerate(inside)) / sum(inside)
    expected += sum(share * float(scores[2, 5 + row]) for row, share in enumerate(at_end)) / sum(at_end)
    targets = torch.tensor([2, 6, 8])
    assert float(next_tokens(logits, targets, 0.0, Blur(range(4, 9), 1.0))) == pytest.approx(-expected, rel=1e-5)


def test_a_narrow_blur_is_none_and_smoothing_stays_with_it() -> None:
    logits, targets = torch.randn(4, 10), torch.tensor([0, 4, 8, 9])
    for smoothing in (0.0, 0.1):
        blurred = float(next_tokens(logits, targets, smoothing, Blur(range(4, 9), 0.01)))
        assert blurred == pytest.approx(float(next_tokens(logits, targets, smoothing)), rel=1e-5)


# --- the compact vocabulary -------------------------------------------------------------------------------------------

USED = CompactVocabulary(np.array([0, 3, 4, 9]), 12)


def whole_rows() -> Any:
    """[12, 6] where the rows not in use are equal to each other."""
    rows = torch.randn(12, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows[[1, 2, 5, 6, 7, 8, 10, 11]] = rows[1].clone()
    return rows


def test_the_compact_loss_is_the_loss_over_all() -> None:
    whole = whole_rows()
    hidden = torch.randn(5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    targets = torch.tensor([0, 9, 4, 3, 3])
    compact = torch.cat([whole[USED.used], whole[1:2]])
    rows = torch.from_numpy(USED.rows())
    found = next_tokens(USED.logits(hidden, compact), rows[targets], 0.0)
    logits = (hidden @ whole.T).float()
    expected = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    assert float(found) == pytest.approx(float(expected), rel=1e-6)
    assert float(found) != pytest.approx(
        float(torch.nn.functional.cross_entropy((hidden @ compact.T).float(), rows[targets], reduction="sum")), rel=1e-3
    )


def test_the_whole_vocabulary_is_plain_cross_entropy() -> None:
    hidden, weight, targets = torch.randn(5, 6), torch.randn(9, 6), torch.tensor([1, 2, 3, 4, 8])
    vocabulary = whole_vocabulary(9)
    found = next_tokens(vocabulary.logits(hidden, torch.cat([weight, torch.randn(1, 6)])), targets, 0.1)
    expected = torch.nn.functional.cross_entropy(hidden @ weight.T, targets, label_smoothing=0.1, reduction="sum")
    assert float(found) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("everything", [True, False])
def test_shrinking_and_expanding(everything: bool) -> None:
    """Nothing is lost of the rows in use; the others become one."""
    network = new_network(small_dims(), 0)
    full = network.decoder.embed_tokens.weight.detach().clone()
    used = np.arange(len(full)) if everything else np.array([0, 7, 220, 51863])
    vocabulary = CompactVocabulary(used, len(full))
    vocabulary.shrink(network)
    assert network.decoder.embed_tokens.weight.shape == (len(used) + 1, 16)
    vocabulary.expand(network)
    after = network.decoder.embed_tokens.weight.detach()
    assert torch.equal(after[used], full[used])
    if not everything:
        others = np.setdiff1d(np.arange(len(full)), used)
        assert torch.allclose(after[others], full[others].mean(0).expand(len(others), 16), atol=1e-6)


def test_tokens_in_use() -> None:
    tokenizer = nano().tokenizer
    vocabulary = tokens_in_use(["The old road.", "Old news, old road!"], tokenizer)
    known = set(vocabulary.used.tolist())
    assert known >= {*tokenizer.encode(" The old road."), *tokenizer.encode(" Old news, old road!")}
    assert known >= {tokenizer.eot, tokenizer.sot, tokenizer.no_speech, tokenizer.timestamp_begin + 1500}
    assert not known & set(tokenizer.encode(" elephants"))
    assert vocabulary.full == 51864
    rows = vocabulary.rows()
    assert vocabulary.stamps == range(rows[tokenizer.timestamp_begin], rows[tokenizer.timestamp_begin + 1500] + 1)
    assert not CompactVocabulary(vocabulary.used[:-1], 51864).stamps
    assert rows[vocabulary.used].tolist() == list(range(len(known)))
    assert rows[tokenizer.encode(" elephants")[0]] == len(known)


def test_departure_is_the_divergence_from_what_was_known() -> None:
    known, now = np.array([[0.5, 0.3, 0.2], [0.9, 0.05, 0.05]]), np.array([[0.2, 0.3, 0.5], [0.9, 0.05, 0.05]])
    by_hand = float((known * np.log(known / now)).sum())
    found = departure(torch.from_numpy(np.log(now)) + 3.0, torch.from_numpy(np.log(known)) - 1.0)  # logits: any shift
    assert float(found) == pytest.approx(by_hand, rel=1e-6)
    assert float(departure(torch.from_numpy(known), torch.from_numpy(known))) == pytest.approx(0, abs=1e-9)
