"""The native protocol without sockets: whatever comes, it answers with actions or a `ProtocolError`."""

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from whispertide.server.protocols.base import (
    Abandon,
    Ack,
    Action,
    Audio,
    Clear,
    Close,
    Configure,
    Finish,
    Flush,
    ProtocolError,
    Reply,
    Resume,
    Start,
    Started,
)
from whispertide.server.protocols.native import NativeProtocol
from wire_conversation import Conversation, opening, said, silence
from wire_messages import messages

WORDS = said(9, pause_every=4)
PARAMETERS = ("rate", "channels", "format", "session", "last_seq", "vad", "task", "model", "x")


def talk(**query: str) -> Conversation:
    return Conversation(NativeProtocol(opening(**query)), WORDS)


def test_a_whole_conversation() -> None:
    conversation = talk()
    conversation.send(silence(4), {"type": "flush"}, silence(6), {"type": "finish"})
    conversation.run()
    kinds = [reply["type"] for reply in conversation.json()]
    assert kinds[0] == "hello"
    assert kinds[1] == "session"
    assert kinds[-1] == "end"
    assert "flushed" in kinds
    assert conversation.close == Close(1000, "the session is over")
    assert [event["seq"] for event in conversation.json() if "seq" in event and "at" in event] == list(
        range(kinds.count("end") + len([k for k in kinds if k not in ("hello", "session", "flushed", "end")]))
    )


@pytest.mark.parametrize(
    ("rate", "channels", "sample_format", "width"),
    [(16_000, 1, "s16le", 2), (48_000, 2, "f32le", 4), (8_000, 1, "u8", 1), (44_100, 1, "s32le", 4)],
)
def test_formats(rate: int, channels: int, sample_format: str, width: int) -> None:
    conversation = talk()
    settings = {"type": "start", "rate": rate, "channels": channels, "format": sample_format}
    conversation.send(settings, bytes(rate * channels * width), {"type": "finish"})
    samples = sum(len(action.samples) for action in conversation.performed if isinstance(action, Audio))
    assert abs(samples - 16_000) <= 1


def test_positions_are_those_of_the_client() -> None:
    protocol = NativeProtocol(opening(session="abc", last_seq="4", rate="48000"))
    assert Resume("abc", 4) in protocol.opened()
    (reply,) = protocol.started(Started("abc", "nano.en", "tide", None, received=16_000, seq=9, resumed=True))
    assert isinstance(reply, Reply)
    assert json.loads(reply.message)["received"] == 48_000
    (told,) = protocol.accepted(32_001)
    assert isinstance(told, Reply)
    assert json.loads(told.message) == {"type": "received", "received": 96_003}


@each_row(
    "message",
    [
        "",
        "{",
        "[]",
        "null",
        "NaN",
        '"start"',
        "[" * 100_000,
        '{"type":"sing"}',
        '{"type":["start"]}',
        '{"type":"ack"}',
        '{"type":"ack","seq":-1}',
        '{"type":"ack","seq":true}',
        '{"type":"ack","seq":1e400}',
        '{"type":"resume","session":7}',
        '{"type":"resume","session":"x","last_seq":"y"}',
        '{"type":"flush"}',
        '{"type":"configure","changes":[]}',
        '{"type":"start","nonsense":1}',
        '{"type":"start","rate":0}',
        '{"type":"start","rate":-16000}',
        '{"type":"start","rate":1e9}',
        '{"type":"start","rate":16000.5}',
        '{"type":"start","rate":"16000"}',
        '{"type":"start","channels":0}',
        '{"type":"start","channels":1000000}',
        '{"type":"start","format":"mp3"}',
        '{"type":"start","format":["s16le"]}',
        '{"type":"start","language":5}',
        '{"type":"start","prompt":null}',
        '{"type":"start","vad":"yes"}',
        '{"type":"start","changes":"beam=1"}',
    ],
)
def test_messages_that_cannot_be_used(message: str) -> None:
    protocol = NativeProtocol(opening())
    protocol.opened()
    with pytest.raises(ProtocolError, match="expected"):
        protocol.receive(message)
    assert any(isinstance(action, Start) for action in protocol.receive(bytes(2))), "the next one can"


def test_of_a_list_that_is_repeated_in_the_address_every_value_counts() -> None:
    """Only the last one did."""
    talk = Conversation(NativeProtocol(opening(keyterms=["Ebbe", "Flut,Watt"], languages=["de", "en"])))
    talk.send({"type": "start"})
    assert (talk.asked().keyterms, talk.asked().languages) == (("Ebbe", "Flut", "Watt"), ("de", "en"))


@pytest.mark.parametrize("name", ["language", "rate", "channels", "multichannel", "session", "last_seq", "prompt"])
def test_what_has_one_value_is_not_given_two(name: str) -> None:
    twice: Any = {name: ["1", "2"]}
    with pytest.raises(ProtocolError, match=f"expected one value of {name} in the address; got 2"):
        NativeProtocol(opening(**twice))


@pytest.mark.parametrize("name", ["lang", "sample_rate", "changes", "strict_model"])
def test_a_parameter_that_is_none_is_refused_like_a_field(name: str) -> None:
    """A slip of the pen, such as `lang` for `language`, had no effect and no answer."""
    with pytest.raises(ProtocolError, match=f"expected parameters among .*language.*; got {name}"):
        NativeProtocol(opening(**{name: "1"}))


@pytest.mark.parametrize("name", ["api_key", "token", "key"])
def test_a_key_in_the_address_is_no_setting(name: str) -> None:
    assert NativeProtocol(opening(**{name: "a key"})).opened()


@each_row(("text", "vad"), [("off", False), ("0", False), ("No", False), ("true", True), ("on", True)])
def test_switches_in_the_address(text: str, vad: bool) -> None:
    protocol = NativeProtocol(opening(vad=text))
    (start,) = [action for action in protocol.receive('{"type":"start"}') if isinstance(action, Start)]
    assert start.settings.vad is vad


@pytest.mark.slow
@quick(50)
@given(st.lists(messages, max_size=12), st.data())
def test_any_messages_in_any_order(sent: list[str | bytes], data: Any) -> None:
    protocol = NativeProtocol(opening())
    allowed = (Start, Resume, Ack, Audio, Configure, Flush, Clear, Finish, Abandon, Reply, Close)
    actions: list[Action] = list(protocol.opened())
    for message in sent:
        with suppress(ProtocolError):
            actions += protocol.receive(message)
        if data.draw(st.booleans()):
            actions += protocol.started(Started("abc", "nano.en", "tide", None))
    assert all(
        isinstance(action, allowed) or type(action).__name__ in ("Configure", "Clear", "Abandon") for action in actions
    )
    for action in actions:
        if isinstance(action, Audio):
            assert action.samples.dtype == np.float32
            assert action.samples.ndim == 1


@quick(50)
@given(
    st.dictionaries(
        st.sampled_from(["rate", "channels", "format", "session", "last_seq", "vad", "task", "model", "x"]),
        st.text(max_size=8),
        max_size=4,
    )
)
def test_any_address(query: dict[str, str]) -> None:
    try:
        protocol = NativeProtocol(opening(**query))
    except ProtocolError:
        return
    assert protocol.opened()
