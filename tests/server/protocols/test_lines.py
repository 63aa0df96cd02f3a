"""Raw TCP lines: what whisper_streaming's and SimulStreaming's clients read."""

import json

import pytest

from each_row import each_row
from whispertide.events import Confirmed, Error, TurnEnd
from whispertide.server.protocols.base import Audio, Close, Finish, Problem, ProtocolError, Reply, Start
from whispertide.server.protocols.lines import JsonLinesProtocol, TextLinesProtocol
from whispertide.types import Word
from wire_conversation import Conversation, opening, said, silence

LATER = Word(" Grüße,\u2028dort", 16_000, 24_000)


def test_text_lines_have_milliseconds_and_the_text() -> None:
    protocol = TextLinesProtocol(opening())
    words = (Word(" The", 3_200, 8_000), Word(" house", 8_000, 14_400))
    (reply,) = protocol.events([Confirmed(0, 16_000, words)])
    assert reply == Reply("200 900  The house\n")  # the second space is the word's own, as in the original


def test_a_line_is_one_line_whatever_the_text() -> None:
    (reply,) = TextLinesProtocol(opening()).events([Confirmed(0, 24_000, (LATER,))])
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, str)
    assert reply.message.splitlines() == ["1000 1500  Grüße, dort"]


def test_json_lines() -> None:
    protocol = JsonLinesProtocol(opening())
    (reply,) = protocol.events([Confirmed(0, 32_000, (LATER,))])
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, str)
    assert reply.message.endswith("\n")
    assert json.loads(reply.message) == {
        "start": 1.0,
        "end": 1.5,
        "text": LATER.text,
        "words": [{"start": 1.0, "end": 1.5, "text": LATER.text}],
        "is_final": False,
        "emission_time": 2.0,
    }


def test_a_line_has_words_of_one_utterance() -> None:
    """Also where the end of one and the next come together, as to a client that reads slowly."""
    before, after = Word(" Tea?", 0, 8_000), Word(" Yes.", 40_000, 48_000)
    events = [Confirmed(0, 16_000, (before,)), TurnEnd(1, 24_000, 8_000), Confirmed(2, 56_000, (after,))]
    lines = [json.loads(str(reply.message)) for reply in JsonLinesProtocol(opening()).events(events)]  # type: ignore[union-attr]
    assert [(line["text"], line["is_final"], line["emission_time"]) for line in lines] == [
        (" Tea?", True, 1.5),
        (" Yes.", False, 3.5),
    ]
    plain = [str(reply.message) for reply in TextLinesProtocol(opening()).events(events)]  # type: ignore[union-attr]
    assert plain == ["0 500  Tea?\n", "2500 3000  Yes.\n"]


@pytest.mark.parametrize("kind", [TextLinesProtocol, JsonLinesProtocol])
def test_the_end_of_input_flushes(kind: type[TextLinesProtocol]) -> None:
    talk = Conversation(kind(opening()), said(9, pause_every=4))
    assert talk.performed == [Start()]
    for _ in range(40):
        talk.send(silence(0.25)[:-1])  # half a sample short, so samples come apart
        talk.step()
    talk.hang_up()
    talk.run()
    lines = [str(reply) for reply in talk.replies]
    if kind is JsonLinesProtocol:
        read = [json.loads(line) for line in lines]
        texts = [line["text"] for line in read]
        assert [line["is_final"] for line in read].count(True) >= 3
    else:
        texts = [line.rstrip("\n").split(" ", 2)[2] for line in lines]
        times = [tuple(map(int, line.split(" ")[:2])) for line in lines]
        assert times == sorted(times)
    assert "".join(texts).strip() == talk.text
    assert len(talk.heard) == 9
    assert talk.close == Close()


def test_half_samples_wait() -> None:
    protocol = TextLinesProtocol(opening())
    assert protocol.receive(b"\x01") == ()
    (audio,) = protocol.receive(b"\x02\x03")
    assert isinstance(audio, Audio)
    assert audio.samples.tolist() == [0x0201 / 32_768]


def test_finish_is_asked_for_once() -> None:
    talk = Conversation(TextLinesProtocol(opening()))
    talk.hang_up()
    talk.run()
    talk.hang_up()
    assert [action for action in talk.performed if isinstance(action, Finish)] == [Finish()]


def test_fatal_problems_close() -> None:
    protocol = JsonLinesProtocol(opening())
    assert protocol.problem(Problem("overloaded", "full", True)) == (Close(),)
    assert protocol.problem(Problem("too_fast", "slow down", False)) == ()
    assert list(protocol.events([Error(0, 0, "broken", True)])) == [Close()]


@each_row("kind", [TextLinesProtocol, JsonLinesProtocol])
@each_row("sizes", [(1000,), (1, 3, 1000), (4, 1000)])
def test_a_request_of_a_browser_is_no_audio(kind: type[TextLinesProtocol], sizes: tuple[int, ...]) -> None:
    """Any page may send one to this port, and would have its body transcribed."""
    request = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:43007\r\nContent-Length: 100\r\n\r\n" + bytes(100)
    protocol = kind(opening())
    protocol.opened()
    *before, last = sizes
    for size in before:
        protocol.receive(request[:size])
        request = request[size:]
    with pytest.raises(ProtocolError, match="HTTP") as caught:
        protocol.receive(request[:last])
    assert caught.value.fatal


def test_samples_that_look_like_a_word_of_http_are_samples() -> None:
    protocol = TextLinesProtocol(opening())
    protocol.opened()
    assert protocol.receive(b"\0\0GET  POST ")
