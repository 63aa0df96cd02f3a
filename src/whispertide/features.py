"""Whisper's log-mel spectrogram: of a whole recording, and of a stream as it arrives.

    samples -> power spectra (400-sample Hann windows, hop 160) -> 80 or 128 Slaney mels -> log10      "raw" frames
    raw frames -> floor at (loudest cell - 8) -> (x + 4) / 4                                          `normalise`

The floor depends on the loudest cell of whatever the encoder is about to see, so a stream caches raw frames and applies
the floor per window. (openai/whisper, audio.py; ALGORITHMS 0.) Knows nothing of models beyond the number of mels.

On one machine a raw frame depends on its 400 samples alone, to the last bit, not on the frames computed with it or on
the number of threads. A matrix product cannot promise that: a BLAS sums in another order where the matrix has another
width. So each mel is summed bin by bin, with operations that treat every frame by itself.
"""

import math
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from whispertide.errors import AudioError
from whispertide.spooled_frames import SpooledFrames
from whispertide.types import HOP_LENGTH, N_FFT, N_FRAMES, SAMPLE_RATE, FloatArray

_DoubleArray = npt.NDArray[np.float64]

RAW_SILENCE = -10.0  # log10 of the smallest power that is told apart from nothing, 1e-10
FLOOR_DEPTH = 8.0  # the floor lies this far (in log10 power) below the loudest cell
_EDGE = N_FFT // 2  # a frame is centred: it looks 200 samples back and 200 ahead
_MIRRORED = 2  # frames at the beginning that look at samples before the first one
MOST_KEPT = 24_000  # frames of a recording that are kept in memory, four minutes; more go to a temporary file
_BATCH = 128  # frames transformed at once: what they need stays in the processor's cache

# The Slaney mel scale: linear below 1 kHz, logarithmic above (Slaney, Auditory Toolbox, 1998).
_LINEAR_HZ = 200.0 / 3.0
_BREAK_HZ = 1000.0
_BREAK_MEL = _BREAK_HZ / _LINEAR_HZ
_LOG_STEP = np.log(6.4) / 27.0


def _mel_to_hz(mel: _DoubleArray) -> _DoubleArray:
    return np.where(mel < _BREAK_MEL, mel * _LINEAR_HZ, _BREAK_HZ * np.exp(_LOG_STEP * (mel - _BREAK_MEL)))


def _hz_to_mel(hz: float) -> float:
    return hz / _LINEAR_HZ if hz < _BREAK_HZ else _BREAK_MEL + float(np.log(hz / _BREAK_HZ)) / _LOG_STEP


@lru_cache
def mel_filters(n_mels: int) -> FloatArray:
    """Triangular filters of unit area, [n_mels, 201]."""
    edges = _mel_to_hz(np.linspace(0.0, _hz_to_mel(SAMPLE_RATE / 2), n_mels + 2))
    bins = np.linspace(0.0, SAMPLE_RATE / 2, N_FFT // 2 + 1)
    rising = (bins[None] - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins[None]) / np.diff(edges)[1:, None]
    area = 2.0 / (edges[2:] - edges[:-2])
    return (np.clip(np.minimum(rising, falling), 0.0, None) * area[:, None]).astype(np.float32)


@dataclass(frozen=True, slots=True)
class _Taps:
    """The filters' weights that are not zero, tap after tap: tap j of a filter is its weight of its j-th bin.

    bins, weights   [taps] and [taps, 1]: tap 0 of all filters, then tap 1 of the filters from `first[1]` on, and so on;
                    a filter among them that has no such bin weighs it with zero
    first           the first filter that has a tap j; higher filters are wider
    """

    bins: npt.NDArray[np.int64]
    weights: FloatArray
    first: tuple[int, ...]


@lru_cache
def _taps(n_mels: int) -> _Taps:
    filters = mel_filters(n_mels)
    counts = (filters > 0).sum(axis=1)
    first = (0, *(int(np.argmax(counts > tap)) for tap in range(1, counts.max())))
    rows = np.concatenate([np.arange(start, n_mels) for start in first])
    taps = np.repeat(np.arange(len(first)), n_mels - np.array(first))
    # Clipped for the filters that have no such tap; their weight is zero, so any bin will do.
    bins = np.minimum(np.argmax(filters > 0, axis=1)[rows] + taps, filters.shape[1] - 1)
    weights = np.where(taps < counts[rows], filters[rows, bins], np.float32(0))
    return _Taps(bins, weights[:, None], first)


@lru_cache
def _hann() -> _DoubleArray:
    return np.asarray(0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(N_FFT) / N_FFT))


def _raw_frames(samples: FloatArray, n_mels: int) -> FloatArray:
    """Compute raw frames [n_mels, frames] of every full 400-sample stretch of `samples` at hop 160."""
    if len(samples) < N_FFT:
        return np.empty((n_mels, 0), np.float32)
    stretches = np.lib.stride_tricks.sliding_window_view(samples, N_FFT)[::HOP_LENGTH]
    raw = np.empty((n_mels, len(stretches)), np.float32)
    for first in range(0, len(stretches), _BATCH):
        # In double precision: a quiet cell next to a loud one is what single precision leaves of it.
        spectrum = np.fft.rfft(stretches[first : first + _BATCH] * _hann(), axis=1)
        power = spectrum.real**2 + spectrum.imag**2
        mels = _mels(np.ascontiguousarray(power.T, np.float32), n_mels)
        raw[:, first : first + _BATCH] = np.log10(np.maximum(mels, 1e-10))
    return raw


def _mels(power: FloatArray, n_mels: int) -> FloatArray:
    """Sum the power [201, frames] in each filter, [n_mels, frames]: each column a function of that column alone."""
    taps = _taps(n_mels)
    weighted = power.take(taps.bins, axis=0)
    weighted *= taps.weights
    mels, at = weighted[:n_mels], n_mels
    for first in taps.first[1:]:
        mels[first:] += weighted[at : at + n_mels - first]
        at += n_mels - first
    return mels


def raw_log_mel(samples: FloatArray, n_mels: int, padding: int = 0) -> FloatArray:
    """Compute raw frames [n_mels, (len(samples) + padding) // 160] of a whole recording followed by `padding` zeros.

    Both ends are mirrored as in Whisper; a recording shorter than the mirror is padded with zeros first.
    """
    # Whisper leaves out the last frame of its transform (openai/whisper, audio.py: `stft[..., :-1]`).
    wanted = (len(samples) + padding) // HOP_LENGTH
    samples = np.concatenate([samples, np.zeros(padding + max(0, _EDGE + 1 - len(samples) - padding), np.float32)])
    return _raw_frames(np.pad(samples, _EDGE, mode="reflect"), n_mels)[:, :wanted]


def normalise(raw: FloatArray, peak: float | None = None) -> FloatArray:
    """Apply Whisper's floor and scale to raw frames; the floor lies below `peak`, the loudest cell.

    None measures it here. A framing whose window holds more than speech (a hush word, cached silence) gives its own.
    """
    if peak is None:
        peak = float(raw.max(initial=RAW_SILENCE))
    floored: FloatArray = np.maximum(raw, np.float32(peak - FLOOR_DEPTH))
    return (floored + np.float32(4.0)) / np.float32(4.0)


def padded(mel: FloatArray, frames: int) -> FloatArray:
    """Normalise frames [n_mels, n] of a window, with silence after them up to `frames`.

    What zeros after the audio would be: as much below the loudest cell as the floor is. A zero among normalised frames
    is a sound, 1e-4 of power.
    """
    silence = max(float(mel.max(initial=0.0)) - FLOOR_DEPTH / 4.0, (RAW_SILENCE + 4.0) / 4.0)
    return np.pad(mel, [(0, 0), (0, frames - mel.shape[1])], constant_values=silence)


def raw_columns(samples: FloatArray, n_mels: int, first: int, count: int) -> FloatArray:
    """Compute raw frames [n_mels, count] from frame `first` on of a recording that silence follows; its start is
    mirrored.

    Only the audio that they see is looked at, so that a stream costs the same however long it is.
    """
    start, end = first * HOP_LENGTH - _EDGE, (first + count - 1) * HOP_LENGTH + _EDGE
    audio = samples[max(start, 0) : end]
    if start < 0:
        mirrored = np.pad(samples[: max(end, _EDGE + 1)], (0, max(0, _EDGE + 1 - len(samples))))[1 : 1 - start]
        audio = np.concatenate([mirrored[::-1], audio])
    return _raw_frames(np.pad(audio, (0, end - start - len(audio))), n_mels)


def log_mel(samples: FloatArray, n_mels: int = 80, padding: int = 0) -> FloatArray:
    """Compute Whisper's features [n_mels, frames] of a whole recording, floor over all of it (`raw_log_mel`,
    `normalise`).
    """
    return normalise(raw_log_mel(samples, n_mels, padding))


@dataclass(slots=True)
class MelStream:
    """Raw frames of a stream, computed once as the audio arrives. Frame i is centred on sample 160 i.

    The beginning is mirrored, as Whisper pads it. Only frames that have all their audio are kept; `window` makes up the
    rest.
    """

    n_mels: int
    end: int = field(init=False, default=0)  # samples so far
    complete_end: int = field(init=False, default=0)  # one past the last frame that is kept
    _kept_from: int = field(init=False, default=0)  # the first frame of `_raw`
    _raw: list[FloatArray] = field(init=False, repr=False, default_factory=list)
    _tail: FloatArray = field(init=False, repr=False, default_factory=lambda: np.empty(0, np.float32))
    _tail_start: int = field(init=False, default=0)

    def extend(self, samples: FloatArray) -> None:
        """Take the samples that follow the ones so far."""
        self._tail = np.concatenate([self._tail, samples])
        self.end += len(samples)
        # two frames at once at the beginning: then none that follows sees the mirror
        if len(self._tail) >= _EDGE + HOP_LENGTH:
            raw = _raw_frames(self._with_past(self._tail), self.n_mels)
            if raw.shape[1]:
                self._keep(raw)

    def _with_past(self, tail: FloatArray) -> FloatArray:
        """Join `tail` with the samples before it that the next frame sees; `tail` is longer than the mirror."""
        if self._tail_start:
            return tail
        # Mirrored without the first sample itself, as padding by reflection does.
        return np.concatenate([tail[_EDGE:0:-1], tail])

    def _keep(self, raw: FloatArray) -> None:
        self._raw.append(raw)
        self.complete_end += raw.shape[1]
        needed = self.complete_end * HOP_LENGTH - _EDGE
        if needed > 0:
            # A copy: a view would keep everything before it in memory.
            self._tail = self._tail[needed - self._tail_start :].copy()
            self._tail_start = needed

    @property
    def kept(self) -> int:
        """The number of frames that are kept."""
        return self.complete_end - self._kept_from

    def take(self) -> FloatArray:
        """Take the kept frames [n_mels, n], which are no longer kept then."""
        taken = np.concatenate(self._raw, axis=1)
        self._raw, self._kept_from = [], self.complete_end
        return taken

    def window(self, first: int, count: int) -> FloatArray:
        """Raw frames [n_mels, count] from frame `first` on, which must still be kept, as if the stream were followed by
        silence.
        """
        unfinished = self._unfinished()
        missing = first + count - self.complete_end - unfinished.shape[1]
        silence = np.full((self.n_mels, max(0, missing)), RAW_SILENCE, np.float32)
        # All at once: the frames of a long recording fill hundreds of megabytes.
        whole = np.concatenate([*self._raw, unfinished, silence], axis=1)
        return whole[:, first - self._kept_from :][:, :count]

    def followed_by(self, samples: FloatArray) -> tuple[int, FloatArray]:
        """The frames that would come next if `samples`, then silence, followed: number and raw frames [n_mels, n] from
        the first that sees beyond the audio so far to the last that is centred before their end. Leaves the stream as
        it is.
        """
        # Shallow: the tail is only ever replaced, and the list of frames is exchanged right here.
        after = copy(self)
        after._raw, after._kept_from = [], self.complete_end
        after.extend(samples)
        return self.complete_end, after.window(self.complete_end, after.end // HOP_LENGTH - self.complete_end)

    def _unfinished(self) -> FloatArray:
        """Frames that reach into the audio that has arrived but also beyond it."""
        # Rounded up: a frame counts as soon as it sees one sample of the audio.
        missing = -(-(self.end + _EDGE) // HOP_LENGTH) - self.complete_end
        if missing <= 0 or not self.end:
            return np.empty((self.n_mels, 0), np.float32)
        longest = missing * HOP_LENGTH + N_FFT
        silent_end = np.pad(self._tail, (0, longest))
        samples = self._with_past(silent_end)
        return _raw_frames(samples[: (missing - 1) * HOP_LENGTH + N_FFT], self.n_mels)


@dataclass(frozen=True, slots=True)
class Columns:
    """Raw frames [n_mels, frames] of a recording, from its frame `first` on, each a function of the audio around it.

    Windows that follow each other share most of their audio: what one has computed the next need not compute again.
    """

    first: int
    # An array compared with another gives an array, which has no single truth value.
    raw: FloatArray = field(compare=False, repr=False)

    @classmethod
    def none(cls, n_mels: int) -> "Columns":
        return cls(0, np.empty((n_mels, 0), np.float32))

    def window(self, samples: FloatArray, at: int, length: int) -> FloatArray:
        """Compute raw frames [n_mels, frames] of a window [n], as if silence followed it; known ones are reused. It
        begins at frame `at` of the recording, of which its first `length` samples are.

        The same as `raw_columns` of the whole window.
        """
        n_mels, total = len(self.raw), len(samples) // HOP_LENGTH
        begin, end = max(self.first - at, _MIRRORED), min(self.first + self.raw.shape[1] - at, _complete(length))
        if begin >= end:
            return raw_columns(samples, n_mels, 0, total)
        known = self.raw[:, begin + at - self.first : end + at - self.first]
        before, after = raw_columns(samples, n_mels, 0, begin), raw_columns(samples, n_mels, end, total - end)
        return np.concatenate([before, known, after], axis=1)

    @classmethod
    def of_window(cls, raw: FloatArray, at: int, length: int) -> "Columns":
        """Keep the raw frames of a window that see the recording alone; `at` and `length` as in `window`."""
        return cls(at + _MIRRORED, raw[:, _MIRRORED : _complete(length)])


def _complete(samples: int) -> int:
    """The number of frames that see no further than so many samples."""
    return max(0, (samples - _EDGE) // HOP_LENGTH + 1)


def _check_peak(peak: float) -> float:
    if not math.isfinite(peak):
        raise AudioError("expected audio samples between -1 and 1; got infinite or undefined ones: repair the audio")
    return peak


@dataclass(frozen=True, slots=True)
class Features:
    """The log-mel frames of a whole recording, before the floor: 32 kB per second; the audio itself is not kept.

    raw [n_mels, frames], those of a long recording in a temporary file; `peak` is the loudest cell, from which the
    floor of every window is measured; `samples` the length of the recording. `after` holds the raw frames from
    `after_from` on with a hush word after the recording, if there is one; the floor is the recording's own all the
    same, so that quiet speech is not drowned.
    """

    raw: FloatArray | SpooledFrames
    peak: float
    samples: int
    after_from: int = 0
    after: FloatArray | None = None

    @classmethod
    def of(cls, blocks: Iterable[FloatArray], n_mels: int, suffix: FloatArray | None = None) -> "Features":
        """Compute from consecutive blocks of 16 kHz samples, with a hush word [n] after them (`followed`).

        Raises `AudioError` where a sample is not a number, `OutputError` where a long recording finds no room.
        """
        stream, spooled = MelStream(n_mels), None
        for block in blocks:
            stream.extend(block)
            if stream.kept > MOST_KEPT:
                spooled = spooled or SpooledFrames(n_mels)
                spooled.append(stream.take())
        first = 0 if spooled is None else spooled.count
        rest = stream.window(first, stream.end // HOP_LENGTH - first)
        if spooled is None:
            found = cls.of_raw(rest, stream.end)
        else:
            spooled.append(rest)
            found = cls(spooled, _check_peak(spooled.peak), stream.end)
        if suffix is None:
            return found
        after_from, after = stream.followed_by(suffix)
        return replace(found, after_from=after_from, after=after)

    @classmethod
    def of_raw(cls, raw: FloatArray, samples: int) -> "Features":
        """Make from the raw frames [n_mels, frames] of so many samples. Raises `AudioError` if one is not a number."""
        return cls(raw, _check_peak(float(raw.max(initial=RAW_SILENCE))), samples)

    @property
    def frames(self) -> int:
        """Mel frames of 10 ms."""
        return int(self.raw.shape[1])

    def window(self, start: int, count: int) -> FloatArray:
        """Normalised frames [n_mels, count] from `start` on."""
        return normalise(self.raw[:, start : start + count], self.peak)

    def followed(self, start: int, count: int) -> FloatArray:
        """Normalised frames [n_mels, count or more]: with the hush word, if there is one, after a window that reaches
        the end of the recording. A window that leaves it no room within 30 s needs none: speech fills it.
        """
        if self.after is None or start + count < self.frames:
            return self.window(start, count)
        after = self.after[:, max(0, start - self.after_from) :]
        raw = np.concatenate([self.raw[:, start : self.after_from], after], axis=1)
        return normalise(raw, self.peak) if raw.shape[1] <= N_FRAMES else self.window(start, count)

    def opening(self, first: int = 0) -> FloatArray:
        """The first 30 s for language detection, or those from frame `first` on: followed by silence, not by zeros."""
        missing = max(N_FRAMES - max(self.frames - first, 0), 0)
        found = self.raw[:, first : first + N_FRAMES]
        raw = np.pad(found, [(0, 0), (0, missing)], constant_values=RAW_SILENCE)
        return normalise(raw, self.peak)
