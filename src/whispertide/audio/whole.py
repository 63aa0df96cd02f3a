"""A recording that may break off: its audio up to there, and the error after it. Knows nothing of files."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from whispertide.errors import AudioError
from whispertide.types import FloatArray

T = TypeVar("T")


@dataclass(slots=True)
class Recording:
    """Wraps `blocks` in an iterable that ends at an error of the audio.

    samples   that were read so far
    broken    why the audio is not whole; None if it is, as far as it was read
    """

    blocks: Iterable[FloatArray]
    samples: int = 0
    broken: AudioError | None = None

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield the blocks. Raises `AudioError` if there is no audio at all; blocks before an error are kept."""
        try:
            for block in self.blocks:
                self.samples += len(block)
                yield block
        except AudioError as error:
            if self.samples == 0:
                raise
            self.broken = error.with_traceback(None)  # its frames have this recording and what was made of it
        if self.samples == 0:
            raise AudioError("there is no audio in it: it is empty")

    def then_fail(self, made: Iterable[T]) -> Iterator[T]:
        """Yield what is made of the recording; then raise the error of its rest."""
        yield from made
        broken = self.broken
        if broken is not None:
            try:
                raise broken
            finally:
                del broken, self  # the error has this frame: it would keep itself and all the audio
