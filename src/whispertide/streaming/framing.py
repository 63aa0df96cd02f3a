"""How a window of audio becomes encoder input, by name. A framing knows the model's limits and nothing of rounds or
words.

    pad30   zeros behind the audio up to 30 s, as in Whisper's training: the reference, and the dearest
    bare    the audio alone; cheap, but Whisper was not trained on short windows (Wang et al., WhisperFlow, section 2)

Whisper's floor is measured over the window (`features.normalise`); in both framings that is the speech itself, because
zeros are never the loudest.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from whispertide.decoding.longform import Frame, pad30
from whispertide.errors import OptionError
from whispertide.types import FloatArray

if TYPE_CHECKING:
    from whispertide.model.encoder import Encoded
    from whispertide.model.whisper import WhisperModel


def bare(model: "WhisperModel", mel: FloatArray) -> "Encoded":
    """The audio alone; an odd last mel frame gets one of zeros, because the encoder takes them in pairs."""
    return model.encode(np.pad(mel, [(0, 0), (0, mel.shape[1] % 2)]))


FRAMINGS: Mapping[str, Frame] = MappingProxyType({"pad30": pad30, "bare": bare})


def get_framing(name: str) -> Frame:
    """The framing of that name. Raises `OptionError`, which lists those that exist."""
    if name not in FRAMINGS:
        raise OptionError(f"expected a framing among {', '.join(FRAMINGS)}; got {name!r}")
    return FRAMINGS[name]
