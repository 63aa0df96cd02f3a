"""The one seam to what computes a model: windows of log-mel in, decoder runs out.

ONNX Runtime (`onnx_engine`), torch (`lab.training.torch_engine`), a server's shared runs (`batched`), two workers that
take turns (`exchanged`) and static graphs (`static`) are engines. Whoever holds a `whisper.WhisperModel` need not know
which it has. What an engine cannot do it refuses by name, with a `GraphError` or a `ProviderError`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from whispertide.checkpoint import Checkpoint
from whispertide.model.request import DecodeOutput, DecodeRequest, Head
from whispertide.options import EngineOptions
from whispertide.types import FloatArray

LAST_LAYER = -1  # a tap: what the encoder gives out, after its last norm


@dataclass(frozen=True, slots=True)
class EncoderState:
    """What an encoder that hears a stream piece by piece carries from one piece to the next; it is never written to.

    tensors  what it computed of earlier pieces (keys and values, cached blocks), by name
    frames   encoder frames of 20 ms heard so far
    """

    tensors: Mapping[str, Any]
    frames: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """One encoded window. The keys and values stay where they were computed; they are never copied here.

    cross_k       per decoder layer [1, heads, 64, frames], scaled and transposed
    cross_v       per decoder layer [1, heads, frames, 64]
    frames        encoder frames of 20 ms, padding included
    valid_frames  those that the decoder may attend to; the rest is masked and cropped from attention
    taps          [frames, width] the output of each encoder layer that was asked for
    state         what the next piece of the stream is encoded with; None where each window stands alone
    fresh         frames that were computed for it, where others were there already; None: all
    """

    cross_k: tuple[Any, ...]
    cross_v: tuple[Any, ...]
    frames: int
    valid_frames: int
    taps: Mapping[int, FloatArray] = field(default_factory=dict)
    state: EncoderState | None = None
    fresh: int | None = None


class DecoderRun(Protocol):
    """A decoder bound to one window's encoder output and its own cache."""

    def run(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens of `request` after the cache. Raises `GraphError` when the text context would overflow."""

    def rewind(self, drop: int, keep: Sequence[int] = ()) -> None:
        """Forget the newest `drop` positions of every row, but those at the places `keep` among them, which move up:
        of a tree of tokens one path stays.
        """

    def hear(self, encoded: Encoded) -> None:
        """Attend to `encoded` from now on, which may be longer or other audio. The cache stays: what was fed before
        keeps what it heard then.
        """


class Engine(Protocol):
    """Computes one model. Any engine's decoder takes any engine's windows."""

    options: EngineOptions

    def encode(
        self,
        mel: FloatArray,
        *,
        state: EncoderState | None = None,
        taps: Sequence[int] = (),
        valid_frames: int | None = None,
        mask_padding: bool = True,
        attention: FloatArray | None = None,
    ) -> Encoded:
        """Encode one window.

        mel           [n_mels, 2 * frames] normalised log-mel, at most 3,000 columns, an even number
        state         what the piece before left, for an encoder that hears a stream piece by piece
        taps          the encoder layers whose output is wanted too: 0, 1, .. or `LAST_LAYER`
        valid_frames  frames after this one are padding: nothing attends to them, in the encoder or the decoder
        mask_padding  False: only the decoder does not; within the encoder padding is attended to (faster)
        attention     [frames, frames] bias of the encoder's self-attention in place of that mask (block-diagonal and
                      the like); the decoder still masks by `valid_frames`
        Raises `GraphError` for any other shape, and for what the engine cannot do.
        """

    def start(self, encoded: Encoded, heads: Sequence[Head] = ()) -> DecoderRun:
        """A fresh decoder over `encoded` that returns the cross-attention of `heads` with every run. Raises
        `GraphError` for heads that the model has not.
        """


class EngineClass(Protocol):
    """What the entry point of an engine that is found by name stands for (`installed`)."""

    def __call__(self, checkpoint: Checkpoint, options: EngineOptions) -> Engine:
        """Load the model. Raises `ProviderError` for options that it cannot satisfy."""

    def accelerated(self) -> bool:
        """Whether it computes on something else than the processor."""
