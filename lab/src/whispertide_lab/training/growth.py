"""Growth: a trained network in a larger shape says nearly the same at once, and has room to learn more.

Channels, heads and inner channels of the feed-forward layers are repeated in part, and what reads a repeated one shares
its weights among the copies, in random parts, so that the copies learn different things. Further layers come first and
add nothing at the start. Only the layer norms differ, whose mean and deviation are now taken over more channels: unlike
with `widen` the shapes need not be multiples of each other, and what comes out is to be trained. Source: Net2Net (Chen
et al., 2016), sections 2.2 and 2.3.

Needs torch. Knows nothing of files or optimisation.
"""

import torch
from torch import Tensor

from whispertide.checkpoint import ModelDims
from whispertide.errors import OptionError
from whispertide_lab.training.network import Whisper
from whispertide_lab.training.widen import Widening, channel_axes, reading_axis

LEAST_PART = 0.25  # of a weight that is shared between copies


def grow(source: Whisper, dims: ModelDims, seed: int) -> Whisper:
    """A network of the shape `dims` that begins with what `source` has learned.

    Raises `OptionError` where `dims` is smaller anywhere, or has other sizes of heads, features or vocabulary.
    """
    _check(source.dims, dims)
    growth, random = Widening(source.dims, dims), torch.Generator().manual_seed(seed)
    network = Whisper(dims)
    state = source.state_dict()
    network.load_state_dict({name: _grown(name, state, growth, random) for name in network.state_dict()})
    return network


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


def _grown(name: str, state: dict[str, Tensor], growth: Widening, random: torch.Generator) -> Tensor:
    """The tensor `name` of the larger network."""
    donor, silent = growth.donor(name)
    values = state[donor]
    narrow, wide = growth.source.n_audio_state, growth.target.n_audio_state
    reading = reading_axis(name, values.dim())
    for axis in channel_axes(name, values.dim()):
        size = values.shape[axis]
        copied = torch.arange(size * wide // narrow) % size  # first all of them, then the first ones again
        values = values.index_select(axis, copied)
        if axis == reading:
            values = values * _parts(copied, values.transpose(axis, -1).shape, random).transpose(axis, -1)
    return torch.zeros_like(values) if silent else values


def _parts(copied: Tensor, shape: torch.Size, random: torch.Generator) -> Tensor:
    """Of `shape`: random parts that add up to one over the copies, along the last axis, of the same."""
    drawn = LEAST_PART + (1 - 2 * LEAST_PART) * torch.rand(shape, generator=random)
    sums = torch.zeros(*shape[:-1], int(copied.max()) + 1).index_add_(-1, copied, drawn)
    return drawn / sums.index_select(-1, copied)
