"""A grown network begins with what the small one has learned, and its copies can part."""

from typing import Any

import pytest
import torch

from small_training import nano, small_dims
from whispertide.errors import OptionError
from whispertide_lab.training.growth import grow
from whispertide_lab.training.network import load_network, new_network
from whispertide_lab.training.shapes import shaped
from whispertide_lab.training.widen import Target, Widening

pytestmark = pytest.mark.slow

TOLERANCE = 1e-5  # of the largest logit


def small_network() -> Any:
    """One layer of width 16, with biases and norms that are not those of a new network."""
    network = new_network(small_dims(), 1)
    dice = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=dice) * 0.1)
    return network.eval()


def small_shape(width: int, heads: int, layers: int) -> Any:
    return Target(width, heads, layers).applied_to(small_dims())


def logits(network: Any) -> Any:
    dice = torch.Generator().manual_seed(3)
    mel = torch.randn(2, 80, 200, generator=dice) * 0.5
    tokens = torch.randint(0, 51864, (2, 7), generator=dice)
    with torch.no_grad():
        return network(mel, tokens)


@pytest.mark.parametrize(("width", "heads", "layers"), [(16, 2, 1), (16, 2, 3), (32, 4, 1), (48, 6, 2)])
def test_a_multiple_says_the_same(width: int, heads: int, layers: int) -> None:
    source = small_network()
    grown = grow(source, small_shape(width, heads, layers), 0)
    before, after = logits(source), logits(grown)
    assert float((after - before).abs().max() / before.abs().max()) < TOLERANCE


@pytest.mark.soak
def test_another_width_says_nearly_the_same() -> None:
    """tiny.en's width is one and a half of nano.en's: the norms see other means, and nothing else differs."""
    source = load_network(nano())
    grown = grow(source, shaped(nano().dims, "tiny.en"), 0)
    before, after = logits(source), logits(grown)
    together = torch.corrcoef(torch.stack([before.flatten(), after.flatten()]))[0, 1]
    assert float(together) > 0.95
    assert grown.dims.n_audio_state == 384


def test_copies_part() -> None:
    """What reads two copies reads them in different parts, so that what they learn differs from the first update on."""
    grown = grow(small_network(), small_shape(32, 4, 1), 0)
    layer = grown.decoder.layers[0]
    assert torch.equal(layer.fc1.bias[:64], layer.fc1.bias[64:])
    logits_before = grown(torch.zeros(1, 80, 8), torch.tensor([[1, 2, 3]]))
    logits_before.square().mean().backward()
    gradient = layer.fc1.weight.grad
    assert not torch.allclose(gradient[:64], gradient[64:], rtol=1e-2)


def test_added_layers_come_first_and_are_silent() -> None:
    source = small_network()
    dims = small_shape(16, 2, 3)
    grown = grow(source, dims, 0)
    assert Widening(source.dims, dims).layers("decoder") == (1, 2)
    assert not grown.decoder.layers[1].fc2.weight.any()
    assert torch.equal(grown.decoder.layers[2].fc2.weight, source.decoder.layers[0].fc2.weight)


def test_the_seed_decides() -> None:
    first, same, other = (grow(small_network(), small_shape(32, 4, 1), seed).state_dict() for seed in (1, 1, 2))
    name = "decoder.layers.0.fc2.weight"
    assert torch.equal(first[name], same[name])
    assert not torch.equal(first[name], other[name])


def test_what_does_not_grow() -> None:
    with pytest.raises(OptionError, match="nowhere smaller"):
        grow(small_network(), small_shape(8, 1, 1), 0)
    with pytest.raises(OptionError, match="size of heads"):
        grow(small_network(), small_shape(32, 2, 1), 0)
