"""Audio from files, pipes and file objects in any format of ffmpeg's libraries, as a stream of 16 kHz mono blocks.

Memory is constant however long the file is. Time is the container's: audio that begins later than the picture, or after
lost packets, has silence before it (`timeline`). Of several audio tracks the one ffmpeg prefers is taken, unless
another is asked for; channels are mixed by their mean. Zero-length audio (a header without samples) is no error: it
yields nothing. Of a file that is still being written, what was there when it was opened is decoded. Only recordings are
decoded: a playlist or any other form that leads to other files, devices or the network is refused, so files from
strangers are safe to open.

Knows nothing of speech. Resampling and repair are `audio.pcm`'s.
"""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np

from whispertide.audio.pcm import PcmDecoder
from whispertide.audio.track import AudioSource, AudioTracks, open_track, waited, warn_repaired
from whispertide.errors import AudioError, OptionError, TruncatedAudioError
from whispertide.types import SAMPLE_RATE, FloatArray

_READ = 2**16  # bytes asked for at a time


def decode_blocks(
    source: AudioSource, *, block: int = SAMPLE_RATE, track: int | None = None, channel: int | None = None
) -> Iterator[FloatArray]:
    """Decode `source` to 16 kHz mono float32, [block] samples at a time (the last block may be shorter).

    `track` is the number of the audio track, from 1; None takes the one that ffmpeg prefers (see `audio_tracks`).
    `channel` is the number of the only channel that is wanted, from 1 (see `channel_count`); None: all are mixed.

    A path, or a binary file object from its current position on (which need not be seekable, and stays open).
    Full scale is +-1; samples beyond it are kept. Samples that are no numbers become silence; a `UserWarning`
    at the end says how many, another how long channels cancelled each other out. Nothing is opened before the first
    block is asked for.

    Raises `AudioFileError` if there is nothing to decode: missing, unreadable, a directory, empty, not audio, without
    an audio track. Raises `TruncatedAudioError` *after* the last block if the file is cut off or parts of it are
    damaged.
    """
    if block < 1:
        raise OptionError(f"expected a block of at least 1 sample; got {block}")
    with open_track(source, track) as opened:
        yield from rechunk(opened.samples(channel), block)
        opened.complain()


def load_audio(source: AudioSource) -> FloatArray:
    """Decode all of `source` at once: 16 kHz mono float32, [n] (230 MB per hour). Raises the errors of `decode_blocks`.

    To keep what a truncated file still holds, collect the blocks of `decode_blocks` instead.
    """
    blocks = list(decode_blocks(source, block=60 * SAMPLE_RATE))
    return np.concatenate(blocks) if blocks else np.zeros(0, np.float32)


def duration_of(source: AudioSource) -> float | None:
    """Seconds of audio by the file's header, without decoding it; None if it does not say.

    Raises `AudioFileError` as `decode_blocks` does. The file of a seekable file object can be decoded afterwards; a
    pipe cannot, because it has been read from.
    """
    with open_track(source) as track:
        return track.duration_s()


def audio_tracks(source: AudioSource) -> AudioTracks:
    """The audio tracks of a file, numbered from 1. Raises `AudioFileError` as `decode_blocks` does."""
    with open_track(source) as track:
        return track.tracks()


def channel_count(source: AudioSource, *, track: int | None = None) -> int:
    """The number of channels of a file's audio track. Raises `AudioFileError` as `decode_blocks` does."""
    with open_track(source, track) as opened:
        return opened.channels


def count_seconds(source: AudioSource, most_s: float) -> float:
    """Count seconds of audio by packets; only those without a duration are decoded. Stops beyond `most_s`: some twenty
    times as fast as decoding. Unreadable packets are not counted.

    Of FLAC that states more than `most_s` it is what it states, even if it is cut off: to find its packets takes about
    as long as to decode them.

    Raises `AudioFileError` as `decode_blocks` does. The file of a seekable file object can be decoded afterwards.
    """
    with open_track(source) as track:
        return track.counted_s(most_s)


def pcm_blocks(
    stream: BinaryIO,
    rate: int,
    *,
    channels: int = 1,
    sample_format: str = "s16le",
    block: int = SAMPLE_RATE // 10,
    apart: bool = False,
) -> Iterator[FloatArray]:
    """Convert raw interleaved PCM from a pipe or socket to 16 kHz mono float32, [block] samples at a time. With `apart`
    channels are not mixed: [block, channels].

    Waits for input as the stream does, and takes what has arrived: nothing is held back but the unfinished block.
    Raises `OptionError` for a rate, channel count or format that cannot be; `TruncatedAudioError` after the last block
    if the input ends inside a sample; `AudioError` if it ends inside the first one, or if the stream does not wait
    (non-blocking mode).
    """
    decoder = PcmDecoder(rate, channels=channels, sample_format=sample_format, apart=apart)
    any_audio = False
    for samples in rechunk(_pcm_parts(stream, decoder), block):
        any_audio = True
        yield samples
    warn_repaired("the input", decoder.replaced, decoder.cancelled_s)
    if decoder.leftover and not any_audio:
        raise AudioError(
            f"expected audio; the input ended inside its first sample: {decoder.leftover} of "
            f"{decoder.bytes_per_frame} bytes ({channels} x {sample_format})"
        )
    if decoder.leftover:
        raise TruncatedAudioError(
            f"the input ended inside a sample: expected a multiple of {decoder.bytes_per_frame} bytes "
            f"({channels} x {sample_format}), got {decoder.leftover} more; all whole samples were used"
        )


def _pcm_parts(stream: BinaryIO, decoder: PcmDecoder) -> Iterator[FloatArray]:
    # A buffered reader's read(n) waits for all n bytes; read1 gives what is there.
    read = getattr(stream, "read1", stream.read)
    while data := waited(read(_READ)):
        yield decoder.feed(data)
    yield decoder.flush()


def rechunk(parts: Iterable[FloatArray], block: int) -> Iterator[FloatArray]:
    """Regroup samples in portions of exactly `block`; the last may be shorter. An `AudioError` comes after it."""
    waiting: list[FloatArray] = []
    count = 0
    broken: AudioError | None = None
    try:
        for part in parts:
            waiting.append(part)
            count += len(part)
            if count >= block:
                audio = np.concatenate(waiting)
                whole = count - count % block
                yield from (audio[at : at + block] for at in range(0, whole, block))
                waiting, count = [audio[whole:]], count - whole
    except AudioError as error:
        broken = error
    if count:
        yield np.concatenate(waiting)
    if broken is not None:
        try:
            raise broken
        finally:
            del broken  # the error has this frame: it would keep itself, and whoever reads the file
