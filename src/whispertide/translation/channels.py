"""The translations of one stream whose channels are apart: one for each channel, which are used as one.

Each asks by itself, one request at a time. So a channel with much to say costs the others nothing, and the sentences
that go out together, and those before them, are of one speaker.
"""

from collections.abc import Sequence

from whispertide.events import Event, of_channel
from whispertide.translation.translating import Translating


class ChannelTranslating:
    """As `Translating`; events of a session have their channel, from 1, and what comes of them has it, too."""

    def __init__(self, channels: Sequence[Translating]) -> None:
        self.channels = tuple(channels)

    def take(self, event: Event) -> None:
        """Take an event of a channel, or of all."""
        for one in self.channels if event.channel is None else [self.channels[event.channel - 1]]:
            one.take(event)

    def ready(self) -> list[Event]:
        """The new events, each of its channel."""
        return [of_channel(event, number) for number, one in enumerate(self.channels, 1) for event in one.ready()]

    def finish(self) -> None:
        """Nothing follows; see `Translating.finish`."""
        for one in self.channels:
            one.finish()

    def close(self) -> None:
        """Give up everything."""
        for one in self.channels:
            one.close()

    def give_up(self) -> None:
        """End the wait for what is not there; see `Translating.give_up`."""
        for one in self.channels:
            one.give_up()

    @property
    def is_done(self) -> bool:
        """True if nothing more comes, until there are other sentences."""
        return all(one.is_done for one in self.channels)

    @property
    def has_room(self) -> bool:
        """False where a channel has so much waiting that a recording need not be read on at once."""
        return all(one.has_room for one in self.channels)

    def wait(self, most_s: float) -> None:
        """Wait until the first channel that is not done has something new, but not longer than that."""
        if (first := next((one for one in self.channels if not one.is_done), None)) is not None:
            first.wait(most_s)
