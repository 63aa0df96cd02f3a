"""A recording whose channels are heard apart: each speaker has one, so no voices have to be told apart."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from whispertide.audio.whole import Recording
from whispertide.channels import labelled
from whispertide.cli.job import OfflineJob
from whispertide.formats.document import Document
from whispertide.types import FloatArray, OfflineSegment


@dataclass(slots=True, kw_only=True)
class ChannelsJob(OfflineJob):
    """One run over all channels, one after the other. The transcript has the segments of all in the order of their
    times, each with the number of its channel, from 1, as its speaker. `channels` give the audio of each; no other is
    read.
    """

    channels: Sequence[Iterable[FloatArray]]
    as_it_comes: ClassVar[Sequence[str]] = ()

    @property
    def apart(self) -> int:
        """Their number."""
        return len(self.channels)

    def heard(self, show: Callable[[int], None]) -> Iterator[OfflineSegment]:
        """Transcribe the channels."""
        for number, channel in enumerate(self.channels, 1):
            self.run_over.recording = Recording(channel)
            for segment in OfflineJob.heard(self, show):
                yield labelled(segment, number)

    def document(self) -> Document:
        """The transcript, in the order of its times."""
        self.run_over.segments.sort(key=lambda segment: segment.start)
        return OfflineJob.document(self)
