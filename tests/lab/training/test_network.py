"""The network that is trained is Whisper: parity with `transformers`, and what must break it does break it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from random_models import MINI, TRUE_WIDTHS, random_whisper
from reference import NANO, hf_model
from small_training import small_dims
from whispertide.checkpoint import Checkpoint, TensorStore, load_checkpoint
from whispertide.errors import CheckpointError
from whispertide_lab.training.network import (
    Whisper,
    attend,
    attend_fused,
    load_network,
    new_network,
    save_tensors,
    tensors_of,
)

pytestmark = pytest.mark.slow

TOLERANCE = 1e-5


def relative_error(found: Any, expected: Any) -> float:
    assert found.shape == expected.shape
    return float((found - expected).abs().max() / expected.abs().max())


def question() -> tuple[Any, Any]:
    """A window of noise and a row of tokens."""
    dice = torch.Generator().manual_seed(3)
    return torch.randn(1, 80, 3000, generator=dice) * 0.5, torch.randint(0, 51864, (1, 12), generator=dice)


@pytest.fixture(scope="module", params=[MINI, TRUE_WIDTHS["tiny.en"]], ids=["mini", "tiny.en"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Any]:
    """A checkpoint with random weights and the `transformers` module with the same."""
    folder = tmp_path_factory.mktemp("random") / "hf"
    return random_whisper(folder, request.param), hf_model(folder)


@pytest.fixture(scope="module")
def expected(pair: tuple[Checkpoint, Any]) -> tuple[Any, Any]:
    """Hidden states of the encoder and logits, by `transformers`."""
    mel, tokens = question()
    with torch.no_grad():
        out = pair[1](input_features=mel, decoder_input_ids=tokens)
    return out.encoder_last_hidden_state, out.logits


def ours(network: Whisper) -> tuple[Any, Any]:
    mel, tokens = question()
    with torch.no_grad():
        return network.encoder(mel), network(mel, tokens)


def test_parity_with_transformers(pair: tuple[Checkpoint, Any], expected: tuple[Any, Any]) -> None:
    hidden, logits = ours(load_network(pair[0]))
    assert relative_error(hidden, expected[0]) <= TOLERANCE
    assert relative_error(logits, expected[1]) <= TOLERANCE


def shift_positions(network: Whisper) -> None:
    weight = network.decoder.embed_positions.weight
    weight.data = weight.data.roll(1, 0)


def swap_heads(network: Whisper) -> None:
    """The queries of two heads change places in one cross-attention."""
    query = network.decoder.layers[-1].encoder_attn.q_proj
    order = list(range(query.weight.shape[0]))
    order[:64], order[64:128] = order[64:128], order[:64]
    query.weight.data, query.bias.data = query.weight.data[order], query.bias.data[order]


def relu_instead(network: Whisper) -> None:
    for layer in network.encoder.layers:
        layer.feed_forward = partial(_feed_forward, layer)


def _feed_forward(layer: Any, x: Any) -> Any:
    return x + layer.fc2(torch.relu(layer.fc1(layer.final_layer_norm(x))))


def forget_final_norm(network: Whisper) -> None:
    network.decoder.layer_norm = torch.nn.Identity()


@pytest.mark.parametrize("harm", [shift_positions, swap_heads, relu_instead, forget_final_norm])
@pytest.mark.parametrize("pair", [MINI], indirect=True, ids=["mini"])
def test_parity_notices(
    pair: tuple[Checkpoint, Any], expected: tuple[Any, Any], harm: Callable[[Whisper], None]
) -> None:
    network = load_network(pair[0])
    harm(network)
    assert relative_error(ours(network)[1], expected[1]) > 10 * TOLERANCE


@pytest.mark.parametrize("kind", ["none", "bias", "causal"])
def test_fused_attention_is_the_same(kind: str) -> None:
    """What runs on a GPU, here on the CPU; in bfloat16 too, where the bias must follow the queries' type."""
    query, key, value = torch.randn(3, 2, 4, 9, 8, generator=torch.Generator().manual_seed(0))
    bias = torch.randn(1, 4, 9, 9, generator=torch.Generator().manual_seed(1)) if kind == "bias" else None
    heard, weights = attend(query, key, value, bias, causal=kind == "causal")
    assert relative_error(attend_fused(query, key, value, bias, causal=kind == "causal"), heard) < 1e-5
    assert torch.allclose(weights.sum(-1), torch.ones(2, 4, 9))
    short = attend_fused(query.bfloat16(), key.bfloat16(), value.bfloat16(), bias, causal=kind == "causal")
    assert relative_error(short.float(), heard) < 0.05


def test_what_is_loaded_can_be_trained_but_for_the_sinusoids() -> None:
    network = load_network(load_checkpoint("nano.en"))
    frozen = [name for name, parameter in network.named_parameters() if not parameter.requires_grad]
    assert frozen == ["encoder.embed_positions.weight"]
    assert not any(parameter.is_meta for parameter in network.parameters())


def test_watched_heads_are_those_asked_for() -> None:
    """The weights come out in the order of (layer, head), and are the cross-attention of `transformers`."""
    network = load_network(load_checkpoint("nano.en"))
    theirs = hf_model(NANO)
    theirs.set_attn_implementation("eager")
    mel, tokens = question()
    with torch.no_grad():
        _, seen = network.decoder(tokens, network.encoder(mel), [(3, 2), (1, 0), (3, 1)])
        out = theirs(input_features=mel, decoder_input_ids=tokens, output_attentions=True)
    assert [tuple(weights.shape) for weights in seen] == [(1, 1, 12, 1500), (1, 2, 12, 1500)]
    assert torch.allclose(seen[0][0, 0], out.cross_attentions[1][0, 0], atol=1e-5)
    assert torch.allclose(seen[1][0, 0], out.cross_attentions[3][0, 2], atol=1e-5)
    assert torch.allclose(seen[1][0, 1], out.cross_attentions[3][0, 1], atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_saved_tensors_come_back(tmp_path: Path, dtype: type[np.float16 | np.float32]) -> None:
    network = new_network(small_dims(), 1)
    save_tensors(network, tmp_path / "model.safetensors", dtype)
    store = TensorStore.from_folder(tmp_path)
    store.check(network.dims)
    for name, values in tensors_of(network).items():
        assert store.get(name).dtype == dtype
        assert np.array_equal(store.get(name), values.astype(dtype))


def test_what_is_no_number_is_not_saved(tmp_path: Path) -> None:
    network = new_network(small_dims(), 1)
    network.decoder.layer_norm.bias.data[0] = 1e6
    with pytest.raises(CheckpointError, match=r"decoder\.layer_norm\.bias"):
        save_tensors(network, tmp_path / "model.safetensors", np.float16)
    assert not list(tmp_path.iterdir())


def test_new_networks_differ_by_their_seed_alone() -> None:
    dims = load_checkpoint("nano.en").dims
    first, again, other = (tensors_of(new_network(dims, seed)) for seed in (1, 1, 2))
    name = "encoder.layers.0.fc1.weight"
    assert np.array_equal(first[name], again[name])
    assert not np.array_equal(first[name], other[name])
    assert 0.019 < first[name].std() < 0.021
    positions = load_checkpoint("nano.en").tensors.get("encoder.embed_positions.weight")
    assert np.allclose(first["encoder.embed_positions.weight"], positions, atol=1e-3)  # Whisper's sinusoids, fp16
