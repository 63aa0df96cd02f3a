"""Framings: ways to turn a window of audio into encoder input. They know the model's limits, no rounds and no words.

    pad30           silence after the audio up to 30 s, as in Whisper's training: the reference, and the dearest
    bare            the audio alone; cheap, but Whisper was not trained on short windows (Wang et al., WhisperFlow,
                    section 2)
    buckets         zeros in the log-mel up to the next of 3, 4, 5, 6 or 30 s, so that few shapes occur (NPUsper); the
                    decoder does not attend to them, but the encoder's self-attention does; with `masked` the encoder
                    does not attend to them either
    zeros           a second of silence after the audio, which the decoder sees, and at least so many seconds in all: a
                    short form of the padding that Whisper knows
    merged          some silence, and a few frames that stand for the rest of 30 s (`merged_padding`)
    auto            for a recipe, one of the above by what the checkpoint knows (`short_windows`); no framing itself
    masked          silence up to 30 s, in blocks that do not attend to each other, each encoded once
                    (`methods.short.masked`)
    hush            a learned sound after the audio, which tells the model that speech ends here, and no padding; as
                    `bare`, because the hush word is in the log-mel already (`Features.followed`, `methods.short.hush`)

Silence is zeros after the audio, as Whisper was trained (`features.padded`). Zeros in the log-mel are none, but a faint
sound; what lies next to them is encoded as at the end of a bare window. Whisper's floor is measured over the window
(`features.normalise`); in all of them that is the speech itself, because silence is never the loudest, and a hush word
does not count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.features import padded
from whispertide.model.engine import Encoded, EncoderState
from whispertide.model.whisper import WhisperModel
from whispertide.options import check_choice
from whispertide.plural import counted
from whispertide.streaming.choice import Choice, setting
from whispertide.streaming.merged_padding import merge_padding
from whispertide.types import (
    BUCKET_SECONDS,
    CHUNK_SECONDS,
    FRAME_SAMPLES,
    HOP_LENGTH,
    N_FRAMES,
    SAMPLE_RATE,
    FloatArray,
)

SHORTEST_HUSH_S, LONGEST_HUSH_S = 0.1, 5.0
FRAMES_PER_S, MEL_PER_S = SAMPLE_RATE // FRAME_SAMPLES, SAMPLE_RATE // HOP_LENGTH
TAUGHT_ZEROS_S = 0.2  # silence before the merged padding that adapters are taught with
_BUCKETS = tuple(length * FRAMES_PER_S for length in BUCKET_SECONDS)  # encoder frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing(Choice):
    """A way to turn a window into encoder input.

    streams  it takes a stream that only grows (`blocks`), for policies that decode one
    """

    streams: ClassVar[bool] = False
    title: ClassVar[str] = "windows as the recipe says"

    def __call__(self, model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
        """Encode one window of normalised log-mel [n_mels, frames]; `taps`: layers whose output is wanted too."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The kind of its windows, for people."""
        return self.title

    def length_s(self, seconds: float) -> float:
        """The length of a window of so many seconds to the encoder, in seconds."""
        return seconds

    def after(
        self, model: WhisperModel, mel: FloatArray, state: EncoderState | None, *, taps: Sequence[int] = ()
    ) -> Encoded:
        """Encode a window with what the round before left, and leave something for the next in `Encoded.state`.

        Here every window stands alone.
        """
        return self(model, mel, taps=taps)

    def adapted(self, model: WhisperModel) -> WhisperModel:
        """The model that the framing is for: with an adapter, where it needs one.

        Raises `CheckpointNotFoundError` where there is none, `CheckpointError` where it is damaged or another model's,
        `OptionError` where it was trained for something else.
        """
        return model

    def can_adapt(self, checkpoint: Checkpoint) -> bool:
        """True if there is such an adapter, or none is needed."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad30(Framing):
    """Every window is padded to 30 s: Whisper's own framing."""

    kind: ClassVar[str] = "pad30"
    title: ClassVar[str] = "30 s of padding"

    def __call__(self, model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
        """With silence up to 30 s."""
        return model.encode(padded(mel, N_FRAMES), taps=taps)

    def length_s(self, seconds: float) -> float:
        """Always the same."""
        return CHUNK_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare(Framing):
    """Windows without padding."""

    kind: ClassVar[str] = "bare"
    title: ClassVar[str] = "bare windows"

    def adapted(self, model: WhisperModel) -> WhisperModel:
        """With its adapter for short windows, where there is one."""
        return model.short

    def __call__(self, model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
        """The audio alone; an odd last mel frame gets one of zeros, because the encoder takes them in pairs."""
        return model.encode(_with_zeros(mel, mel.shape[1] + mel.shape[1] % 2), taps=taps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets(Framing):
    """Windows padded to 3, 4, 5, 6 or 30 s, with the padding hidden from the decoder (NPUsper)."""

    kind: ClassVar[str] = "buckets"
    title: ClassVar[str] = "buckets of 3 to 30 s"
    masked: bool = setting(False, "whether the padding is hidden from the encoder's self-attention, too")

    def __call__(self, model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
        """The smallest bucket that holds the audio."""
        valid = -(-mel.shape[1] // 2)
        # The decoder never sees the padding (`valid_frames`); the encoder does, unless it is `masked` there, too.
        bucket = next(bucket for bucket in _BUCKETS if bucket >= valid)
        return model.encode(_with_zeros(mel, 2 * bucket), valid_frames=valid, mask_padding=self.masked, taps=taps)

    def length_s(self, seconds: float) -> float:
        """The length of the bucket."""
        return next(bucket for bucket in _BUCKETS if bucket >= seconds * FRAMES_PER_S) / FRAMES_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Zeros(Framing):
    """Windows with silence after them, which the decoder attends to, as in Whisper's training."""

    kind: ClassVar[str] = "zeros"
    zeros_s: float = setting(1.0, "silence after the audio", least=0, most=CHUNK_SECONDS)
    whole_s: float = setting(0.0, "shortest length of a window with its silence", least=0, most=CHUNK_SECONDS)

    @property
    def name(self) -> str:
        """With the least length, where there is one."""
        return f"windows padded to {self.whole_s:g} s" if self.whole_s else f"{self.zeros_s:g} s of padding"

    def adapted(self, model: WhisperModel) -> WhisperModel:
        """With its adapter for short windows, where there is one."""
        return model.short

    def __call__(self, model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
        """With silence, but never more than 30 s."""
        # Rounded, because 0.29 * 100 is a little less than 29 in floating point.
        frames = round(self.length_s(mel.shape[1] / MEL_PER_S) * MEL_PER_S)
        return model.encode(padded(mel, frames + frames % 2), taps=taps)

    def length_s(self, seconds: float) -> float:
        """With its silence."""
        return min(CHUNK_SECONDS, max(seconds + self.zeros_s, self.whole_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged(Framing):
    """Windows with some silence after them, and a few frames of padding that stand for the rest of 30 s
    (`merged_padding`).
    """

    kind: ClassVar[str] = "merged"
    zeros_s: float = setting(0.5, "silence after the audio that is encoded frame by frame", least=0, most=CHUNK_SECONDS)
    stand_for_all: int = setting(128, "frames that stand for the rest of the padding", least=1, most=1500)

    @property
    def name(self) -> str:
        """With the number of frames: an adapter has fewer than a checkpoint without one."""
        return f"merged padding of {counted(self.stand_for_all, 'frame')}"

    def adapted(self, model: WhisperModel) -> WhisperModel:
        """With its adapter for short windows, where that was taught with padding of as many frames."""
        return model.short if model.short_merged == self.stand_for_all else model

    def __call__(self, model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
        """With merged padding; as padded where that has no more frames."""
        whole, near = model.dims.n_audio_ctx, self._near(-(-mel.shape[1] // 2))
        frames = near + self.stand_for_all
        if frames >= whole:
            return PAD30(model, mel, taps=taps)
        positions, bias = merge_padding(near, self.stand_for_all, whole)
        return model.encode(padded(mel, 2 * frames), attention=bias, positions=positions, taps=taps)

    def length_s(self, seconds: float) -> float:
        """With the silence, and with the frames that stand for the rest as if they lay there."""
        return min(CHUNK_SECONDS, (self._near(seconds * FRAMES_PER_S) + self.stand_for_all) / FRAMES_PER_S)

    def _near(self, frames: float) -> int:
        """The frames of the audio with its silence."""
        return round(frames + self.zeros_s * FRAMES_PER_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hush(Bare):
    """Windows without padding and with a hush word after them, which the model must have (WhisperFlow)."""

    kind: ClassVar[str] = "hush"
    title: ClassVar[str] = "a hush word after every window"
    hush_s: float = setting(0.5, "length of the hush word", least=SHORTEST_HUSH_S, most=LONGEST_HUSH_S)

    def adapted(self, model: WhisperModel) -> WhisperModel:
        """As it is: the hush word was learned for that."""
        return model

    def length_s(self, seconds: float) -> float:
        """With the hush word."""
        return seconds + self.hush_s


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoFraming(Framing):
    """Chosen for the checkpoint: as `whispertide tune` found; else bare for a checkpoint trained on short windows, or
    with merged padding (`short_windows`).
    """

    kind: ClassVar[str] = "auto"


PAD30, BARE = Pad30(), Bare()


def taught_framing(merged: int) -> Framing:
    """The framing that an adapter was taught: so many frames of merged padding (`ShortAdapter.merged`); 0: bare."""
    return Merged(zeros_s=TAUGHT_ZEROS_S, stand_for_all=merged) if merged else BARE


FRAMINGS: Mapping[str, type[Framing]] = MappingProxyType(
    {each.kind: each for each in (Pad30, Bare, Buckets, Zeros, Merged, Hush)}
)


def get_framing(name: str) -> Framing:
    """The framing of that name, as it is by default; whoever asks for `hush` puts the hush word after the audio.

    Raises `OptionError`, which lists those that exist.
    """
    check_choice("the framing", name, tuple(FRAMINGS))
    return FRAMINGS[name]()


def _with_zeros(mel: FloatArray, frames: int) -> FloatArray:
    return np.pad(mel, [(0, 0), (0, frames - mel.shape[1])])
