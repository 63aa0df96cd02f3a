"""A recording whose channels are heard apart: each speaker has one, so no voices have to be told apart."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import ClassVar

from whispertide.audio.whole import Recording
from whispertide.cli.job import OfflineJob
from whispertide.cli.output import Writer
from whispertide.formats.document import TextSegment
from whispertide.formats.offline import OfflineRun
from whispertide.types import FloatArray, spoken_by


@dataclass(slots=True, kw_only=True)
class ChannelsJob(OfflineJob):
    """One run for each channel. The transcript has the segments of all in the order of their times, each with the
    number of its channel, from 1, as its speaker. `channels` give the audio of each.
    """

    channels: Sequence[Iterable[FloatArray]]
    as_it_comes: ClassVar[Sequence[str]] = ()

    def hear(self, blocks: Iterable[FloatArray], writers: Sequence[Writer], saved: ExitStack) -> None:
        """Transcribe the channels, one after the other; an interrupt keeps what is done. `blocks` are not read."""
        saved.enter_context(self.interrupts)
        self.run_over = OfflineRun(Recording(()))  # over all of them
        found: list[TextSegment] = []
        for number, channel in enumerate(self.channels, 1):
            self.run_over.recording, self.run_over.segments = Recording(channel), []
            try:
                self.hear_whole((), number)
            finally:
                found += [labelled(segment, number) for segment in self.run_over.segments]
                self.result.segments = self.run_over.segments = sorted(found, key=lambda segment: segment.start)
            if self.result.interrupted:
                break


def labelled(segment: TextSegment, number: int) -> TextSegment:
    """The segment as a speaker's of this number."""
    return replace(segment, speaker=number, words=spoken_by(segment.words, number))
