"""The one seam to what computes a model: windows of log-mel in, decoder runs out.

ONNX Runtime (`onnx_engine`), torch (the laboratory's `training.torch_engine`), and static graphs (`static`) are
engines. Whoever holds a `whisper.WhisperModel` need not know which it has. What an engine cannot do it refuses by name,
with a `GraphError` or a `ProviderError`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from whispertide.checkpoint import Checkpoint, ModelDims
from whispertide.checkpoint.generation import Head
from whispertide.errors import GraphError
from whispertide.options import EngineOptions
from whispertide.types import FloatArray, IntArray

Array = TypeVar("Array", FloatArray, IntArray)


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """One decoder run for all rows of one search.

    tokens     [rows, length]  ids to feed after what is cached
    parents    [rows]          which cached row each row continues; None = row i continues row i
    logits_at  [n]             positions within `tokens` whose next-token distribution is wanted
    suppress   [vocab] or [rows, vocab]   added to the logits (0 or -inf) before anything is computed from them
    need       "top": the best `TOP` candidates, "times": those and the best timestamps, "logits": the whole
    distribution
    draft      how many of the tokens, the last ones, are a guess: they may leave the cache again
    hidden     whether the hidden states are wanted too
    """

    tokens: IntArray
    logits_at: tuple[int, ...]
    parents: tuple[int, ...] | None = None
    suppress: FloatArray | None = None
    need: Literal["top", "times", "logits"] = "top"
    draft: int = 0
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class DecodeOutput:
    """The result of a decoder run; n = len(request.logits_at).

    top_ids      [rows, n, TOP] token ids, best first
    top_logprobs [rows, n, TOP] their log-probabilities (after suppression)
    time_ids     [rows, n, TOP] the best timestamp tokens, best first
    time_logprobs [rows, n, TOP] their log-probabilities among all tokens
    time_mass    [rows, n] log of the probability that the next token is a timestamp
    logits       [rows, n, vocab] after suppression; None unless the request needs them
    attention    [heads, rows, length, frames] softmaxed cross-attention of the chosen heads; None if none chosen.
                 Row k is that of the query which *predicts* the token after fed token k.
    hidden       [rows, length, width] what the decoder gives out after each fed token, before the vocabulary; None
                 unless the request asks for it
    no_speech_prob   where the logits that tell it are not given back; else nan
    """

    top_ids: IntArray | None = None
    top_logprobs: FloatArray | None = None
    time_ids: IntArray | None = None
    time_logprobs: FloatArray | None = None
    time_mass: FloatArray | None = None
    logits: FloatArray | None = None
    attention: FloatArray | None = None
    hidden: FloatArray | None = None
    no_speech_prob: float = float("nan")


def required(array: Array | None, name: str) -> Array:
    """`array`, or a `ValueError` naming the part of the output that the decoder left out."""
    if array is None:
        raise ValueError(f"expected the decoder output to hold {name}, as the request asked; it does not")
    return array


LAST_LAYER = -1  # a tap: what the encoder gives out, after its last norm


@dataclass(frozen=True, slots=True)
class EncoderState:
    """The state of a piecewise encoder from one piece of a stream to the next; it is never written to.

    tensors  what was computed of earlier pieces (keys and values, cached blocks, log-mel), by name
    frames   encoder frames of 20 ms encoded so far
    """

    tensors: Mapping[str, Any]
    frames: int


Piece = tuple[int, int | None]  # frames that were encoded at once; how many before them they hear too, None: alone


@dataclass(frozen=True, slots=True)
class Encoded:
    """One encoded window. The keys and values stay where they were computed; they are never copied here.

    cross_k       per decoder layer [1, heads, 64, frames], scaled and transposed
    cross_v       per decoder layer [1, heads, frames, 64]
    frames        encoder frames of 20 ms, padding included
    valid_frames  those that the decoder may attend to; the rest is masked and cropped from attention
    taps          [frames, width] the output of each encoder layer that was asked for
    state         what the next piece of the stream is encoded with; None where each window stands alone
    fresh         what was computed for it, where the rest was there already; None: all, at once
    """

    cross_k: tuple[Any, ...]
    cross_v: tuple[Any, ...]
    frames: int
    valid_frames: int
    taps: Mapping[int, FloatArray] = field(default_factory=dict)
    state: EncoderState | None = None
    fresh: tuple[Piece, ...] | None = None

    @property
    def computed(self) -> tuple[Piece, ...]:
        """The pieces that were encoded for it."""
        return ((self.frames, None),) if self.fresh is None else self.fresh


class DecoderRun(Protocol):
    """A decoder bound to one window's encoder output and its own cache."""

    def run(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens of `request` after the cache. Raises `GraphError` when the text context would overflow."""

    def rewind(self, drop: int) -> None:
        """Forget the newest `drop` positions of every row."""


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
        positions: IntArray | None = None,
    ) -> Encoded:
        """Encode one window.

        mel           [n_mels, 2 * frames] normalised log-mel, at most 3,000 columns, an even number
        state         what the piece before left, for an encoder that hears a stream piece by piece
        taps          the encoder layers whose output is wanted too: 0, 1, .. or `LAST_LAYER`
        valid_frames  frames after this one are padding: nothing attends to them, in the encoder or the decoder
        mask_padding  False: only the decoder does not; within the encoder padding is attended to (faster)
        attention     [frames, frames] bias of the encoder's self-attention in place of that mask (block-diagonal and
                      the like); the decoder still masks by `valid_frames`
        positions     [frames] where each frame lies in the 30 s, in encoder frames; None: one after the other from 0
        Raises `GraphError` for any other shape, and for what the engine cannot do.
        """

    def start(self, encoded: Encoded, heads: Sequence[Head] = ()) -> DecoderRun:
        """A fresh decoder over `encoded` that returns the cross-attention of `heads` with every run. Raises
        `GraphError` for heads that the model has not.
        """

    def hearing(self, checkpoint: Checkpoint) -> "Engine":
        """The same decoder after the encoder of `checkpoint`, which differs from this one's in nothing else.

        Raises `GraphError` where it cannot be built, or the engine has one encoder alone.
        """


class EngineClass(Protocol):
    """The class that the entry point of an engine found by name stands for (`installed`)."""

    def __call__(self, checkpoint: Checkpoint, options: EngineOptions) -> Engine:
        """Load the model. Raises `ProviderError` for options that it cannot satisfy."""

    def accelerated(self) -> bool:
        """True if it computes on something else than the processor."""


def check_mel(mel: FloatArray, dims: ModelDims, valid_frames: int | None) -> tuple[int, int]:
    """The number of encoder frames of a window, and how many are valid. Raises `GraphError` for other shapes."""
    limit = 2 * dims.n_audio_ctx
    columns = mel.shape[-1] if mel.ndim == 2 else -1
    if mel.ndim != 2 or mel.shape[0] != dims.n_mels or columns % 2 or not 2 <= columns <= limit:
        raise GraphError(
            f"expected log-mel of shape [{dims.n_mels}, an even number from 2 to {limit}]; got {mel.shape}"
        )
    frames = columns // 2
    valid = frames if valid_frames is None else valid_frames
    if not 0 < valid <= frames:
        raise GraphError(f"expected 1 to {frames} valid frames; got {valid}")
    return frames, valid


def check_stateless(state: EncoderState | None) -> None:
    """Raise `GraphError` for an encoder state, in an engine whose encoder hears every window on its own."""
    if state is not None:
        raise GraphError(
            f"expected no encoder state: this encoder encodes every window by itself; got one of {state.frames} frames"
        )


def check_taps(taps: Sequence[int], known: Sequence[int]) -> None:
    """Raise `GraphError` for layers other than the `known` ones, whose output the encoder gives out."""
    if unknown := sorted({*taps} - {LAST_LAYER, *known}):
        layers = ", ".join(map(str, (LAST_LAYER, *known)))
        raise GraphError(f"expected taps of the encoder layers that this engine gives out ({layers}); got {unknown}")


def check_heads(heads: Sequence[Head], dims: ModelDims) -> None:
    """Raise `GraphError` for a head that the decoder has not."""
    for layer, head in heads:
        if not (0 <= layer < dims.n_text_layer and 0 <= head < dims.n_text_head):
            raise GraphError(
                f"expected attention heads within {dims.n_text_layer} layers of {dims.n_text_head}; "
                f"got layer {layer}, head {head}"
            )


def check_context(past: int, length: int, dims: ModelDims) -> None:
    """Raise `GraphError` where so many tokens after so many do not fit into the text context."""
    if past + length > dims.n_text_ctx:
        raise GraphError(f"expected at most {dims.n_text_ctx} tokens of text context; got {past} + {length}")
