"""What every engine refuses, in the same words."""

from collections.abc import Sequence

from whispertide.checkpoint import ModelDims
from whispertide.errors import GraphError
from whispertide.model.engine import LAST_LAYER, EncoderState
from whispertide.model.request import Head
from whispertide.types import FloatArray


def check_mel(mel: FloatArray, dims: ModelDims, valid_frames: int | None) -> tuple[int, int]:
    """How many encoder frames a window has, and how many of them are valid. Raises `GraphError` for other shapes."""
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
            f"expected no encoder state: this encoder hears every window on its own; got one of {state.frames} frames"
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
