"""An embedding that reads the voice out of the audio: each voice is a level, and has a direction of its own."""

import numpy as np

from whispertide.types import FloatArray, Word, to_samples

SIZE = 8


class ScriptedEmbedding:
    """A stretch's vector is the mean of the directions of its levels 0.1, 0.2, … weighted by how long each lasts."""

    def __init__(self) -> None:
        self.asked = 0

    def vector(self, audio: FloatArray) -> FloatArray:
        self.asked += 1
        levels = np.round(np.abs(audio) * 10).astype(int)
        counts = np.bincount(levels[(levels > 0) & (levels <= SIZE)], minlength=SIZE + 1)[1 : SIZE + 1]
        vector = counts.astype(np.float32) + np.float32(1e-6)
        return vector / np.float32(np.linalg.norm(vector))


def spoken(*turns: tuple[int, float]) -> FloatArray:
    """Audio of turns (voice, seconds); voice 0 is silence."""
    return np.concatenate([np.full(round(16_000 * length), voice / 10, np.float32) for voice, length in turns])


class LoudIsVoice:
    """A voice detector without a network."""

    def step(self, block: FloatArray, state: object) -> tuple[float, object]:
        return float(np.abs(block).max() > 0.05), state


def word(text: str, start_s: float, end_s: float) -> Word:
    return Word(text, to_samples(start_s), to_samples(end_s))
