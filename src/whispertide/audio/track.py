"""The audio track of a file: the container opened, one track of it decoded to 16 kHz mono, and its faults reported.

Time is the container's (`timeline`). Only recordings are opened: a playlist or any other form that leads to other
files, devices or the network is refused. `audio.file` has the functions for users.
"""

import io
import os
import warnings
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from whispertide.audio.buffer import to_float
from whispertide.audio.container import promised_size, with_full_width
from whispertide.audio.pcm import StreamingResampler
from whispertide.audio.timeline import Timeline
from whispertide.errors import AudioError, AudioFileError, OptionError, TruncatedAudioError
from whispertide.types import FloatArray

AudioSource = str | os.PathLike[str] | BinaryIO

_HEAD = 2**20  # bytes kept from the start of a file: a WAV or MP3 header may stand after tags with a cover picture
# Containers that state the exact length of a track; elsewhere a duration is an estimate from the bit rate.
_EXACT = frozenset({"flac", "mov", "mp4", "aiff", "au", "matroska"})
_GAPPED = frozenset({"mov", "mp4", "matroska"})  # those where gaps are no damage
# What ffmpeg may take a file for: recordings. Others of its formats are lists of files, addresses in the network or
# devices, and some of them open these by themselves, whatever is done about files that a file refers to.
_FORMATS = (
    "wav,w64,rf64,aiff,au,caf,voc,sln,nistsphere,ircam,paf,avr,wve,flac,ape,wv,tta,tak,shn,"
    "mp3,aac,loas,ac3,eac3,dts,dtshd,truehd,mlp,mpc,mpc8,ogg,amr,amrnb,amrwb,gsm,ilbc,g722,"
    "g729,bit,sbc,aptx,aptx_hd,qcp,dsf,iff,oma,aea,rso,sox,spdif,xwma,qoa,osq,mov,mp4,m4a,3gp,"
    "3g2,mj2,matroska,webm,asf,avi,flv,live_flv,mpeg,mpegts,dv,rm,ivr,mxf,gxf,nut,wtv,swf,nsv,"
    "ivf"
)
_OPTIONS = {"format_whitelist": _FORMATS, "protocol_whitelist": "none"}
_INDEX_LAST = (
    "An MP4 or M4A that has its index at its end cannot be read from a pipe: name the file, or put the index first "
    "(`ffmpeg -i IN -c copy -movflags +faststart OUT`)"
)
# Encoders pad and trim by some tens of milliseconds; what is missing beyond this was cut off.
_TOLERANCE_S = 0.25


@dataclass(frozen=True, slots=True)
class AudioTracks:
    """The audio tracks of a file: the title of each ("" if it has none), and the number of the preferred."""

    names: tuple[str, ...]
    preferred: int

    def __str__(self) -> str:
        listed = ", ".join(f"{number}{name and f' ({name})'}" for number, name in enumerate(self.names, 1))
        return f"{len(self.names)} audio tracks: {listed}"


def waited(data: bytes | None) -> bytes:
    """The bytes that a stream gave. Raises `AudioError` for one that did not wait for them."""
    if data is None:
        raise AudioError("expected a stream that waits for its input; got one in non-blocking mode: make it blocking")
    return data


def warn_repaired(name: str, replaced: int, cancelled_s: float) -> None:
    """Warn of samples that were replaced, and of channels that cancelled each other out."""
    if replaced:
        warnings.warn(f"{name}: {replaced} samples were not numbers (NaN or infinite) and became silence", stacklevel=3)
    if cancelled_s:
        warnings.warn(
            f"{name}: for {cancelled_s:.1f} s the channels cancel each other out (opposite phase): one of them "
            "was turned round",
            stacklevel=3,
        )


class _Source:
    """The bytes of a file as they are at opening time, in the shape that PyAV reads from."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self.seen = 0
        self.head = b""
        self.size: int | None = None
        if file.seekable():
            self._base = file.tell()
            self.size = file.seek(0, io.SEEK_END) - self._base
            file.seek(self._base)

    def seekable(self) -> bool:
        return self.size is not None

    def read(self, count: int) -> bytes:
        if self.size is not None:
            # No further than the file went when it was opened: it may still be written to.
            count = min(count, max(0, self.size - self._at))
        data = waited(self._file.read(count))
        # Only what is read in order from the beginning; a decoder may jump.
        if self._at == len(self.head) < _HEAD:
            self.head += data
        if self._at == 0:
            data = with_full_width(data)
        self._at += len(data)
        self.seen = max(self.seen, self._at)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size or 0}[whence]
        self._at = base + offset
        self._file.seek(self._base + self._at)
        return self._at

    def tell(self) -> int:
        return self._at


@contextmanager
def open_track(source: AudioSource, number: int | None = None) -> Iterator["Track"]:
    """Open `source` down to its audio track; every failure becomes an `AudioFileError` that names it."""
    import av

    if not isinstance(source, str | os.PathLike):
        with _opened_container(_Source(source), _name(source), number, av) as track:
            yield track
        return
    name = os.fspath(source)
    try:
        file = open(name, "rb")  # noqa: SIM115 (closed below; only the opening belongs into this try)
    except OSError as error:
        raise AudioFileError(f"{name}: {_why_not_opened(error)}") from error
    with file, _opened_container(_Source(file), name, number, av) as track:
        yield track


def _name(file: BinaryIO) -> str:
    """The name of a file object for messages. Pipes have a number for a name, temporary files that or None."""
    name = getattr(file, "name", None)
    return os.fsdecode(name) if isinstance(name, str | bytes) and name else "the input"


def _why_not_opened(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file; check the path"
    if isinstance(error, IsADirectoryError):
        return "expected an audio file, got a directory; name the files in it"
    if isinstance(error, PermissionError):
        return "the file may not be read; check its permissions"
    return f"the file cannot be opened: {error.strerror or error}"


def _tag_settings(av: Any) -> dict[str, str]:
    """Settings that let a file not fail for its tags: PyAV reads them strictly as UTF-8 before 19, and has no such
    setting since.
    """
    return {"metadata_errors": "ignore"} if int(av.__version__.split(".")[0]) < 19 else {}


@contextmanager
def _opened_container(source: _Source, name: str, number: int | None, av: Any) -> Iterator["Track"]:
    if source.size == 0:
        raise AudioFileError(f"{name}: the file is empty (0 bytes); expected audio")
    try:
        # Three locks, each of which is enough for what is known: no such format, no protocol, and `io_open` refuses.
        container = av.open(source, io_open=_refuse, container_options=_OPTIONS, **_tag_settings(av))
    except AudioError:  # the stream itself cannot be used
        raise
    except (av.FFmpegError, OSError, ValueError) as error:
        what = "nothing came" if not source.seen else f"not audio, or damaged or cut off ({_reason(error)})"
        raise AudioFileError(
            f"{name}: expected audio that ffmpeg reads (WAV, FLAC, MP3, Ogg, M4A …); {what}"
        ) from error
    with container:
        yield Track(container, source, name, number, av)


def _tag(stream: Any, name: str) -> str:
    """A tag of a stream; "" if it has none ("und" is MP4's undetermined language)."""
    value = stream.metadata.get(name, "")
    return "" if value == "und" else str(value)


def _clock_s(text: str) -> float | None:
    """Parse Matroska's "00:01:02.500000000" as seconds; None for anything else."""
    try:
        hours, minutes, seconds = text.split(":")
        return 3600 * int(hours) + 60 * int(minutes) + float(seconds)
    except ValueError:
        return None


def _refuse(url: str, *_: object) -> Any:
    raise PermissionError(f"the file refers to {url}, which is not opened")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _values(frame: Any) -> npt.NDArray[Any]:
    """The samples of a frame as they are: planar [channels, n], packed [1, n * channels]."""
    if not frame.format.name.startswith("s64"):
        values: npt.NDArray[Any] = frame.to_ndarray()
        return values
    # PyAV has no arrays of these; a plane may be longer than what it holds.
    count = frame.samples if frame.format.is_planar else frame.samples * frame.layout.nb_channels
    return np.stack([np.frombuffer(plane, np.int64)[:count] for plane in frame.planes])


class Track:
    """The audio track of an open container, and the errors while it was read."""

    def __init__(self, container: Any, source: _Source, name: str, number: int | None, av: Any) -> None:
        self._container, self._source, self._name, self._av = container, source, name, av
        self._stream = self._chosen(number)
        if self._stream.codec_context is None:
            raise AudioFileError(f"{name}: this build of ffmpeg has no decoder for the file's audio; convert it to WAV")
        self._resampler: StreamingResampler | None = None
        self._replaced = 0
        self._cancelled_s = 0.0
        begin = container.start_time
        self._timeline = Timeline(begin / av.time_base if begin else 0.0)
        # In seconds, because the rate may change in mid-stream.
        self._decoded_s = 0.0
        self._spanned_s = 0.0  # from the first frame to the end of the newest, gaps included
        self._end_s = 0.0  # where the newest frame ends by its time stamp
        self._damaged = 0  # packets that could not be decoded
        self._failure = ""  # why reading stopped before the end

    def _chosen(self, number: int | None) -> Any:
        """The audio stream of this number, from 1, or the preferred one."""
        tracks = self._container.streams.audio
        if not tracks:
            kinds = ", ".join(sorted({stream.type for stream in self._container.streams})) or "nothing"
            raise AudioFileError(f"{self._name}: expected an audio track; the file holds only {kinds}")
        if number is None:
            best = self._container.streams.best("audio")
            if best is None:  # ffmpeg does not know how many channels it has, or what rate
                raise AudioFileError(
                    f"{self._name}: the file has no audio track that ffmpeg can read: it is damaged; convert it to WAV"
                )
            return best
        if not 1 <= number <= len(tracks):
            raise AudioFileError(f"{self._name}: expected a track from 1 to {len(tracks)}; got {number}")
        return tracks[number - 1]

    def tracks(self) -> AudioTracks:
        """List all audio tracks by language and title, with the number of this one."""
        streams = self._container.streams.audio
        names = tuple(" ".join(filter(None, (_tag(stream, "language"), _tag(stream, "title")))) for stream in streams)
        return AudioTracks(names, streams.index(self._stream) + 1)

    def duration_s(self) -> float | None:
        """Seconds by the track, else by the container."""
        if self._stream.duration:
            return float(self._stream.duration * self._stream.time_base)
        duration = self._container.duration
        return duration / self._av.time_base if duration and duration > 0 else None

    def counted_s(self, most_s: float) -> float:
        """Seconds of its packets, counted until they exceed `most_s`; for FLAC that states more, that."""
        stated_s = self.duration_s() if self._container.format.name == "flac" else None
        if stated_s is not None and stated_s > most_s:
            return stated_s
        total_s = 0.0
        try:
            for packet in self._container.demux(self._stream):
                total_s += self._packet_s(packet)
                if total_s > most_s:
                    break
        except (self._av.FFmpegError, OSError):
            pass  # here the audio ends, and `samples` says why
        return total_s

    def _packet_s(self, packet: Any) -> float:
        if packet.duration and packet.time_base:
            return float(packet.duration * packet.time_base)
        try:
            return float(sum(frame.samples / frame.sample_rate for frame in packet.decode()))
        except self._av.FFmpegError:  # damaged: it will be skipped
            return 0.0

    @property
    def channels(self) -> int:
        """The number of channels, by the header."""
        return int(self._stream.codec_context.layout.nb_channels)

    def samples(self, channel: int | None = None) -> Iterator[FloatArray]:
        """Decode all of the track at 16 kHz mono, in portions as they come: all channels mixed, or one, from 1."""
        for frame in self._frames():
            yield from self._convert(frame, channel)
        yield self._flush()

    def _frames(self) -> Iterator[Any]:
        """Decode frames. A damaged packet is skipped and counted; if reading fails, the audio ends."""
        try:
            for packet in self._container.demux(self._stream):
                try:
                    yield from packet.decode()
                except self._av.FFmpegError:
                    self._damaged += 1
        except (self._av.FFmpegError, OSError) as error:
            self._failure = _reason(error)

    def _convert(self, frame: Any, channel: int | None) -> Iterator[FloatArray]:
        """Resample one frame; a new resampler takes over if the rate or the channels change in mid-stream. A channel
        that the frame does not have is silent.
        """
        values = _values(frame)
        samples = to_float(values.T if frame.format.is_planar else values.reshape(-1, frame.layout.nb_channels))
        if channel is not None:
            samples = samples[:, channel - 1 : channel] if channel <= samples.shape[1] else 0 * samples[:, :1]
        rate, channels = frame.sample_rate, samples.shape[1]
        current = self._resampler
        if current is None or (current.rate_in, current.channels) != (rate, channels):
            # What the old resampler holds belongs before the new audio.
            yield self._flush()
            try:
                current = self._resampler = StreamingResampler(rate, channels)
            except OptionError as error:
                raise AudioFileError(f"{self._name}: {error}") from error
        length_s = len(samples) / rate
        if frame.time is not None:
            self._end_s = frame.time + length_s
        gap_s = self._timeline.advance(frame.time, length_s)
        self._spanned_s += length_s + (gap_s if self._decoded_s else 0.0)
        self._decoded_s += length_s
        missing = round(gap_s * rate)
        for at in range(0, missing, rate):
            yield current.push(np.zeros((min(rate, missing - at), channels), np.float32))
        yield current.push(samples)

    def _flush(self) -> FloatArray:
        if self._resampler is None:
            return np.zeros(0, np.float32)
        rest = self._resampler.flush()
        self._replaced += self._resampler.replaced
        self._cancelled_s += self._resampler.cancelled_s
        return rest

    def complain(self) -> None:
        """After the last sample, warn of repaired samples, and raise if the audio was not complete."""
        warn_repaired(self._name, self._replaced, self._cancelled_s)
        reason = self._missing()
        if reason and not self._decoded_s:
            if self._is_of({"mp4"}) and self._source.size is None:
                reason = f"{reason}. {_INDEX_LAST}"
            raise AudioFileError(f"{self._name}: expected audio; none could be decoded: {reason}")
        if reason:
            raise TruncatedAudioError(
                f"{self._name}: {reason}; the {self._decoded_s:.1f} s that are there were decoded"
            )

    def _missing(self) -> str:
        """The reason why the audio is not complete; empty if it is, as far as the file tells."""
        if self._failure:
            return f"reading stopped early: {self._failure}"
        there = self._source.seen if self._source.size is None else self._source.size
        promised = promised_size(self._source.head)
        if promised is not None and there < promised:
            return f"the file is cut off: its header promises {promised} bytes, it has {there}"
        whole_s = self._promised_s()
        if whole_s is not None and self._reached_s() < whole_s - _TOLERANCE_S:
            return f"the file is cut off: its header promises {whole_s:.1f} s"
        return f"{self._damaged} damaged parts were skipped" if self._damaged else ""

    def _reached_s(self) -> float:
        """Seconds of the promised length that are there, with the gaps where a recorder left silence out. Matroska
        promises the last time stamp, and the first one need not be 0.
        """
        if not self._is_of(_GAPPED):
            return self._decoded_s
        return max(self._spanned_s, self._end_s) if self._is_of({"matroska"}) else self._spanned_s

    def _is_of(self, formats: Set[str]) -> bool:
        """True if the container is of one of these formats; ffmpeg has several names for most."""
        return not formats.isdisjoint(self._container.format.name.split(","))

    def _promised_s(self) -> float | None:
        """The exact length by the header, if there is one for this track alone."""
        if not self._is_of(_EXACT):
            return None
        if self._is_of({"matroska"}):  # ffmpeg gives every track the length of the longest
            own = _clock_s(self._stream.metadata.get("DURATION", ""))
            if own is not None:
                return own
            return self.duration_s() if len(self._container.streams) == 1 else None
        alone = len(self._container.streams) == 1
        return self.duration_s() if self._stream.duration or alone else None
