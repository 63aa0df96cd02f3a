"""The features of a whole stream as a causal encoder gets them, block by block. Numpy only."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from whispertide.features import RAW_SILENCE
from whispertide.methods.causal.blocks import causal_block
from whispertide.types import FloatArray


def causal_log_mel(raw: FloatArray, ends: Sequence[int]) -> FloatArray:
    """The features of a stream [n_mels, frames], as a causal encoder with blocks that end at `ends` gets them.

    The convolutions before the encoder look two mel frames ahead. So block b, which ends at encoder frame e, needs and
    adds the mel frames up to and including 2 e. Frames after the last block are left out.
    """
    last = min(raw.shape[1], 2 * ends[-1] + 1 if ends else 0)
    edges = [0, *(min(2 * end + 1, last) for end in ends)]
    parts, peak = [raw[:, :0]], RAW_SILENCE
    for begin, end in pairwise(edges):
        part, peak = causal_block(raw[:, begin:end], peak)
        parts.append(part)
    return np.concatenate(parts, axis=1)
