"""A microphone's audio in a WAV file, written as it comes: it is there however a run ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from whispertide.atomic import writing
from whispertide.audio.wav import wav_writer, write_samples
from whispertide.cli.pump import Arrivals
from whispertide.errors import OutputError
from whispertide.types import FloatArray

Keep = Callable[[FloatArray], None]

_MOST = (2**32 - 1 - 36) // 2  # samples of all channels: the header counts bytes in 32 bits, its own included


@dataclass(frozen=True, slots=True)
class KeptArrivals:
    """`Arrivals` whose audio is kept as it is taken: the file holds the transcribed audio, no more and no less."""

    arrivals: Arrivals
    keep: Keep

    def __iter__(self) -> Iterator[FloatArray]:
        for block in self.arrivals:
            self.keep(block)
            yield block

    def rest(self) -> FloatArray:
        """Take the rest as `Arrivals` does."""
        block = self.arrivals.rest()
        self.keep(block)
        return block


@contextmanager
def kept_audio(path: Path, channels: int = 1) -> Iterator[Keep]:
    """Open a new WAV file, 16 bits a sample, and yield the function that appends samples [n] at 16 kHz, of several
    channels [n, channels]. Both raise `OutputError` if there is no room or no permission.
    """
    with writing(path):
        file = path.open("wb")
        writer = wav_writer(file, channels)

    def keep(samples: FloatArray) -> None:
        if channels * (writer.getnframes() + len(samples)) > _MOST:
            raise OutputError(f"{path} is full: a WAV file holds {37 // channels} hours of audio; start another")
        with writing(path):
            write_samples(writer, samples)

    try:
        yield keep
    finally:
        with writing(path), file:
            writer.close()
