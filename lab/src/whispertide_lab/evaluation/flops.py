"""What one run of an encoder graph multiplies and adds, counted from the shapes that the graph has.

Every matrix product, convolution and attention of `graphs.encoder` and `graphs.incremental` is here, the keys and
values of cross-attention included, because these graphs compute them. Norms, activations and the softmax are not: they
are below 1 %.
"""

from whispertide.checkpoint import ModelDims
from whispertide.model.incremental import ROOM

_KERNEL = 3
_MLP = 4  # the inner width of Whisper's blocks, in widths


def encoder_gflop(dims: ModelDims, frames: int, past: int | None = None) -> float:
    """Multiply-adds times two, in units of 1e9, for `frames` new encoder frames (padding included).

    past  frames of the same stream that were encoded before: the new ones attend to all of them and to themselves, and
          to the room that is kept for more. None: a window by itself
    """
    width = dims.n_audio_state
    columns, keys = 2 * frames, frames
    if past is not None:  # a piece has one column more, as the second convolution hears one of the piece before
        columns, keys = columns + 1, frames + _room(past, dims.n_audio_ctx)
    convolutions = columns * width * dims.n_mels * _KERNEL + frames * width * width * _KERNEL
    projections = 3 + 1 + 2 * _MLP  # query, key and value; out; the two of the block's inner layer
    layer = projections * frames * width * width + 2 * frames * keys * width  # scores, and the mix of values
    cross = 2 * frames * width * width
    return 2e-9 * (convolutions + dims.n_audio_layer * layer + dims.n_text_layer * cross)


def _room(past: int, most: int) -> int:
    """Keys that a piece is multiplied with besides its own: room grows in steps (`model.incremental`)."""
    return min(max(-(-past // ROOM), 1) * ROOM, most)
