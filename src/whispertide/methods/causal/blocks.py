"""The framing of a causal encoder (WhisperRT): a stream in blocks, each encoded once.

The first block is long, because a word needs some context; the others are as long as a chunk. It is made a little
longer still, so that a block ends where the first round does: then the rounds that follow, one chunk after the other,
find their blocks whole. Where blocks end depends on the beginning of the stream and on its first round, so it makes no
difference in which portions the audio came. A block waits until all of its audio is there, and 12.5 ms more, which the
convolutions hear.

What the encoder leaves for the next block is a state and no more than that: from the same audio it can be computed
anew.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.causal import (
    KIND,
    LONGEST_BLOCK,
    LONGEST_FIRST,
    SHORTEST_BLOCK,
    CausalAdapter,
    has_adapter,
    is_inside,
)
from whispertide.checkpoint.low_rank import AdaptedCheckpoint
from whispertide.errors import OptionError
from whispertide.features import RAW_SILENCE, normalise, raw_columns
from whispertide.graphs.contract import masked_value
from whispertide.model.engine import Encoded, EncoderState
from whispertide.model.incremental import START, block_bias
from whispertide.model.whisper import WhisperModel
from whispertide.streaming.choice import in_frames, setting
from whispertide.streaming.framing import Framing
from whispertide.types import FRAME_SAMPLES, N_FFT, FloatArray

_FRAME_S = 0.02
_AHEAD = N_FFT // 2  # samples after a block that its last frame hears


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks(Framing):
    """Blocks of a stream, each encoded once, for a checkpoint with a causal adapter."""

    kind: ClassVar[str] = "blocks"
    streams: ClassVar[bool] = True
    block_s: float = setting(
        0.1,
        "audio encoded at once, a multiple of 0.02",
        least=SHORTEST_BLOCK * _FRAME_S,
        most=LONGEST_BLOCK * _FRAME_S,
    )
    first_s: float = setting(
        0.6,
        "shortest first block of a stream, a multiple of 0.02",
        least=SHORTEST_BLOCK * _FRAME_S,
        most=LONGEST_FIRST * _FRAME_S,
    )

    block: int = in_frames("block_s")
    first: int = field(init=False, repr=False, compare=False)

    def derive(self) -> dict[str, Any]:
        """The frames of the first block, which is as long as the others at least."""
        return {"first": max(round(self.first_s / _FRAME_S), self.block)}

    def check(self) -> None:
        """Blocks are made of whole frames."""
        Framing.check(self)
        for name, value in (("block_s", self.block_s), ("first_s", self.first_s)):
            # 0.1 / 0.02 is not exactly 5 in floating point.
            if abs(value / _FRAME_S - round(value / _FRAME_S)) > 1e-6:
                raise OptionError(
                    f"expected {name} to be a multiple of {_FRAME_S} s, one frame of the encoder; got {value}"
                )

    def adapted(self, model: WhisperModel) -> WhisperModel:
        """With its causal adapter, which was trained for these blocks."""
        self.check_adapter(model.causal.checkpoint)
        return model.causal

    def can_adapt(self, checkpoint: Checkpoint) -> bool:
        """True if there is a causal adapter."""
        return has_adapter(checkpoint)

    def check_adapter(self, checkpoint: Checkpoint) -> None:
        """Raise `OptionError` where the checkpoint's causal adapter was trained for other blocks."""
        adapter = checkpoint.adapter if isinstance(checkpoint, AdaptedCheckpoint) else None
        if not isinstance(adapter, CausalAdapter):
            return
        if adapter.block not in (0, self.block):
            raise OptionError(
                f"expected block_s={adapter.block * _FRAME_S:g}, for which the causal adapter of {checkpoint.name} was "
                f"trained; got {self.block_s:g}: choose that, or {self._other_way(checkpoint)}"
            )
        if self.first != max(adapter.first, self.block):
            raise OptionError(
                f"expected first_s={adapter.first * _FRAME_S:g}, the first block that the causal adapter of "
                f"{checkpoint.name} was trained with; got {self.first_s:g}: choose that"
            )

    def _other_way(self, checkpoint: Checkpoint) -> str:
        """To have these blocks with an adapter for others."""
        # One that is trained for a file with an adapter inside would never be used.
        if is_inside(checkpoint):
            return "take another checkpoint"
        return f"train one with `{KIND.command.format(model=checkpoint.argument)} --chunk {self.block_s:g}`"

    def ends(self, samples: int, first_round: int, *, is_last: bool = False) -> tuple[int, ...]:
        """The ends, in frames, of the blocks of a stream that has so many samples, and had `first_round` in its first
        round: those that are whole, or, where no audio follows, as many as hold all of it.
        """
        # While audio goes on, a frame waits for the samples after it that it hears; at the end silence will do.
        frames = -(-samples // FRAME_SAMPLES) if is_last else _whole_frames(samples)
        ends = block_ends(frames, self.block, self.first + (_whole_frames(first_round) - self.first) % self.block)
        if is_last:
            return tuple(end for begin, end in pairwise((0, *ends)) if begin < frames)
        return tuple(end for end in ends if end <= frames)

    def advance(
        self,
        model: WhisperModel,
        samples: FloatArray,
        begin: int,
        state: EncoderState | None,
        *,
        first_round: int,
        is_last: bool,
    ) -> Encoded | None:
        """Encode the blocks of a stream that are whole and not encoded yet; `samples` are all of it, from sample
        `begin` of the audio on, and `state` is what was left of earlier blocks of a stream. `first_round`: see `ends`.

        None: there is none. A state of another stream, or of none, is as good as none. Raises `GraphError`.
        """
        if state is None or state.tensors.get("begin") != begin:
            state = START
        ends = [end for end in self.ends(len(samples), first_round, is_last=is_last) if end > state.frames]
        if not ends:
            return None
        mel, peak = self._mel(samples, model.dims.n_mels, state, ends)
        bias = None
        # A block by itself may attend to all there is: what came before, and itself.
        if len(ends) > 1:
            bias = block_bias([end - state.frames for end in ends], masked_value(model.options.precision))
        encoded = model.encode(mel, state=state, attention=bias)
        after = encoded.state
        assert after is not None
        # The engine knows neither of these two, so they are added to its state here.
        return replace(encoded, state=replace(after, tensors={**after.tensors, "begin": begin, "peak": peak}))

    def _mel(self, samples: FloatArray, n_mels: int, state: EncoderState, ends: list[int]) -> tuple[FloatArray, float]:
        """The columns that the blocks add, each block under its own floor, and the loudest cell so far."""
        peak = state.tensors.get("peak", RAW_SILENCE)
        # One column more than two a frame: the first piece had one more (`model.incremental`).
        at = 2 * state.frames + 1 if state.frames else 0
        parts = []
        for end in ends:
            part, peak = causal_block(raw_columns(samples, n_mels, at, 2 * end + 1 - at), peak)
            parts.append(part)
            at = 2 * end + 1
        return np.concatenate(parts, axis=1), peak


def _whole_frames(samples: int) -> int:
    """The frames of a stream whose audio is there, with what they hear after it; below 0 where that is not there."""
    return (samples - _AHEAD) // FRAME_SAMPLES


def block_ends(frames: int, block: int, first: int) -> tuple[int, ...]:
    """The ends of a causal encoder's blocks, in encoder frames: `first`, then every `block`; the last reaches `frames`,
    or goes beyond.
    """
    return tuple(range(first, max(first, frames) + block, block))


def causal_block(raw: FloatArray, peak: float = RAW_SILENCE) -> tuple[FloatArray, float]:
    """The features of the raw frames that a block adds to a stream, and the loudest cell so far.

    `peak` is that of all blocks before; the floor is measured from the louder of the two. So a frame has one value,
    which nothing that follows changes.
    """
    peak = max(peak, float(raw.max(initial=RAW_SILENCE)))
    return normalise(raw, peak), peak
