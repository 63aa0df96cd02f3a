"""A recording as callers give it, as blocks: a path, an open file, samples, or blocks of samples."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from whispertide.audio.buffer import check_samples
from whispertide.audio.pcm import MAX_CHANNELS
from whispertide.errors import AudioError
from whispertide.types import FloatArray

Samples = npt.NDArray[Any]  # float32 or float64 with full scale at 1, or int16
Audio = str | Path | BinaryIO | Samples | Iterable[Samples]  # a file, samples at 16 kHz, or blocks of them


def audio_blocks(audio: Audio) -> Iterable[FloatArray]:
    """The blocks [n] of a recording, float32 at 16 kHz, decoded as they are asked for.

    Raises `AudioError` for samples of another type or shape; reading the blocks raises what `decode_blocks` does.
    """
    if isinstance(audio, np.ndarray):
        return (check_samples(audio)[0],)
    if isinstance(audio, str | Path) or hasattr(audio, "read"):
        from whispertide.audio.file import decode_blocks

        return decode_blocks(cast("str | Path | BinaryIO", audio))
    return (check_samples(block)[0] for block in audio)


def audio_channels(audio: Audio) -> Sequence[Iterable[FloatArray]]:
    """The blocks of each channel of a recording: of a file, or of samples [n, channels].

    Raises `AudioError` for anything else, where there are no two channels, and as `audio_blocks` does.
    """
    if isinstance(audio, np.ndarray):
        shape = list(audio.shape)
        if len(shape) != 2 or not 2 <= shape[1] <= MAX_CHANNELS:
            raise AudioError(
                f"expected samples [n, channels] of 2 to {MAX_CHANNELS} channels, to keep them apart; got shape {shape}"
            )
        return [(check_samples(audio[:, number])[0],) for number in range(shape[1])]
    if isinstance(audio, str | Path) or hasattr(audio, "read"):
        from whispertide.audio.apart import file_channels

        return file_channels(cast("str | Path | BinaryIO", audio))
    raise AudioError("expected a file or samples [n, channels], to keep channels apart; got blocks of samples")
