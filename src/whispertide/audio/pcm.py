"""Convert bytes and samples of any kind, rate and number of channels to 16 kHz mono float32, in any portions and
without I/O.

Every way into the program goes through here. Channels are mixed by their mean, so a voice on one of two channels is
6 dB quieter and no mix can clip; a channel of opposite phase, which would cancel the others out, is turned round
before. Resampling is soxr's HQ (about 125 dB of rejection, some 30 ms of look-ahead). Samples beyond +-1
are kept as they are: clipped or overdriven audio is the user's. Samples that are no numbers become silence and are
counted.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.audio.buffer import sanitize, to_float
from whispertide.errors import OptionError
from whispertide.options import check_choice
from whispertide.types import SAMPLE_RATE, FloatArray

# ffmpeg's name of a sample format -> its type
LINEAR = {"u8": "u1", "s16le": "<i2", "s32le": "<i4", "f32le": "<f4"}
SAMPLE_FORMATS: tuple[str, ...] = tuple(LINEAR)
_MIN_RATE = 1_000
MAX_RATE = 768_000
MAX_CHANNELS = 64


# Mixed in pieces of 20 ms, each by what it is itself.
_PIECES_PER_S = 50
# A piece is cancelled if less than this is left of the loudest channel's energy, of which a mean of n channels keeps at
# least 1/n² where they do not cancel, and if there was any to hear.
_LEFT, _AUDIBLE = 0.04, 1e-6


class _Downmix:
    """Mixes channels to one, portion by portion; the portions do not change the result.

    A channel that cancels the loudest one out (its poles are swapped) is inverted, and stays so until a loud piece
    shows that it runs with it again: quiet pieces, between words, do not tell. `cancelled` counts the samples of pieces
    that cancel each other out as they are. What does not fill a piece waits for the next portion.
    """

    def __init__(self, rate: int, channels: int) -> None:
        self.cancelled = 0
        self._piece = max(1, rate // _PIECES_PER_S)
        self._waiting = np.zeros((0, channels), np.float32)
        self._signs = np.ones(channels, np.float32)  # -1: turned round

    def push(self, samples: FloatArray) -> FloatArray:
        """Mix samples [n, channels]; returns [m] of the pieces that are full."""
        both = np.concatenate([self._waiting, samples])
        whole = len(both) - len(both) % self._piece
        self._waiting = both[whole:]
        return self._mix(both[:whole].reshape(-1, self._piece, both.shape[1]))

    def flush(self) -> FloatArray:
        """The samples that waited, [m]."""
        rest, self._waiting = self._waiting, self._waiting[:0]
        return self._mix(rest[None]) if len(rest) else rest[:, 0]

    def _mix(self, pieces: FloatArray) -> FloatArray:
        """Mix [k, piece, channels] to [k * piece]."""
        energies = np.square(pieces, dtype=np.float64).mean(axis=1)  # [k, channels]
        loudest = energies.argmax(axis=1)
        mixed: FloatArray = pieces.mean(axis=2, dtype=np.float32)
        self.cancelled += int(_gone(mixed, energies).sum()) * pieces.shape[1]
        signs = self._find_signs(pieces, energies, loudest)
        turned = (signs < 0).any(axis=1)
        mixed[turned] = (pieces[turned] * signs[turned, None]).mean(axis=2, dtype=np.float32)
        gone = _gone(mixed, energies)  # in spite of that, as "one, one, minus two" does
        alone = np.take_along_axis(pieces[gone] * signs[gone, None], loudest[gone, None, None], axis=2)
        mixed[gone] = alone[..., 0]
        return mixed.reshape(-1)

    def _find_signs(self, pieces: FloatArray, energies: FloatArray, loudest: npt.NDArray[np.int64]) -> FloatArray:
        """The sign of each channel in each piece [k, channels]."""
        one = np.take_along_axis(pieces, loudest[:, None, None], axis=2)
        both = np.square(one + pieces, dtype=np.float64).mean(axis=1)
        apart = np.square(one - pieces, dtype=np.float64).mean(axis=1)
        audible = energies > _AUDIBLE
        against, along = audible & (both < _LEFT * apart), audible & (apart < _LEFT * both)
        signs = np.tile(self._signs, (len(pieces), 1))
        if against.any() or (self._signs < 0).any():
            # Piece by piece: each starts with the signs of the one before it.
            for number, channel in enumerate(loudest):
                own = self._signs[channel]
                self._signs[against[number]], self._signs[along[number]] = -own, own
                signs[number] = self._signs
        return signs


def _gone(mixed: FloatArray, energies: FloatArray) -> npt.NDArray[np.bool_]:
    """Find the pieces [k] in which the channels cancel each other out: mixed [k, piece], of these `energies` [k,
    channels].
    """
    left = np.square(mixed, dtype=np.float64).mean(axis=1)
    most = energies.max(axis=1, initial=0)
    # The mean keeps 1/n² of a voice that is on one of n channels; only opposite phase takes nearly all of it.
    gone: npt.NDArray[np.bool_] = (most > _AUDIBLE) & (left < _LEFT / energies.shape[1] ** 2 * most)
    return gone


def check_shape(rate: int, channels: int) -> None:
    """Raise `OptionError` for a rate outside 1 kHz to 768 kHz or a channel count outside 1 to 64."""
    if not _MIN_RATE <= rate <= MAX_RATE:
        raise OptionError(f"expected a sample rate between {_MIN_RATE} and {MAX_RATE} Hz; got {rate}")
    if not 1 <= channels <= MAX_CHANNELS:
        raise OptionError(f"expected 1 to {MAX_CHANNELS} channels; got {channels}")


class StreamingResampler:
    """Resamples audio at `rate_in` to 16 kHz mono, portion by portion; the portions do not change the result.

    `push` as often as there is audio, then `flush` once. The outputs together have round(n * 16000 / rate_in)
    samples (give or take one) and are aligned with the input. `replaced` counts samples that were no numbers.
    At 16 kHz one channel is neither delayed nor changed; several wait for pieces of 20 ms.
    """

    def __init__(self, rate_in: int, channels: int = 1) -> None:
        """Raises `OptionError` as `check_shape` does."""
        check_shape(rate_in, channels)
        self.rate_in = rate_in
        self.channels = channels
        self.replaced = 0
        self._downmix = _Downmix(rate_in, channels) if channels > 1 else None
        self._soxr: Any = None
        if rate_in != SAMPLE_RATE:
            import soxr

            # One channel, because they are mixed before.
            self._soxr = soxr.ResampleStream(rate_in, SAMPLE_RATE, 1, dtype="float32", quality="HQ")

    def push(self, samples: FloatArray) -> FloatArray:
        """Resample [n] (mono only) or [n, channels] at `rate_in`; returns the samples that are ready at 16 kHz, [m].

        Raises `OptionError` if the shape does not fit the number of channels.
        """
        shape = np.shape(samples)
        if len(shape) not in (1, 2) or (shape[1] if len(shape) == 2 else 1) != self.channels:
            expected = "[n]" if self.channels == 1 else f"[n, {self.channels}]"
            raise OptionError(f"expected samples of shape {expected}; got {list(shape)}")
        clean, replaced = sanitize(np.asarray(samples, np.float32))
        self.replaced += replaced
        mono = clean.reshape(-1) if self._downmix is None else self._downmix.push(clean)
        return self._resample(mono, last=False)

    def flush(self) -> FloatArray:
        """Return the rest, [m], at the end of the input; then the resampler is used up."""
        rest = np.zeros(0, np.float32) if self._downmix is None else self._downmix.flush()
        return self._resample(rest, last=True)

    @property
    def cancelled_s(self) -> float:
        """Seconds for which channels of opposite phase cancelled each other out."""
        return 0.0 if self._downmix is None else self._downmix.cancelled / self.rate_in

    def _resample(self, mono: FloatArray, *, last: bool) -> FloatArray:
        if self._soxr is None:
            return mono
        out: FloatArray = self._soxr.resample_chunk(np.ascontiguousarray(mono), last=last)
        return out


class ChannelResampler:
    """Resamples each of several channels by itself, portion by portion; nothing is mixed, so nothing cancels out."""

    cancelled_s = 0.0

    def __init__(self, rate_in: int, channels: int) -> None:
        """Raises `OptionError` as `check_shape` does."""
        check_shape(rate_in, channels)
        self._each = [StreamingResampler(rate_in) for _ in range(channels)]

    def push(self, samples: FloatArray) -> FloatArray:
        """Resample [n, channels]; returns the samples that are ready at 16 kHz, [m, channels]."""
        return np.stack([one.push(samples[:, number]) for number, one in enumerate(self._each)], axis=1)

    def flush(self) -> FloatArray:
        """Return the rest, [m, channels], at the end of the input; then the resampler is used up."""
        return np.stack([one.flush() for one in self._each], axis=1)

    @property
    def replaced(self) -> int:
        """The number of samples that were no numbers."""
        return sum(one.replaced for one in self._each)


def to_int16(samples: FloatArray) -> npt.NDArray[np.int16]:
    """Convert samples with full scale at 1 to 16-bit PCM: rounded, half to even; louder ones are clipped."""
    # The largest number below full scale, since 32768 does not fit.
    return np.round(np.clip(samples, -1, 32767 / 32768) * 32768).astype(np.int16)


class Samples:
    """Splits interleaved samples of a fixed size from bytes in any portions: an incomplete one waits.

    `table` gives what each code of a companded encoding stands for.
    """

    def __init__(self, kind: str, channels: int, table: npt.NDArray[np.int16] | None = None) -> None:
        self._type = np.dtype(kind)
        self._channels = channels
        self._table = table
        self.waiting = b""

    @property
    def frame(self) -> int:
        """Bytes of one sample of every channel."""
        return self._type.itemsize * self._channels

    def decode(self, data: bytes) -> FloatArray:
        """Decode the next bytes to samples [n, channels] with full scale 1."""
        data = self.waiting + data
        whole = len(data) - len(data) % self.frame
        self.waiting = data[whole:]
        values: npt.NDArray[Any] = np.frombuffer(data[:whole], self._type)
        if self._table is not None:
            values = self._table[values]
        return to_float(values).reshape(-1, self._channels)


class PcmDecoder:
    """Decodes interleaved PCM at `rate` to 16 kHz float32, -1 to 1: mono [m], or with `apart` [m, channels].

    `feed` takes any number of bytes, also half a sample. After the last `feed`, `flush` gives the rest, and `leftover`
    tells how many bytes never became a sample (0 unless the input broke off).
    """

    def __init__(self, rate: int, *, channels: int = 1, sample_format: str = "s16le", apart: bool = False) -> None:
        """Raises `OptionError` for an unknown format, or an impossible rate or channel count."""
        check_choice("the sample format", sample_format, SAMPLE_FORMATS)
        self._resampler = ChannelResampler(rate, channels) if apart else StreamingResampler(rate, channels)
        self._samples = Samples(LINEAR[sample_format], channels)
        self.bytes_per_frame = self._samples.frame

    @property
    def leftover(self) -> int:
        """Bytes that wait for the rest of their sample."""
        return len(self._samples.waiting)

    @property
    def replaced(self) -> int:
        """The number of samples that were no numbers (NaN, infinite) and became silence."""
        return self._resampler.replaced

    @property
    def cancelled_s(self) -> float:
        """Seconds for which channels of opposite phase cancelled each other out."""
        return self._resampler.cancelled_s

    def feed(self, data: bytes) -> FloatArray:
        """Decode the next bytes; returns the samples that are ready (possibly none)."""
        return self._resampler.push(self._samples.decode(data))

    def flush(self) -> FloatArray:
        """Return the rest; then the decoder is used up."""
        return self._resampler.flush()
