"""A late-contextualisation network of random weights, small enough for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from whispertide.checkpoint.latecontext import Kind, LateCheckpoint, LateDims, learn_vocabulary
from whispertide.model.latecontext import LateModel

TEXTS = ["play some music", "set an alarm for seven", "what is the weather"]
INTENTS = ["play_music", "alarm_set"]


def small_late(seed: int = 1, attending_inner: int | None = None, kind: Kind = "late") -> LateCheckpoint:
    """Width 32, two layers of each kind, 40 tokens; gates that are not all open, so that convolutions count."""
    import torch

    from whispertide.lab.training.latecontext.network import tensors_of
    from whispertide.lab.training.latecontext.run import make_network

    vocabulary = learn_vocabulary(TEXTS, INTENTS, 40)
    dims = LateDims(
        kind=kind,
        width=32,
        heads=2,
        inner=64,
        attending_inner=attending_inner,
        kernel=5,
        convolving=2,
        attending=2,
        n_vocab=vocabulary.size,
    )
    torch.manual_seed(seed)
    network = make_network(dims, dropout=0.1)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return LateCheckpoint(dims, tensors_of(network), vocabulary)


@contextmanager
def late_model(folder: Path) -> Iterator[LateModel]:
    """The network of a folder, whose graphs are kept next to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHISPERTIDE_CACHE", str(folder.parent))
        yield LateModel.open(folder)


SOUND = (0.1 * np.random.default_rng(0).standard_normal(24_300)).astype(np.float32)
