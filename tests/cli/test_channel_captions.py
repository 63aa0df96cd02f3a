"""Lines that grow next to each other, one for each channel."""

from collections.abc import Sequence

from whispertide.cli.channel_captions import ChannelCaptions
from whispertide.events import Confirmed, End, Event, Hypothesis, Translation, of_channel
from whispertide.formats.document import TextSegment
from whispertide.types import Word

WIDTH = 40


def said(*texts: str) -> tuple[Word, ...]:
    return tuple(Word(text, 100 * number, 100 * number + 80) for number, text in enumerate(texts))


def after(*events: tuple[int, Event]) -> ChannelCaptions:
    captions = ChannelCaptions()
    for channel, event in events:
        captions.take(of_channel(event, channel))
    return captions


def texts(rows: Sequence[object]) -> list[str]:
    return [str(row) for row in rows]


def test_a_guess_replaces_that_of_its_own_channel_alone() -> None:
    captions = after(
        (2, Hypothesis(0, 0, said(" Yes"))),
        (1, Confirmed(0, 0, said(" How"))),
        (1, Hypothesis(1, 0, said(" is"))),
        (1, Hypothesis(2, 0, said(" are", " you"))),
    )
    assert texts(captions.drawn(WIDTH)) == ["Speaker 1: How are you", "Speaker 2: Yes"]
    assert captions.drawn_finished(WIDTH) == []


def test_a_finished_line_goes_up_and_what_follows_stays() -> None:
    captions = after((1, Confirmed(0, 0, said(" Well.", " So"))), (2, Confirmed(0, 0, said(" No"))))
    captions.end_lines([TextSegment(0, 80, " Well.", said(" Well."), speaker=1)])
    assert texts(captions.drawn_finished(WIDTH)) == ["Speaker 1: Well."]
    assert captions.drawn_finished(WIDTH) == []
    assert texts(captions.drawn(WIDTH)) == ["Speaker 1: So", "Speaker 2: No"]


def test_a_translation_stands_under_the_line_of_its_channel() -> None:
    captions = ChannelCaptions(expected=1)
    for channel, text in ((1, " Tea?"), (2, " Yes.")):
        captions.take(of_channel(Confirmed(0, 0, said(text)), channel))
        captions.end_lines([TextSegment(0, 80, text, said(text), speaker=channel)])
    assert captions.drawn_finished(WIDTH) == []
    captions.take(of_channel(Translation(0, 0, 0, 80, "fr", "Oui."), 2))
    waiting = ["Speaker 1: Tea?", "Speaker 2: Yes.", "[fr] Speaker 2: Oui."]
    assert texts(captions.drawn_finished(WIDTH) + captions.drawn(WIDTH)) == waiting
    captions.take(of_channel(Translation(0, 0, 0, 80, "fr", "Du thé ?"), 1))
    assert texts(captions.drawn_finished(WIDTH)) == [waiting[0], "[fr] Speaker 1: Du thé ?", *waiting[1:]]
    assert captions.drawn(WIDTH) == []


def test_a_long_line_is_broken() -> None:
    captions = after((1, Confirmed(0, 0, said(" one", " two", " three"))))
    assert texts(captions.drawn(18)) == ["Speaker 1: one two", "three"]


def test_the_end_of_a_channel_drops_its_guess_and_the_end_of_the_view_all() -> None:
    captions = after((1, Hypothesis(0, 0, said(" a"))), (2, Hypothesis(0, 0, said(" b"))), (1, End(1, 0, 0)))
    assert texts(captions.drawn(WIDTH)) == ["Speaker 2: b"]
    captions.suppose(())
    assert captions.drawn(WIDTH) == []
