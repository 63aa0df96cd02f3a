"""What one run of the encoder graph multiplies and adds, counted from the shapes that the graph has.

Every matrix product, convolution and attention of `graphs.encoder` is here, the decoder's cross-attention keys and
values included, because that graph computes them. Norms, activations and the softmax are not: they are below 1 %.
"""

from whispertide.checkpoint import ModelDims

_KERNEL = 3
_MLP = 4  # the inner width of Whisper's blocks, in widths


def encoder_gflop(dims: ModelDims, frames: int) -> float:
    """Multiply-adds times two, in units of 1e9, for one window of `frames` encoder frames (padding included)."""
    width = dims.n_audio_state
    convolutions = 2 * frames * width * dims.n_mels * _KERNEL + frames * width * width * _KERNEL
    projections = 3 + 1 + 2 * _MLP  # query, key and value; out; the two of the block's inner layer
    layer = projections * frames * width * width + 2 * frames * frames * width  # scores, and the mix of values
    cross = 2 * frames * width * width
    return 2e-9 * (convolutions + dims.n_audio_layer * layer + dims.n_text_layer * cross)
