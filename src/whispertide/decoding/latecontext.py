"""What a late-contextualisation network hears: log-mel with a floor of its own, so that a frame needs no later one."""

import numpy as np

from whispertide.features import raw_log_mel
from whispertide.types import FloatArray

FLOOR = -7.0  # log10 of power; what is quieter is silence
FACTOR = 4  # mel frames in a frame of the network


def scaled(raw: FloatArray) -> FloatArray:
    """Raw frames as the network gets them: about -1.3 in silence, 0 to 1.5 in speech."""
    floored: FloatArray = np.maximum(raw, np.float32(FLOOR))
    return (floored + np.float32(3.0)) / np.float32(3.0)


def features(samples: FloatArray, n_mels: int) -> FloatArray:
    """[n_mels, frames] of a whole recording, 16 kHz [n], with silence up to a whole number of the network's frames."""
    padding = -len(samples) % (160 * FACTOR)
    return scaled(raw_log_mel(samples, n_mels, padding))
