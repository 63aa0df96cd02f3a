"""Who hears whom in the encoder, read off the gradients of a whole encoder: each output frame by each mel frame."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.mask import Mask
from whispertide_lab.training import masks
from whispertide_lab.training.network import Encoder

pytestmark = pytest.mark.slow

FRAMES, BLOCK = 12, 4
DIMS = replace(
    load_checkpoint("nano.en").dims,
    **{
        "n_audio_ctx": FRAMES,
        "n_audio_state": 8,
        "n_text_state": 8,
        "n_audio_head": 2,
        "n_audio_layer": 3,
        "n_mels": 4,
    },
)


def heard(bias: Any) -> Any:
    """[FRAMES, 2 FRAMES]: whether this frame of the output depends on that frame of the spectrogram."""
    torch.manual_seed(0)
    encoder = Encoder(DIMS).double()
    mel = torch.randn(1, 4, 2 * FRAMES, dtype=torch.float64, requires_grad=True)
    out = encoder(mel, bias)[0].square().sum(-1)
    slopes = [torch.autograd.grad(out[row], mel, retain_graph=True)[0][0].abs().sum(0) for row in range(FRAMES)]
    return torch.stack(slopes) > 0


def reached(sees: Any) -> Any:
    """The same by hand: `sees` [FRAMES, FRAMES], and two convolutions that reach two mel frames to either side."""
    centres, frames = 2 * torch.arange(FRAMES)[:, None], torch.arange(2 * FRAMES)[None]
    return (sees.double() @ ((frames - centres).abs() <= 2).double()) > 0


def by_rule(rule: Any) -> Any:
    return torch.tensor([[rule(row, column) for column in range(FRAMES)] for row in range(FRAMES)])


RULES = {
    "all": (None, lambda row, column: True),
    "block-diagonal": (masks.block_diagonal(FRAMES, BLOCK), lambda row, column: column // BLOCK == row // BLOCK),
    "blocks that do not fill the window": (
        masks.block_diagonal(FRAMES, 5),
        lambda row, column: column // 5 == row // 5,
    ),
    "c4": (masks.mask_bias(Mask(BLOCK, causal=True), FRAMES), lambda row, column: column // BLOCK <= row // BLOCK),
    "block-causal, the first block longer": (
        masks.block_causal(FRAMES, 2, 5),
        lambda row, column: column < next(end for end in (5, 7, 9, 11, 13) if row < end),
    ),
    "causal, frame by frame": (masks.block_causal(FRAMES, 1, 1), lambda row, column: column <= row),
}


@pytest.mark.parametrize("name", RULES)
def test_who_hears_whom(name: str) -> None:
    bias, rule = RULES[name]
    assert torch.equal(heard(bias), reached(by_rule(rule)))


def test_the_rules_differ() -> None:
    """The check above could not tell two masks apart if their reach were the same."""
    patterns = [tuple(reached(by_rule(rule)).flatten().tolist()) for _, rule in RULES.values()]
    assert len(set(patterns)) == len(RULES)


def test_a_mask_is_part_of_one_call_alone() -> None:
    torch.manual_seed(0)
    encoder = Encoder(DIMS)
    mel = torch.randn(1, 4, 2 * FRAMES)
    with torch.no_grad():
        before, masked, after = encoder(mel), encoder(mel, masks.block_diagonal(FRAMES, BLOCK)), encoder(mel)
    assert torch.equal(before, after)
    assert not torch.allclose(before, masked)
