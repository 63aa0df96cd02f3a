"""The encoder of a stream, piece by piece: each frame is encoded once, and what it leaves is kept (`EncoderState`).

Only a checkpoint that was trained to hear no later audio makes sense of it (WhisperRT, docs/internals/causal.md); the
engine does not ask.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whispertide.checkpoint import ModelDims
from whispertide.errors import GraphError
from whispertide.graphs.contract import masked_value
from whispertide.model.engine import Encoded, EncoderState, check_taps
from whispertide.model.runtime import GraphSession, in_runtime
from whispertide.types import FloatArray

ROOM = 128  # frames: so much is added when it is full, for what is unused is computed with all the same
_EDGE = 3  # columns that a piece has in common with the one before it

START = EncoderState({}, 0)  # of a stream that has no audio yet


@dataclass(slots=True)
class Growing:
    """A tensor that grows along one axis, in `room` that was there before; `used` is how much of it holds something.

    What was appended never changes, so any number of states may share the room: each knows how much of it is its own.
    Where two of them go on differently, the second gets room of its own.
    """

    room: FloatArray
    axis: int
    used: int = 0

    def appended(self, at: int, new: FloatArray, most: int) -> "Growing":
        """The same up to `at`, then `new`; never longer than `most`."""
        end, length, held = at + new.shape[self.axis], self.room.shape[self.axis], self
        # Another state has gone on from here already, or the room is full.
        if at != self.used or end > length:
            # There is an end to it: `_new_frames` has refused what `most` cannot hold.
            while length < end:
                length = min(length + ROOM, most)
            shape = list(self.room.shape)
            shape[self.axis] = length
            held = Growing(np.zeros(shape, np.float32), self.axis)
            held.part(0, at)[...] = self.part(0, at)
        # Written in place: nobody else reads beyond what it knows to be its own.
        held.part(at, end)[...] = new
        held.used = end
        return held

    def part(self, start: int, end: int) -> FloatArray:
        """A view of it."""
        return self.room[(slice(None),) * self.axis + (slice(start, end),)]


def encode_piece(
    graph: GraphSession,
    mel: FloatArray,
    state: EncoderState,
    dims: ModelDims,
    precision: str,
    *,
    taps: Sequence[int] = (),
    attention: FloatArray | None = None,
) -> Encoded:
    """Encode what comes after `state`: all frames of the stream are in the result, with its new state.

    mel        [n_mels, 2 * frames] the columns after those of the pieces before. The first piece has one more, because
               a frame hears 12.5 ms of what comes after it
    attention  [frames, frames] bias among the new frames, where they are several blocks; None: they are one
    Raises `GraphError` for another shape, and where the stream gets longer than the encoder has positions.
    """
    check_taps(taps, ())
    first, frames = state.frames, _new_frames(mel, state, dims)
    # What the convolutions hear in front of the piece; in front of a stream there are zeros.
    columns = np.concatenate([state.tensors.get("mel", np.zeros((dims.n_mels, 2), np.float32)), mel], axis=1)
    kept = np.ones((1, 1, 2 * frames + 1), np.float32)
    # Before the stream there is no audio, but of zeros, too, the first convolution makes something (its bias). At the
    # edge of a window the second one is padded with true zeros, and so it is here.
    kept[..., : not first] = 0
    nothing = _nothing(dims)
    held = state.tensors if first else nothing
    if not nothing.keys() <= held.keys():
        raise GraphError(f"expected no encoder state but one of this engine; got one of {first} frames from elsewhere")
    past = {name: tensor.room for name, tensor in held.items() if name.startswith("past_")}
    inputs = {
        "mel": np.ascontiguousarray(columns[None]),
        "kept": kept,
        "positions": np.arange(first, first + frames),
        "attention_bias": _bias(first, past["past_k.0"].shape[3], frames, attention, masked_value(precision)),
        **past,
    }
    names = [name.replace("past", "new") for name in nothing] + ["hidden"]
    *new, hidden = (value.numpy() for value in graph.run(names, inputs))
    grown: dict[str, Any] = {
        # Never longer than there are positions, for room is computed with like audio.
        name: held[name].appended(first, values, dims.n_audio_ctx)
        for name, values in zip(nothing, new, strict=True)
    }
    after = EncoderState({"mel": columns[:, -_EDGE:], **grown}, first + frames)
    return _encoded(after, dims, dict.fromkeys(taps, hidden[0]))


def block_bias(ends: Sequence[int], masked: float) -> FloatArray:
    """[frames, frames]: a frame hears all before the end of its own block; `ends` are the ends of all blocks."""
    # For each frame, where its block ends.
    own = np.repeat(ends, np.diff([0, *ends]))
    return np.where(np.arange(ends[-1]) < own[:, None], np.float32(0), np.float32(masked))


def _new_frames(mel: FloatArray, state: EncoderState, dims: ModelDims) -> int:
    """The number of frames in a piece."""
    ahead = not state.frames
    columns = mel.shape[1] - ahead if mel.ndim == 2 else -1
    if mel.ndim != 2 or mel.shape[0] != dims.n_mels or columns < 2 or columns % 2:
        raise GraphError(
            f"expected log-mel of shape [{dims.n_mels}, an {'odd' if ahead else 'even'} number from {2 + ahead}]; "
            f"got {mel.shape}"
        )
    if state.frames + columns // 2 > dims.n_audio_ctx:
        raise GraphError(
            f"expected at most {dims.n_audio_ctx} frames in a stream; got {state.frames} and {columns // 2} more: "
            "begin another"
        )
    return columns // 2


def _nothing(dims: ModelDims) -> dict[str, Growing]:
    """The arrays that a stream begins with, by name; the order is that in which they are asked of the graph."""
    size, cross = dims.n_audio_state // dims.n_audio_head, dims.n_text_state // dims.n_text_head
    room = min(ROOM, dims.n_audio_ctx)
    shapes = {
        "past_k": (dims.n_audio_layer, (1, dims.n_audio_head, size, room), 3),
        "past_v": (dims.n_audio_layer, (1, dims.n_audio_head, room, size), 2),
        "cross_k": (dims.n_text_layer, (1, dims.n_text_head, cross, room), 3),
        "cross_v": (dims.n_text_layer, (1, dims.n_text_head, room, cross), 2),
    }
    return {
        f"{name}.{layer}": Growing(np.zeros(shape, np.float32), axis)
        for name, (layers, shape, axis) in shapes.items()
        for layer in range(layers)
    }


def _bias(first: int, room: int, frames: int, attention: FloatArray | None, masked: float) -> FloatArray:
    """[1, 1, frames, room + frames]: what no piece has filled is hidden."""
    bias = np.zeros((1, 1, frames, room + frames), np.float32)
    bias[..., first:room] = masked
    if attention is not None:
        bias[0, 0, :, room:] = attention
    return bias


def _encoded(state: EncoderState, dims: ModelDims, taps: Mapping[int, FloatArray]) -> Encoded:
    """All of the stream, for a decoder; what its room does not hold yet is padding."""
    # The runtime shares this memory. What later pieces add lies after the frames that count here.
    keys, values = (
        tuple(state.tensors[f"cross_{side}.{layer}"].room for layer in range(dims.n_text_layer)) for side in "kv"
    )
    return in_runtime(Encoded(keys, values, values[0].shape[2], state.frames, taps, state))
