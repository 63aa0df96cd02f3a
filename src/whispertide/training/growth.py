"""Growth: a trained network in a larger shape says nearly the same at once, and has room to learn more.

Channels, heads and inner channels of the feed-forward layers are repeated in part, and what reads a repeated one shares
its weights among the copies, in random parts, so that the copies learn different things. Further layers come first and
add nothing at the start. Only the layer norms differ, whose mean and deviation are now taken over more channels: unlike
with `widen` the shapes need not be multiples of each other, and what comes out is to be trained. Source: Net2Net (Chen
et al., 2016), sections 2.2 and 2.3.

Needs torch. Knows nothing of files or optimisation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from whispertide.checkpoint import ModelDims
from whispertide.errors import OptionError
from whispertide.training.network import Whisper

LEAST_PART = 0.25  # of a weight that is shared between copies


def grow(source: Whisper, dims: ModelDims, seed: int) -> Whisper:
    """A network of the shape `dims` that begins with what `source` has learned.

    Raises `OptionError` where `dims` is smaller anywhere, or has other sizes of heads, features or vocabulary.
    """
    _check(source.dims, dims)
    growth = _Growth(source.dims, dims, torch.Generator().manual_seed(seed))
    network = Whisper(dims)
    state = source.state_dict()
    network.load_state_dict({name: growth.grown(name, state) for name in network.state_dict()})
    return network


def added_layers(source: ModelDims, dims: ModelDims) -> int:
    """How many layers a decoder of `dims` has before the first of the source's."""
    return dims.n_text_layer - source.n_text_layer


def _check(source: ModelDims, dims: ModelDims) -> None:
    def sizes(of: ModelDims) -> tuple[int, ...]:
        return of.n_audio_state, of.n_audio_head, of.n_audio_layer, of.n_text_state, of.n_text_head, of.n_text_layer

    def fixed(of: ModelDims) -> tuple[int, ...]:
        head = of.n_audio_state // of.n_audio_head
        return head, of.n_mels, of.n_vocab, of.n_audio_ctx, of.n_text_ctx

    if fixed(source) != fixed(dims):
        raise OptionError(
            "expected a shape with the checkpoint's size of heads, mel bands, vocabulary and lengths, "
            f"{fixed(source)}; got {fixed(dims)}"
        )
    if any(wide < narrow for narrow, wide in zip(sizes(source), sizes(dims), strict=True)):
        raise OptionError(
            "expected a shape that is nowhere smaller than the checkpoint's (width, heads and layers of encoder and "
            f"decoder: {sizes(source)}); got {sizes(dims)}"
        )


@dataclass(frozen=True, slots=True)
class _Growth:
    source: ModelDims
    dims: ModelDims
    random: torch.Generator

    def grown(self, name: str, state: dict[str, Tensor]) -> Tensor:
        """The tensor `name` of the larger network."""
        donor, silent = self._donor(name)
        values = state[donor]
        kinds = list(_axes(name, values.dim()))
        for axis, kind in enumerate(kinds):
            if kind:
                values = values.index_select(axis, self._map(kind))
        reads = kinds[1] if len(kinds) > 1 and ".embed_" not in name else ""
        if name.startswith("decoder.layer_norm."):  # what reads that norm is the embedding, which is tied
            reads = "channels"
            values = values * self._parts(self._map(reads), values.shape)
        elif reads:
            shares = self._parts(self._map(reads), values.transpose(1, -1).shape).transpose(1, -1)
            values = values * shares
        return torch.zeros_like(values) if silent else values

    def _donor(self, name: str) -> tuple[str, bool]:
        """The tensor of the source that this one is made of, and whether it is to be all zero."""
        part, _, rest = name.partition(".layers.")
        if not rest:
            return name, False
        index, _, stem = rest.partition(".")
        before, after = (
            (self.source.n_audio_layer, self.dims.n_audio_layer)
            if part == "encoder"
            else (self.source.n_text_layer, self.dims.n_text_layer)
        )
        added = after - before
        silent = int(index) < added and (".out_proj." in stem or stem.startswith("fc2."))
        return f"{part}.layers.{(int(index) - added) % before}.{stem}", silent

    def _map(self, kind: str) -> Tensor:
        """Which of the source's each of the larger network's is a copy of: first all of them, then the first again."""
        narrow, wide = self.source.n_audio_state, self.dims.n_audio_state
        factor = 4 if kind == "inner" else 1
        return torch.arange(factor * wide) % (factor * narrow)

    def _parts(self, mapped: Tensor, shape: torch.Size) -> Tensor:
        """Of `shape`, whose last axis is mapped: parts that add up to one over the copies of the same."""
        drawn = LEAST_PART + (1 - 2 * LEAST_PART) * torch.rand(shape, generator=self.random)
        sums = torch.zeros(*shape[:-1], int(mapped.max()) + 1).index_add_(-1, mapped, drawn)
        return drawn / sums.index_select(-1, mapped)


def _axes(name: str, count: int) -> Iterator[str]:
    """What each axis of a tensor counts: "channels" of the stream or of heads, "inner" ones, "" what does not grow."""
    for axis in range(count):
        if ".embed_" in name:
            yield "channels" if axis == 1 else ""
        elif "conv" in name:
            yield "channels" if axis == 0 or (axis == 1 and "conv2" in name) else ""
        elif (".fc1." in name and axis == 0) or (".fc2." in name and axis == 1):
            yield "inner"
        else:
            yield "channels"
