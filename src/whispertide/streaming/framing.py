"""How a window of audio becomes encoder input, by name. A framing knows the model's limits and nothing of rounds or
words.

    pad30           zeros behind the audio up to 30 s, as in Whisper's training: the reference, and the dearest
    bare            the audio alone; cheap, but Whisper was not trained on short windows (Wang et al., WhisperFlow,
                    section 2)
    buckets         zeros up to the next of 3, 4, 5, 6 or 30 s, so that few shapes occur (NPUsper); the decoder does not
                    attend to the padding, but the encoder's self-attention does
    buckets-masked  likewise, and the encoder does not attend to it either
    auto            for a recipe, one of the above by what the checkpoint knows (`short_windows`); no framing itself
    hush            a learned sound behind the audio, which tells the model that speech ends here, and no padding; as
                    `bare`, because the hush word is in the log-mel already (`Features.followed`, `streaming.hush`)

Whisper's floor is measured over the window (`features.normalise`); in all of them that is the speech itself, because
zeros are never the loudest, and a hush word does not count.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from whispertide.errors import OptionError
from whispertide.types import FRAME_SAMPLES, N_FRAMES, SAMPLE_RATE, FloatArray

if TYPE_CHECKING:
    from whispertide.model.engine import Encoded
    from whispertide.model.whisper import WhisperModel

HUSH, AUTO = "hush", "auto"
SHORTEST_HUSH_S, LONGEST_HUSH_S = 0.1, 5.0
BUCKETS = tuple(s * SAMPLE_RATE // FRAME_SAMPLES for s in (3, 4, 5, 6, 30))  # encoder frames


class Framing(Protocol):
    """Normalised log-mel [n_mels, frames] -> encoder output; `taps` are the layers whose output is wanted too."""

    def __call__(self, model: "WhisperModel", mel: FloatArray, *, taps: Sequence[int] = ()) -> "Encoded":
        """Encode one window."""


def pad30(model: "WhisperModel", mel: FloatArray, *, taps: Sequence[int] = ()) -> "Encoded":
    """Whisper's own framing."""
    return model.encode(_padded(mel, N_FRAMES), taps=taps)


def bare(model: "WhisperModel", mel: FloatArray, *, taps: Sequence[int] = ()) -> "Encoded":
    """The audio alone; an odd last mel frame gets one of zeros, because the encoder takes them in pairs."""
    return model.encode(_padded(mel, mel.shape[1] + mel.shape[1] % 2), taps=taps)


def buckets(model: "WhisperModel", mel: FloatArray, *, taps: Sequence[int] = ()) -> "Encoded":
    """The smallest bucket that holds the audio; only the decoder is kept from the padding."""
    valid = -(-mel.shape[1] // 2)
    return model.encode(_padded(mel, 2 * _bucket(valid)), valid_frames=valid, mask_padding=False, taps=taps)


def buckets_masked(model: "WhisperModel", mel: FloatArray, *, taps: Sequence[int] = ()) -> "Encoded":
    """The smallest bucket that holds the audio; nothing attends to the padding."""
    valid = -(-mel.shape[1] // 2)
    return model.encode(_padded(mel, 2 * _bucket(valid)), valid_frames=valid, taps=taps)


# Those that need nothing but the model.
FRAMINGS: Mapping[str, Framing] = MappingProxyType(
    {"pad30": pad30, "bare": bare, "buckets": buckets, "buckets-masked": buckets_masked}
)


def get_framing(name: str) -> Framing:
    """The framing of that name; whoever asks for `hush` puts the hush word behind the audio.

    Raises `OptionError`, which lists those that exist.
    """
    if name == HUSH:
        return bare
    if name not in FRAMINGS:
        raise OptionError(f"expected a framing among {', '.join((*FRAMINGS, HUSH))}; got {name!r}")
    return FRAMINGS[name]


def _bucket(frames: int) -> int:
    return next(bucket for bucket in BUCKETS if bucket >= frames)


def _padded(mel: FloatArray, frames: int) -> FloatArray:
    return np.pad(mel, [(0, 0), (0, frames - mel.shape[1])])
