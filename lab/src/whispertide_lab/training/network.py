"""Whisper as a torch module that can be trained: the published architecture, with what training needs next to it.

Names of parameters are those of the Hugging Face layout without the leading "model.", so that a checkpoint is its
`state_dict`. Two things are there that inference never asks for: a bias on the encoder's self-attention (who
hears whom) and the weights of chosen cross-attention heads. Source: openai/whisper,
whisper/model.py; parity with `transformers` is tested.

Needs torch. Knows nothing of text, files of audio or optimisation.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from whispertide.checkpoint import Checkpoint, ModelDims
from whispertide.checkpoint.layout import expected_shapes
from whispertide.errors import CheckpointError
from whispertide.types import FloatArray
from whispertide_lab.training.widen import Weights, write_safetensors


class Attention(nn.Module):  # type: ignore[misc]
    """Multi-head attention with Whisper's biases: none on the keys."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def _split(self, values: Tensor) -> Tensor:
        return values.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        bias: Tensor | None = None,
        watched: Sequence[int] = (),
        causal: bool = False,
        rows: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """`x` [batch, n, width] reads `source` [batch, m, width]; `bias` is added to the scores (broadcast to
        [batch, heads, n, m]). Returns [batch, n, width] and the weights of the `watched` heads [batch, heads, n, m].

        With `rows` [batch] there may be another number of sources, and these are the ones that are read.
        """
        query = self._split(self.q_proj(x))
        key, value = self._split(self.k_proj(source)), self._split(self.v_proj(source))
        if rows is not None:
            key, value = key[rows], value[rows]
        weights = None
        if (x.is_cuda or not torch.is_grad_enabled()) and not watched:
            heard = attend_fused(query, key, value, bias, causal=causal)
        else:  # on a CPU the backward pass of the fused kernel is several times slower
            heard, weights = attend(query, key, value, bias, causal=causal)
        seen = weights[:, list(watched)].float() if watched and weights is not None else None
        return self.out_proj(heard.transpose(1, 2).flatten(2)), seen


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *, causal: bool) -> tuple[Tensor, Tensor]:
    """What the heads hear [batch, heads, n, size] and their weights [batch, heads, n, m], step by step."""
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if causal:
        future = torch.full(scores.shape[-2:], float("-inf"), dtype=scores.dtype, device=scores.device)
        scores = scores + future.triu(1)
    weights = scores.softmax(-1, dtype=scores.dtype)
    return weights @ value, weights


def attend_fused(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *, causal: bool) -> Tensor:
    """The same by one kernel, which does not tell its weights; `bias` and `causal` exclude each other."""
    mask = None if bias is None else bias.to(query.dtype)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)


class Block(nn.Module):  # type: ignore[misc]
    """A layer: self-attention, cross-attention in the decoder, feed-forward; the norm comes first in each."""

    def __init__(self, width: int, heads: int, *, cross: bool) -> None:
        super().__init__()
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        if cross:
            self.encoder_attn = Attention(width, heads)
            self.encoder_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def feed_forward(self, x: Tensor) -> Tensor:
        """[batch, n, width], the residual included."""
        return x + self.fc2(functional.gelu(self.fc1(self.final_layer_norm(x))))


class Encoder(nn.Module):  # type: ignore[misc]
    """Log-mel frames to hidden states, at half the rate."""

    def __init__(self, dims: ModelDims) -> None:
        super().__init__()
        width = dims.n_audio_state
        self.conv1 = nn.Conv1d(dims.n_mels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(dims.n_audio_ctx, width)
        self.embed_positions.weight.data = sinusoids(dims.n_audio_ctx, width)
        self.embed_positions.weight.requires_grad = False
        self.layers = nn.ModuleList(Block(width, dims.n_audio_head, cross=False) for _ in range(dims.n_audio_layer))
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, mel: Tensor, bias: Tensor | None = None) -> Tensor:
        """[batch, mels, frames] -> [batch, frames // 2, width]; `bias` as for `Attention`."""
        (x,) = deque(self.layer_outputs(mel, bias), maxlen=1)
        return self.layer_norm(x)

    def layer_outputs(
        self, mel: Tensor, bias: Tensor | None = None, positions: Tensor | None = None
    ) -> Iterator[Tensor]:
        """What each layer in turn gives out, the last one's norm not yet applied. `positions` int64 [frames // 2] are
        those of the frames, 0, 1, 2, .. by default.
        """
        x = self.stem(mel)
        at = slice(x.shape[1]) if positions is None else positions
        yield from self.layers_over(x + self.embed_positions.weight[at], bias)

    def stem(self, mel: Tensor) -> Tensor:
        """The two convolutions: [batch, mels, frames] -> [batch, frames // 2, width]."""
        x = functional.gelu(self.conv1(mel))
        return functional.gelu(self.conv2(x)).transpose(1, 2)

    def layers_over(self, x: Tensor, bias: Tensor | None = None) -> Iterator[Tensor]:
        """What each layer in turn makes of the convolutions' output with its positions."""
        for layer in self.layers:
            normed = layer.self_attn_layer_norm(x)
            x = layer.feed_forward(x + layer.self_attn(normed, normed, bias)[0])
            yield x


class Decoder(nn.Module):  # type: ignore[misc]
    """Tokens and the encoder's hidden states to the hidden state after each token."""

    def __init__(self, dims: ModelDims) -> None:
        super().__init__()
        width = dims.n_text_state
        self.embed_tokens = nn.Embedding(dims.n_vocab, width)
        self.embed_positions = nn.Embedding(dims.n_text_ctx, width)
        self.layers = nn.ModuleList(Block(width, dims.n_text_head, cross=True) for _ in range(dims.n_text_layer))
        self.layer_norm = nn.LayerNorm(width)

    def forward(
        self,
        tokens: Tensor,
        encoded: Tensor,
        watched: Sequence[tuple[int, int]] = (),
        bias: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """`tokens` int64 [batch, n] (rows of `embed_tokens`) -> [batch, n, width], and per layer with `watched`
        (layer, head) pairs their cross-attention [batch, heads, n, frames]. `bias` is added to cross-attention.

        With `rows` [batch] several texts may share what was encoded: these rows of it are theirs.
        """
        x = self.embed_tokens(tokens) + self.embed_positions.weight[: tokens.shape[1]]
        seen = []
        for number, layer in enumerate(self.layers):
            normed = layer.self_attn_layer_norm(x)
            x = x + layer.self_attn(normed, normed, causal=True)[0]
            heads = [head for where, head in watched if where == number]
            heard, weights = layer.encoder_attn(layer.encoder_attn_layer_norm(x), encoded, bias, heads, rows=rows)
            if weights is not None:
                seen.append(weights)
            x = layer.feed_forward(x + heard)
        return self.layer_norm(x), seen


class Whisper(nn.Module):  # type: ignore[misc]
    """Encoder and decoder; the output layer is the token embedding."""

    def __init__(self, dims: ModelDims) -> None:
        super().__init__()
        self.dims = dims
        self.encoder = Encoder(dims)
        self.decoder = Decoder(dims)

    def forward(self, mel: Tensor, tokens: Tensor) -> Tensor:
        """Logits [batch, n, vocabulary] of `tokens` [batch, n] over `mel` [batch, mels, frames]."""
        hidden, _ = self.decoder(tokens, self.encoder(mel))
        return functional.linear(hidden, self.decoder.embed_tokens.weight)


def sinusoids(length: int, width: int) -> Tensor:
    """Whisper's fixed positions [length, width] (openai/whisper, `sinusoids`)."""
    # One less than there are: the slowest sinusoid is to have the full 10,000 (as the original has it).
    steps = math.log(10_000) / (width // 2 - 1)
    angles = torch.arange(length)[:, None] * torch.exp(-steps * torch.arange(width // 2))
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def new_network(dims: ModelDims, seed: int) -> Whisper:
    """A network to be trained from scratch: normal weights of deviation 0.02, projections into the stream smaller.

    As GPT-2 does (Radford et al. 2019, section 2.3), by the number of layers that add to the stream.
    """
    torch.manual_seed(seed)
    network = Whisper(dims)
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:
            continue
        # Convolutions keep torch's own start; norms are ones and zeros already.
        if parameter.dim() > 1 and "conv" not in name:
            into_stream = name.endswith(("out_proj.weight", "fc2.weight"))
            layers = dims.n_audio_layer if name.startswith("encoder") else dims.n_text_layer
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if into_stream else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return network


def load_network(checkpoint: Checkpoint) -> Whisper:
    """The weights of a checkpoint in a network, as float32.

    Raises `CheckpointError` for a checkpoint whose feed-forward layers are not four times as wide as its stream: every
    published Whisper's are.
    """
    for name, shape in expected_shapes(checkpoint.dims).items():
        found = checkpoint.tensors.shape(name)
        if found != shape:
            raise CheckpointError(
                f"expected {name} of shape {shape} in {checkpoint.name}; got {found}: no such training"
            )
    with torch.device("meta"):  # no weights are drawn that would be overwritten
        network = Whisper(checkpoint.dims)
    read = ((name, np.array(checkpoint.tensors.get(name), np.float32)) for name in network.state_dict())
    network.load_state_dict({name: torch.from_numpy(values) for name, values in read}, assign=True)
    return network


def tensors_of(network: Whisper) -> dict[str, FloatArray]:
    """Canonical name -> float32 array of every tensor of a checkpoint."""
    state = network.state_dict()
    return {name: state[name].detach().float().cpu().numpy() for name in expected_shapes(network.dims)}


def save_tensors(network: Whisper, path: Path, dtype: type[np.float16 | np.float32] = np.float16) -> None:
    """Write model.safetensors in Hugging Face layout. Raises OSError.

    Raises `CheckpointError` where a weight is not finite, or is too large for float16: then nothing is written.
    """
    tensors = {f"model.{name}": _converted(name, values, dtype) for name, values in tensors_of(network).items()}
    write_safetensors(path, {name: values.shape for name, values in tensors.items()}, dtype, tensors.items())


def _converted(name: str, values: FloatArray, dtype: type[np.float16 | np.float32]) -> Weights:
    with np.errstate(over="ignore"):
        converted = values.astype(dtype)
    if not np.isfinite(converted).all():
        raise CheckpointError(
            f"expected weights that are numbers of {np.dtype(dtype).name}; {name} has others: the training diverged"
        )
    return converted
