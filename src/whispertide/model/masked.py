"""The encoder under a mask of blocks (`checkpoint.mask`): each block is encoded alone, with the positions it has.

A block that was encoded before is not encoded again: its cross-attention keys and values are in the state, with the
log-mel that they were made from, and count as long as that is the same. So a state that is lost, or another window's,
costs time and changes nothing. Padding is silence, as in a window without a mask (`features.padded`): as far below the
loudest cell as the floor. So under a diagonal mask a block of padding is the same in every window of a checkpoint that
is as loud: it is encoded once (silence cache). Under a causal one it depends on what was said before it.
(WhisperKit, 2.1.1; ALGORITHMS F.)
"""

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from whispertide.checkpoint import ModelDims
from whispertide.checkpoint.mask import Mask
from whispertide.errors import GraphError
from whispertide.features import padded
from whispertide.graphs.contract import masked_value
from whispertide.model.engine import LAST_LAYER, Encoded, EncoderState, Piece, check_taps
from whispertide.model.runtime import GraphSession, in_runtime, run_encoder
from whispertide.types import FloatArray

_EDGE = ((0, 0), (2, 1))  # columns of zeros that the convolutions hear on either side of a block

Silence = MutableMapping[tuple[Mask, int], "Block"]


# Not compared by value: an array has no single truth value, and `_known` asks for the very same object.
@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """An encoded block.

    mel      [n_mels, 2 * block] what it was made from
    cross_k  per decoder layer [1, heads, 64, block]
    cross_v  per decoder layer [1, heads, block, 64]
    hidden   [block, width], the last layer's output
    past     what later blocks hear of it under a causal mask: keys [1, heads, 64, block] and values by name
    """

    mel: FloatArray
    cross_k: tuple[FloatArray, ...]
    cross_v: tuple[FloatArray, ...]
    hidden: FloatArray
    past: dict[str, FloatArray] = field(default_factory=dict)

    def made_from(self, mel: FloatArray) -> bool:
        """True if it is the encoding of that log-mel."""
        return np.array_equal(self.mel, mel)


def start(mask: Mask) -> EncoderState:
    """The state for an engine that should encode windows under a mask, where nothing is kept yet."""
    return EncoderState({"mask": mask, "blocks": ()}, 0)


def is_masked(state: EncoderState | None) -> bool:
    """True if windows are to be encoded under a mask."""
    return state is not None and "mask" in state.tensors


def encode_window(
    graph: Callable[[Mask], GraphSession],
    mel: FloatArray,
    state: EncoderState,
    dims: ModelDims,
    precision: str,
    silence: Silence,
    taps: Sequence[int] = (),
) -> Encoded:
    """Encode a window [n_mels, even, up to 30 s], padded with silence to all positions, after what left `state`.

    `graph` gives the encoder for a mask: `encoder` for a diagonal one, `encoder-incremental` for a causal one.
    `silence` holds the last blocks of padding of this model, which count as long as the silence is the same. Raises
    `GraphError` for other shapes.
    """
    mask: Mask = state.tensors["mask"]
    check_taps(taps, ())
    window = 2 * dims.n_audio_ctx
    if mel.ndim != 2 or mel.shape[0] != dims.n_mels or not 0 < mel.shape[1] <= window or window % mask.columns:
        raise GraphError(
            f"expected log-mel of shape [{dims.n_mels}, 1 to {window}] and a mask whose blocks fill {window} columns; "
            f"got {mel.shape} and {mask}"
        )
    encoder = _Encoder(graph(mask), mask, dims, precision)
    parts = np.split(padded(mel, window), window // mask.columns, axis=1)
    kept: tuple[Block, ...] = state.tensors["blocks"]
    blocks: list[Block] = []
    fresh: list[Piece] = []
    for number, part in enumerate(parts):
        silent = not mask.causal and number * mask.columns >= mel.shape[1]
        block = _known(mask, part, number, blocks, kept)
        if block is None and silent:
            block = _as_silent(part, silence.get((mask, number)))
        if block is None:
            block = encoder.encode(part, number, blocks)
            fresh.append((mask.block, number * mask.block if mask.causal else None))
        if silent:
            silence[mask, number] = block
        blocks.append(block)
    after = EncoderState({"mask": mask, "blocks": tuple(blocks)}, dims.n_audio_ctx)
    return replace(_joined(blocks, dims, taps), state=after, fresh=tuple(fresh))


def _known(mask: Mask, mel: FloatArray, number: int, before: Sequence[Block], kept: Sequence[Block]) -> Block | None:
    """The kept block of this number, if it was made from the same; under a causal mask, after the same."""
    if number >= len(kept) or not kept[number].made_from(mel):
        return None
    # Identity will do: a block that was not encoded anew is the very object that was kept.
    same = all(ours is theirs for ours, theirs in zip(before, kept, strict=False))
    return kept[number] if same or not mask.causal else None


def _as_silent(mel: FloatArray, known: Block | None) -> Block | None:
    """The block of padding of another window, if that was as loud."""
    return known if known is not None and known.made_from(mel) else None


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Encodes one block."""

    graph: GraphSession
    mask: Mask
    dims: ModelDims
    precision: str

    def encode(self, mel: FloatArray, number: int, before: Sequence[Block]) -> Block:
        """Block `number` of a window, after those `before` it, which only a causal mask hears."""
        frames, first = self.mask.block, number * self.mask.block
        inputs: dict[str, Any] = {"positions": np.arange(first, first + frames)}
        if not self.mask.causal:
            inputs["mel"] = np.ascontiguousarray(mel[None])
            found = run_encoder(self.graph, inputs, self.dims, frames=frames, valid_frames=frames, taps=(LAST_LAYER,))
            keys, values = ([each.numpy() for each in side] for side in (found.cross_k, found.cross_v))
            # A copy, because `mel` is a view that would keep the whole padded window alive.
            return Block(mel.copy(), tuple(keys), tuple(values), found.taps[LAST_LAYER])
        past = self._past(before)
        inputs |= {f"past_{name}": tensor for name, tensor in past.items()} | self._alone(mel)
        inputs["attention_bias"] = np.zeros((1, 1, frames, first + 1 + frames), np.float32)
        inputs["attention_bias"][..., 0] = masked_value(self.precision)
        layers = range(self.dims.n_text_layer)
        names = [f"new_{name}" for name in past]
        names += [f"cross_k.{layer}" for layer in layers] + [f"cross_v.{layer}" for layer in layers] + ["hidden"]
        values = [value.numpy() for value in self.graph.run(names, inputs)]
        new, cross, count = values[: len(past)], values[len(past) : -1], len(layers)
        kept = dict(zip(past, new, strict=True))
        return Block(mel.copy(), tuple(cross[:count]), tuple(cross[count:]), values[-1][0], kept)

    def _past(self, before: Sequence[Block]) -> dict[str, FloatArray]:
        """Keys and values of earlier blocks, after a frame that nobody hears: so that there is always one."""
        heads, size = self.dims.n_audio_head, self.dims.n_audio_state // self.dims.n_audio_head
        nobody = {"k": np.zeros((1, heads, size, 1), np.float32), "v": np.zeros((1, heads, 1, size), np.float32)}
        return {
            name: np.concatenate([nobody[side], *(block.past[name] for block in before)], axis=axis)
            for side, axis in (("k", 3), ("v", 2))
            for name in (f"{side}.{layer}" for layer in range(self.dims.n_audio_layer))
        }

    def _alone(self, mel: FloatArray) -> dict[str, FloatArray]:
        """A block between zeros, for the graph that would hear what is next to it in the convolutions."""
        kept = np.ones((1, 1, mel.shape[1] + 1), np.float32)
        kept[..., 0] = 0
        return {"mel": np.pad(mel, _EDGE)[None], "kept": kept}


def _joined(blocks: Sequence[Block], dims: ModelDims, taps: Sequence[int]) -> Encoded:
    """All blocks as one window; the decoder attends to the padding too, as Whisper's does."""
    keys = tuple(np.concatenate(each, axis=3) for each in zip(*(block.cross_k for block in blocks), strict=True))
    values = tuple(np.concatenate(each, axis=2) for each in zip(*(block.cross_v for block in blocks), strict=True))
    hidden = np.concatenate([block.hidden for block in blocks]) if taps else None
    frames = dims.n_audio_ctx
    return in_runtime(Encoded(keys, values, frames, frames, {} if hidden is None else dict.fromkeys(taps, hidden)))
