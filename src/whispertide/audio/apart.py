"""The channels of a recording, each to be read by itself. Knows nothing of who speaks on them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from whispertide.atomic import printable
from whispertide.audio.file import channel_count, decode_blocks
from whispertide.audio.pcm import MAX_CHANNELS
from whispertide.audio.track import AudioSource
from whispertide.errors import AudioFileError
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class FileChannel:
    """One channel of a file, from 1, as blocks of 16 kHz mono samples. A file object is read from position `at` on,
    each time that it is iterated over.
    """

    source: AudioSource
    track: int | None
    number: int
    at: int | None = None

    def __iter__(self) -> Iterator[FloatArray]:
        """Decode it; see `decode_blocks`."""
        if self.at is not None:
            cast(BinaryIO, self.source).seek(self.at)
        return decode_blocks(self.source, track=self.track, channel=self.number)


def file_channels(source: AudioSource, *, track: int | None = None, most: int = MAX_CHANNELS) -> list[FileChannel]:
    """Find the channels of a file; one file object cannot be read by two at once.

    Raises `AudioFileError` as `decode_blocks` does, for fewer than two channels or more than `most`, and for a file
    object that can be read only once.
    """
    at: int | None = None
    name = "the audio" if hasattr(source, "read") else printable(str(source))
    if hasattr(source, "read"):
        file = cast(BinaryIO, source)
        if not file.seekable():
            raise AudioFileError("expected a file to keep its channels apart; this one can be read once: save it first")
        at = file.tell()
    count = channel_count(source, track=track)
    if at is not None:
        cast(BinaryIO, source).seek(at)
    if count < 2:
        raise AudioFileError(f"{name}: expected two channels or more, to keep them apart; it has one")
    if count > most:
        raise AudioFileError(f"{name}: expected at most {most} channels, to keep them apart; it has {count}")
    return [FileChannel(source, track, number, at) for number in range(1, count + 1)]
