"""What holds for every protocol of another service, whatever is sent and whatever happens."""

import json
from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from whispertide.events import Confirmed, End, Error, Hypothesis, Language, SpeechStart, SpeechStop, TurnEnd
from whispertide.server.protocols import ROUTES
from whispertide.server.protocols.base import Close, Problem, ProblemKind, ProtocolError, Reply, Start, WireProtocol
from whispertide.server.protocols.lines import JsonLinesProtocol, TextLinesProtocol
from whispertide.server.protocols.wyoming import WyomingProtocol
from whispertide.types import Word
from wire_conversation import Conversation, opening
from wire_messages import SAID, vendor_messages

EVERY: list[type[WireProtocol]] = [*ROUTES.values(), TextLinesProtocol, JsonLinesProtocol, WyomingProtocol]
QUERY = {"sample_rate": "16000", "encoding": "", "interim_results": "true"}
WORD = Word(" kept.", 1_600, 8_000, 0.9)
every = pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)


@every
@quick(12)
@given(st.lists(vendor_messages(), max_size=8), st.booleans())
def test_any_message_is_answered_or_refused_properly(
    kind: type[WireProtocol], sent: list[str | bytes], ready: bool
) -> None:
    talk = Conversation(kind(opening(**QUERY)))
    if ready and kind.name == "whisperlive":
        talk.send(SAID[-1])
    for message in sent:
        talk.send(message)
        if talk.close is None:
            talk.step()
    talk.run()
    if talk.close is None:
        talk.hang_up()
        talk.run()


NAMES = st.sampled_from(
    [
        *("sample_rate", "encoding", "channels", "model", "language", "language_code", "language_codes", "intent"),
        *("endpointing", "utterance_end_ms", "keyterms_prompt", "min_turn_silence", "interim_results", "speech_model"),
        *("mode", "eot_threshold", "eager_eot_threshold", "eot_timeout_ms", "language_hint"),
    ]
)
VALUES = st.sampled_from(["opus", "linear16", "-1", "1e999", "[[", "true", "en", "8000", "diff"])


@every
@quick(15)
@given(st.dictionaries(NAMES, st.one_of(st.text(max_size=12), VALUES), max_size=5))
def test_any_address_is_served_or_refused_properly(kind: type[WireProtocol], query: dict[str, str]) -> None:
    try:
        protocol = kind(opening(**query))
    except ProtocolError:
        return
    Conversation(protocol).run()


@every
def test_a_parameter_of_one_value_is_refused_where_two_are_given(kind: type[WireProtocol]) -> None:
    """The last one counted, whatever the client had meant."""
    fine: dict[str, str | list[str]] = {name: [value, value] for name, value in QUERY.items()}
    fine["tag"] = ["a", "b"]
    for name in (*kind.single, "token", "api_key", "key"):
        with pytest.raises(ProtocolError, match=f"expected one value of {name} in the address; got 2"):
            kind(opening(**(fine | {name: ["1", "2"]})))
    Conversation(kind(opening(**fine)))


@pytest.mark.parametrize(("path", "names"), [
    ("/v1/listen", {"language", "model", "encoding", "sample_rate", "multichannel", "endpointing"}),
    ("/v2/listen", {"model", "encoding", "eot_threshold"}),
    ("/v3/ws", {"language_code", "sample_rate", "max_speakers"}),
    ("/asr", {"language", "target_language"}),
    ("/v1/realtime", {"model"}),
])  # fmt: skip
def test_what_has_one_value(path: str, names: set[str]) -> None:
    assert names <= ROUTES[path].single
    assert not ROUTES[path].single & {"keyterm", "keywords", "keyterms_prompt", "language_codes", "language_hint"}


@every
def test_every_problem_can_be_told(kind: type[WireProtocol]) -> None:
    for problem, fatal, talking in product(get_args(ProblemKind), (False, True), (False, True)):
        talk = Conversation(kind(opening(**QUERY)))
        if talking:
            talk.send(SAID[-1] if kind.name == "whisperlive" else bytes(64))
            talk._perform(talk.protocol.events([Confirmed(0, 16_000, (WORD,))]))
        talk.trouble(Problem(problem, "expected something else", fatal))
        closes = [action for action in talk.performed if isinstance(action, Close)]
        assert fatal or not closes, problem
        assert all(1000 <= close.code < 5000 and len(close.reason.encode()) <= 123 for close in closes), problem


@every
def test_what_was_confirmed_is_said_before_a_session_fails(kind: type[WireProtocol]) -> None:
    talk = Conversation(kind(opening(**QUERY)))
    guess = Word(" guess", 8_000, 16_000)
    talk._perform(
        talk.protocol.events(
            [Confirmed(0, 16_000, (WORD,)), Hypothesis(1, 16_000, (guess,)), Error(2, 16_000, "broken", True)]
        )
    )
    assert talk.close is not None
    said = b"\n".join(reply.encode() if isinstance(reply, str) else reply for reply in talk.replies)
    assert b"kept." in said


@every
def test_every_event_can_be_told_in_any_order(kind: type[WireProtocol]) -> None:
    events = [
        SpeechStart(0, 1, 0), Language(0, 1, "en", 1.0), Confirmed(0, 1, (WORD,)), Hypothesis(0, 1, (WORD,)),
        SpeechStop(0, 1, 1), TurnEnd(0, 9_000, 9_000), Confirmed(0, 1, (WORD,)), End(0, 16_000, 16_000),
    ]  # fmt: skip
    for first in range(len(events)):
        protocol = kind(opening(**QUERY))
        for event in events[first:]:
            protocol.events([event])
    talk = Conversation(kind(opening(**QUERY)))
    talk._perform(talk.protocol.events(events))
    assert talk.close is not None


@every
def test_a_session_is_asked_for_before_anything_is_done_with_it(kind: type[WireProtocol]) -> None:
    protocol = kind(opening(**QUERY))
    actions = [*protocol.opened()]
    sent: list[str | bytes] = [json.dumps(SAID[-1]), bytes(640)]
    for message in sent:
        try:
            actions += protocol.receive(message)
        except ProtocolError:
            continue
    wanted = [action for action in actions if not isinstance(action, Reply | Close)]
    assert wanted == [] or isinstance(wanted[0], Start)


def test_every_route_has_a_name_of_its_own() -> None:
    assert set(ROUTES) == {"/v1/realtime", "/v1/listen", "/v2/listen", "/v3/ws", "/asr", "/"}
    assert len({kind.name for kind in EVERY}) == len(EVERY)
