"""Whisper's padding to 30 s as a few frames that stand for all: positions and attention of the framing `merged`.

On a bare window Whisper makes words up, and most of what a padded one costs is the encoding of silence. But frames of
silence are nearly alike: all have the same log-mel, and differ in their positions alone. So the window gets some real
silence, where the encoder notes what was said, and of the rest of the padding every tenth frame or so. Each counts in
the encoder's self-attention for as many frames as it stands for: the logarithm of their number is added to its scores,
as if its key and value were there so often (ToMe's proportional attention; Bolya et al. 2023, section 3, where frames
are merged that turn out to be alike). No weight changes and nothing is trained, so it is for any checkpoint. How the
errors compare with those of padded windows is in lab/log (2026-11-30, "Padding of merged frames").
"""

import numpy as np

from whispertide.types import FloatArray, IntArray


def merge_padding(near: int, count: int, whole: int) -> tuple[IntArray, FloatArray]:
    """Positions [near + count] of the frames of a window, and the bias [near + count, near + count] of their attention.

    The first `near` frames stand for themselves; `count` others, each in the middle of its group, for the groups of
    nearly equal size from there to `whole`. The last frame is a group of its own: it lies at the edge of the
    convolutions.
    """
    groups = np.linspace(near, whole - 1, count).round() if count > 1 else [near]
    edges = np.append(groups, whole).astype(np.int64)
    sizes = np.diff(edges)
    positions = np.concatenate([np.arange(near), edges[:-1] + (sizes - 1) // 2])
    row = np.concatenate([np.zeros(near), np.log(sizes)]).astype(np.float32)
    return positions, np.ascontiguousarray(np.broadcast_to(row, (len(row), len(row))))
