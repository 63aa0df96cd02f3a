"""Windows as a student hears them in training are those that it hears in use."""

import numpy as np
import pytest
import torch

from whispertide.checkpoint import load_checkpoint
from whispertide.streaming.framing import taught_framing
from whispertide_lab.training.network import load_network
from whispertide_lab.training.short import model_of
from whispertide_lab.training.short_framing import encode_short

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("merged", [0, 1, 16])
@pytest.mark.parametrize("frames", [30, 300])
def test_training_and_use_encode_alike(merged: int, frames: int) -> None:
    checkpoint = load_checkpoint("nano.en")
    network = load_network(checkpoint).eval()
    mels = np.random.default_rng(0).uniform(-1, 1, (2, 80, frames)).astype(np.float32)
    mels[1] *= 0.5  # each row has its own silence
    with torch.no_grad():
        encoded = encode_short(network, torch.from_numpy(mels), merged)
        values = network.decoder.layers[0].encoder_attn.v_proj(encoded)
    model = model_of(checkpoint, network)
    for row, mel in zip(values, mels, strict=True):
        used = np.asarray(taught_framing(merged)(model, mel).cross_v[0])[0]  # [heads, frames, 64]
        np.testing.assert_allclose(np.concatenate(list(used), axis=1), row, atol=1e-4)
