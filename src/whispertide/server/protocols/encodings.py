"""Decode the audio of wire protocols: linear PCM, G.711, Opus (packets, Ogg, WebM), in any portions, to 16 kHz mono.

    audio = AudioInput("mulaw", rate=8000)
    samples = audio.feed(data)
    samples = audio.drain()  # all up to here, because the client asked for its words; feeding may go on

Knows no protocol; each has its own names for these encodings. Opus is decoded by FFmpeg (PyAV), which is imported when
the first Opus stream begins.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from whispertide.audio.pcm import LINEAR, Samples, StreamingResampler
from whispertide.errors import AudioError, OptionError
from whispertide.options import MOST_CHANNELS, check_choice
from whispertide.server.protocols.webm import WebmPackets
from whispertide.types import FloatArray

RATES = (4_000, 192_000)  # what telephones and sound files have; less would make little input much audio
_OPUS_RATE = 48_000  # RFC 6716: whatever rate was encoded, a decoder may give 48 kHz
PIECE = 32_000  # bytes to be decoded at once; nobody else has a turn meanwhile
CONTAINED_PIECE = 1024  # of a stream of Opus: at 6 kbit/s more than a second
_MOST_CONTAINED_S = 20  # in so many bytes of packets: a megabyte can hold sixteen hours, if hardly anything is in them
_SHORTEST_PACKET = _OPUS_RATE // 400  # samples: 2.5 ms (RFC 6716); an empty one counts as much, since it costs time too
_MAX_OGG_PACKET = 1 << 20  # an Opus packet has at most some 60 kB: a packet that goes on beyond this is damage

ENCODINGS = (*LINEAR, "mulaw", "alaw", "opus", "ogg-opus", "webm-opus")
_MARKS = {b"\x1aE\xdf\xa3": "webm-opus", b"OggS": "ogg-opus"}  # what a stream in a container begins with
MARK_BYTES = 4


def container_of(head: bytes) -> str | None:
    """The encoding of a stream in a known container, by its first bytes."""
    return next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), None)


class _Decoder(Protocol):
    """Decodes bytes to samples [n, channels] at the encoding's rate. Incomplete samples wait."""

    def decode(self, data: bytes) -> FloatArray:
        """Decode the next bytes. Raises `AudioError` if they are not as announced."""


class AudioInput:
    """Decodes a client's audio to 16 kHz mono float32 with full scale 1.

    Without `drain`, portions do not change the result (except for "opus", where one portion is one packet).
    """

    def __init__(self, encoding: str, *, rate: int = _OPUS_RATE, channels: int = 1, channel: int | None = None) -> None:
        """`rate` is ignored for Opus, which has it in its packets. Channels are mixed; `channel` (from 0): one alone.

        Raises `OptionError` for an encoding, rate or number of channels that cannot be.
        """
        check_choice("the encoding", encoding, ENCODINGS)
        if "opus" in encoding and channels not in (1, 2):
            raise OptionError(f"expected Opus with 1 or 2 channels; got {channels}")
        if not RATES[0] <= rate <= RATES[1]:
            raise OptionError(f"expected a sample rate between {RATES[0]} and {RATES[1]} Hz; got {rate}")
        if not 1 <= channels <= MOST_CHANNELS:
            raise OptionError(f"expected 1 to {MOST_CHANNELS} channels; got {channels}")
        # A packet of Opus is whole.
        self.piece = 0 if encoding == "opus" else CONTAINED_PIECE if "opus" in encoding else PIECE
        self._rate = _OPUS_RATE if "opus" in encoding else rate
        self._channel = channel
        self._channels = channels if channel is None else 1
        self._resampler = StreamingResampler(self._rate, self._channels)
        self._decoder = _make_decoder(encoding, channels)
        self.given = 0  # samples so far

    def feed(self, data: bytes) -> FloatArray:
        """Decode the next bytes to samples [n]. Raises `AudioError` if they cannot be decoded."""
        samples = self._decoder.decode(data)
        if self._channel is not None:
            samples = samples[:, self._channel : self._channel + 1]
        return self._count(self._resampler.push(samples))

    def drain(self) -> FloatArray:
        """Flush the resampler (some 30 ms), [n]; the next audio begins a new stretch. Half samples wait."""
        rest = self._resampler.flush()
        self._resampler = StreamingResampler(self._rate, self._channels)
        return self._count(rest)

    def _count(self, samples: FloatArray) -> FloatArray:
        self.given += len(samples)
        return samples


def _make_decoder(encoding: str, channels: int) -> _Decoder:
    if encoding == "opus":
        return _OpusPackets(channels)
    if encoding == "ogg-opus":
        return _ContainedOpus(_OggPackets(), channels)
    if encoding == "webm-opus":
        return _ContainedOpus(WebmPackets(), channels)
    if encoding == "mulaw":
        return Samples("u1", channels, _mulaw_table())
    if encoding == "alaw":
        return Samples("u1", channels, _alaw_table())
    return Samples(LINEAR[encoding], channels)


def _mulaw_table() -> npt.NDArray[np.int16]:
    """The 16-bit samples of the 256 codes of ITU-T G.711, mu-law."""
    # All bits are sent inverted.
    code = ~np.arange(256, dtype=np.uint8)
    exponent, mantissa = (code >> 4) & 7, (code & 15).astype(np.int32)
    # 132 is the bias that the encoder has added.
    magnitude = (((mantissa << 3) + 132) << exponent) - 132
    # In mu-law this bit is set for negative samples, in A-law for positive ones.
    return np.where(code & 128, -magnitude, magnitude).astype(np.int16)


def _alaw_table() -> npt.NDArray[np.int16]:
    """The 16-bit samples of the 256 codes of ITU-T G.711, A-law."""
    # Every other bit is sent inverted.
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent, mantissa = ((code >> 4) & 7).astype(np.int32), (code & 15).astype(np.int32)
    # Segment 0 has no leading one, and its steps are as fine as those of segment 1.
    magnitude = np.where(exponent == 0, 16 * mantissa + 8, (16 * mantissa + 264) << np.maximum(exponent - 1, 0))
    return np.where(code & 128, magnitude, -magnitude).astype(np.int16)


class _OpusPackets:
    """Raw Opus (RFC 6716): every call is one packet."""

    def __init__(self, channels: int) -> None:
        import av

        self._errors: type[Exception] = av.FFmpegError
        self._packet = av.Packet
        self._codec: Any = av.CodecContext.create("opus", "r")
        self._codec.sample_rate = _OPUS_RATE
        self._codec.layout = "mono" if channels == 1 else "stereo"
        self._channels = channels

    def decode(self, data: bytes) -> FloatArray:
        if not data:  # FFmpeg would take it for the end
            return np.zeros((0, self._channels), np.float32)
        try:
            frames = self._codec.decode(self._packet(data))
        except self._errors as error:
            raise AudioError(f"expected an Opus packet; got {len(data)} other bytes ({error})") from error
        # FFmpeg gives a row for each channel.
        samples = [np.asarray(frame.to_ndarray(), np.float32).T for frame in frames]
        # Where no frame is whole it is empty, but has the right number of channels.
        return np.concatenate([np.zeros((0, self._channels), np.float32), *samples])


class _Container(Protocol):
    """Splits the bytes of a stream into packets."""

    def packets(self, data: bytes) -> Iterator[bytes]:
        """Return the audio packets that the next bytes complete. Raises `AudioError` if they are not as announced."""


class _ContainedOpus:
    """Opus in a container that is cut anywhere."""

    def __init__(self, container: _Container, channels: int) -> None:
        self._container = container
        self._opus = _OpusPackets(channels)
        self._channels = channels

    def decode(self, data: bytes) -> FloatArray:
        samples, total, size = [np.zeros((0, self._channels), np.float32)], 0, 0
        for packet in self._container.packets(data):
            decoded = self._opus.decode(packet)
            if len(decoded):
                samples.append(decoded)
            total, size = total + max(len(decoded), _SHORTEST_PACKET), size + len(packet)
            if total > _MOST_CONTAINED_S * _OPUS_RATE * max(1, size / CONTAINED_PIECE):
                raise AudioError(
                    f"expected at most {_MOST_CONTAINED_S} s of audio in {CONTAINED_PIECE} bytes of Opus; got more"
                )
        return np.concatenate(samples)


class _OggPackets:
    """The packets of an Ogg stream (RFC 3533, RFC 7845). Damage is an error, not a gap: TCP loses nothing."""

    def __init__(self) -> None:
        self._waiting = b""
        self._packet = b""

    def packets(self, data: bytes) -> Iterator[bytes]:
        """Return the audio packets that are complete, without the two header packets."""
        self._waiting += data
        for page, sizes in self._pages():
            start = 0
            for size in sizes:
                self._packet += page[start : start + size]
                start += size
                if len(self._packet) > _MAX_OGG_PACKET:
                    raise AudioError(f"expected Opus packets below {_MAX_OGG_PACKET} bytes; got a longer one")
                if size < 255:  # RFC 3533: a lacing value below 255 ends the packet
                    packet, self._packet = self._packet, b""
                    if not packet.startswith((b"OpusHead", b"OpusTags")):
                        yield packet

    def _pages(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the pages that are complete: body and lacing values. The rest is cut off once, not page by page."""
        data, at = self._waiting, 0
        # RFC 3533: a head of 27 bytes, whose last one counts the lacing values after it.
        while len(data) - at >= 27:
            if not data.startswith(b"OggS", at):
                raise AudioError(f"expected an Ogg page; got bytes that begin with {data[at : at + 4]!r}")
            body = at + 27 + data[at + 26]
            sizes = data[at + 27 : body]
            end = body + sum(sizes)
            if len(data) < end:
                break
            at = end
            yield data[body:end], sizes
        self._waiting = data[at:]
