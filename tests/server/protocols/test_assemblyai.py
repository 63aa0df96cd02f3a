"""AssemblyAI's streaming API, message by message."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from whispertide.checkpoint.languages import DETECT
from whispertide.events import Confirmed, End, Error, Hypothesis, SpeechStart, TurnEnd
from whispertide.server.protocols.assemblyai import AssemblyAIProtocol
from whispertide.server.protocols.base import Close, Configure, Finish, Flush, Problem, ProtocolError
from whispertide.types import SAMPLE_RATE, Word
from wire_conversation import Conversation, opening, said, silence


def stream(words: tuple[Word, ...] = (), seed: int = 0, **query: Any) -> Conversation:
    query = {"sample_rate": "16000", **query}
    return Conversation(AssemblyAIProtocol(opening(**query)), words, seed)


def ended(talk: Conversation) -> list[dict[str, Any]]:
    return [turn for turn in talk.json("Turn") if turn["end_of_turn"]]


def test_begin_comes_with_the_session() -> None:
    talk = stream()
    assert talk.replies == []
    talk.run()
    assert talk.json() == [
        {
            "type": "Begin",
            "id": "c0ffee",
            "expires_at": 1_700_003_600,
            "configuration": {"model": "nano.en", "api_version": "v3"},
        }
    ]


def test_turns_tell_confirmed_words_from_guesses() -> None:
    talk = stream()
    red, house, door = Word(" Red", 0, 8_000, 0.5), Word(" house", 8_000, 16_000, 0.75), Word(" door.", 16_000, 24_000)
    talk._perform(talk.protocol.events([Confirmed(0, 1, (red,)), Hypothesis(1, 1, (house,))]))
    talk._perform(talk.protocol.events([Confirmed(2, 2, (house, door)), Hypothesis(3, 2, ()), TurnEnd(4, 2, 24_000)]))
    partial, whole = talk.json()
    assert partial == {
        "type": "Turn",
        "turn_order": 0,
        "turn_is_formatted": False,
        "end_of_turn": False,
        "transcript": "Red",
        "utterance": "",
        "end_of_turn_confidence": 0.0,
        "words": [
            {"text": "Red", "start": 0, "end": 500, "confidence": 0.5, "word_is_final": True},
            {"text": "house", "start": 500, "end": 1000, "confidence": 0.75, "word_is_final": False},
        ],
    }
    assert (whole["transcript"], whole["utterance"], whole["end_of_turn"]) == ("Red house door.",) * 2 + (True,)
    assert (whole["turn_order"], whole["turn_is_formatted"], len(whole["words"])) == (0, True, 3)


def test_force_endpoint_ends_the_turn_and_the_stream_goes_on() -> None:
    talk = stream(said(12))
    talk.send(silence(2.5), {"type": "ForceEndpoint"})
    talk.run()
    assert [turn["turn_order"] for turn in ended(talk)] == [0]
    talk.send({"type": "KeepAlive"}, silence(4.5), {"type": "Terminate"}, silence(1.0))
    talk.run()
    assert [turn["turn_order"] for turn in ended(talk)] == [0, 1]
    assert " ".join(turn["transcript"] for turn in ended(talk)) == talk.text
    assert talk.json()[-1] == {"type": "Termination", "audio_duration_seconds": 7, "session_duration_seconds": 7}
    assert talk.close == Close()
    assert talk.performed.count(Finish()) == talk.performed.count(Flush()) == 1


def test_configuration_can_change_prompt_and_language() -> None:
    talk = stream(language_codes='["de-AT"]', keyterms_prompt='["Ebbe", "Flut"]', prompt="Am Meer.")
    chosen = talk.asked()
    assert (chosen.language, chosen.prompt, chosen.keyterms) == ("de", "Am Meer.", ("Ebbe", "Flut"))
    talk.send({"type": "UpdateConfiguration", "keyterms_prompt": ["tide"], "language_codes": ["fr"]})
    assert talk.performed[-1] == Configure({"keyterms": ("tide",), "language": "fr"})
    talk.send({"type": "UpdateConfiguration", "language_codes": ["fr", "de"]})
    assert talk.performed[-1] == Configure({"language": DETECT, "languages": ("fr", "de")})
    before = len(talk.performed)
    talk.send({"type": "UpdateConfiguration", "format_turns": True, "filter_profanity": False})
    assert len(talk.performed) == before


@each_row(
    ("sent", "terms"),
    [
        ('["Ebbe", "Flut"]', ("Ebbe", "Flut")),  # as their SDK writes it
        ("Ebbe", ("Ebbe",)),
        ("3", ("3",)),  # a list of one, though it is JSON
        ('["Ebbe', ('["Ebbe',)),
    ],
)
def test_a_list_in_an_address_is_json_or_one_of_its_values(sent: str, terms: tuple[str, ...]) -> None:
    assert stream(keyterms_prompt=sent).asked().keyterms == terms


def test_of_lists_that_are_repeated_all_values_count() -> None:
    """Only those of the last one did."""
    talk = stream(keyterms_prompt=['["Ebbe"]', "Flut", '["Watt", "Priel"]'], language_codes=['["de"]', '["en"]'])
    assert talk.asked().keyterms == ("Ebbe", "Flut", "Watt", "Priel")
    assert talk.asked().languages == ("de", "en")


@pytest.mark.parametrize("last", ["Flut", "1984", "null", '"Flut"', "{}"])
def test_of_a_repeated_parameter_every_value_counts_whatever_the_last_one_is(last: str) -> None:
    assert stream(keyterms_prompt=["Ebbe", last]).asked().keyterms == ("Ebbe", last)


def test_what_is_not_done_is_a_warning() -> None:
    talk = stream(speaker_labels="true", redact_pii="true", vad_threshold="0.4", voice_focus="", token="secret")
    talk.run()
    assert [reply["type"] for reply in talk.json()] == ["Begin", "Warning"]
    assert talk.json()[1] == {
        "type": "Warning",
        "warning_code": 3006,
        "warning": "fields without effect: redact_pii, speaker_labels, vad_threshold",
    }
    talk.send({"type": "UpdateConfiguration", "prompt": "tide", "max_turn_silence": 900})
    assert talk.performed[-2] == Configure({"prompt": "tide"})
    assert talk.json("Warning")[-1]["warning"] == "fields without effect: max_turn_silence"


def test_silence_that_ends_a_turn() -> None:
    assert stream(min_turn_silence="240").asked().changes == {
        "vad_pause_s": 0.24,
        "vad_turn_s": 0.0,
        "turn_end": "pause",
    }
    assert stream(min_end_of_turn_silence_when_confident="1").asked().changes == {
        "vad_pause_s": 0.1,
        "vad_turn_s": 0.0,
        "turn_end": "pause",
    }


U3 = ["u3-rt-pro", "u3-pro", "u3-rt-pro-beta-1", "universal-3-5-pro", "universal-3-6", "universal-3-6-pro"]


@each_row("model", U3)
def test_speech_started_is_for_the_models_that_have_it(model: str) -> None:
    """Their message sequence: for each turn of Universal-3, of whatever version; its SDK has these names."""
    talk = stream(speech_model=model)
    talk._perform(talk.protocol.events([SpeechStart(0, 16_000, 8_000)]))
    assert talk.json() == [{"type": "SpeechStarted", "timestamp": 500}]


@each_row("model", ["", "universal-streaming-english", "universal-streaming-multilingual", "whisper-rt", "nano.en"])
def test_universal_streaming_goes_straight_to_the_turn(model: str) -> None:
    talk = stream(speech_model=model)
    talk._perform(talk.protocol.events([SpeechStart(0, 16_000, 8_000)]))
    assert talk.json() == []


def test_speech_started_comes_once_for_a_turn_and_before_it() -> None:
    """A turn may go on after a pause, and one without words, such as a cough, is told like any."""
    talk = stream(speech_model="u3-rt-pro")
    tell = talk.protocol.events
    talk._perform(tell([SpeechStart(0, 16_000, 8_000), Hypothesis(1, 16_000, (Word(" I", 8_000, 9_000),))]))
    talk._perform(tell([TurnEnd(2, 20_000, 18_000, eager=True), SpeechStart(3, 24_000, 22_000)]))
    talk._perform(tell([Confirmed(4, 32_000, (Word(" I", 8_000, 9_000),)), TurnEnd(5, 32_000, 30_000)]))
    talk._perform(tell([SpeechStart(6, 48_000, 40_000), TurnEnd(7, 56_000, 50_000)]))
    talk._perform(tell([SpeechStart(8, 64_000, 60_000)]))
    kinds = [(reply["type"], reply.get("timestamp")) for reply in talk.json()]
    turn = ("Turn", None)
    assert kinds == [("SpeechStarted", 500), turn, turn, ("SpeechStarted", 2500), ("SpeechStarted", 3750)]


@each_row(
    "query",
    [
        {"sample_rate": ""},
        {"sample_rate": "1e9"},
        {"encoding": "aac"},
        {"language_code": "tlh"},
        {"keyterms_prompt": "[1]"},
        {"min_turn_silence": "inf"},
        {"inactivity_timeout": "4"},
        {"inactivity_timeout": "3601"},
        {"inactivity_timeout": "7.5"},
        {"inactivity_timeout": "0"},
    ],
)
def test_impossible_addresses_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(ProtocolError, match="expected"):
        AssemblyAIProtocol(opening(**{"sample_rate": "16000", **query}))


def test_opus_needs_no_rate() -> None:
    for encoding in ("opus", "ogg_opus"):
        AssemblyAIProtocol(opening(encoding=encoding))


def test_what_can_be_ignored_is_a_warning_and_the_rest_ends_the_session() -> None:
    talk = stream(said(3))
    talk.run()
    talk.send("{", {"type": "Stop"}, json.dumps([1]), {"type": "UpdateConfiguration", "prompt": 7})
    assert [reply["type"] for reply in talk.json()[1:]] == ["Warning"] * 4
    assert talk.close is None
    talk.trouble(Problem("overloaded", "full", True))
    assert talk.json()[-1] == {"type": "Error", "error_code": 3009, "error": "full"}
    assert talk.close == Close(3009, "overloaded")


def test_a_session_that_fails_keeps_what_was_confirmed() -> None:
    talk = stream()
    talk._perform(talk.protocol.events([Confirmed(0, 1, (Word(" kept", 0, 1),)), Error(1, 1, "broken", True)]))
    turn, error = talk.json()
    assert (turn["transcript"], turn["end_of_turn"], error["type"]) == ("kept", True, "Error")
    assert talk.close == Close(3005, "internal")
    stopping = stream()
    stopping._perform(stopping.protocol.events([Confirmed(0, 1, (Word(" kept", 0, 1),))]))
    stopping.trouble(Problem("shutdown", "bye", True))
    assert [turn["transcript"] for turn in ended(stopping)] == ["kept"]
    assert stopping.json()[-1]["type"] == "Termination"


CONTROL = st.sampled_from(
    [{"type": "ForceEndpoint"}, {"type": "KeepAlive"}, {"type": "UpdateConfiguration", "prompt": "a"}]
)


@quick(20)
@given(
    st.lists(st.one_of(st.integers(0, 12_000), st.none(), CONTROL, st.text(max_size=5)), max_size=30),
    st.integers(0, 99),
    st.integers(0, 6),
)
def test_no_word_is_lost_whatever_is_sent_when(steps: list[Any], seed: int, pauses: int) -> None:
    talk = stream(said(14, pause_every=pauses), seed)
    talk.play(steps, lambda samples: bytes(2 * samples))
    talk.send({"type": "Terminate"})
    talk.run()
    assert " ".join(turn["transcript"] for turn in ended(talk)) == talk.text
    assert [turn["turn_order"] for turn in ended(talk)] == list(range(len(ended(talk))))
    total = sum(step for step in steps if isinstance(step, int))
    assert talk.json()[-1]["audio_duration_seconds"] == round(total / SAMPLE_RATE)
    confirmed: dict[int, str] = {}
    for turn in talk.json("Turn"):  # what a turn confirmed once stays in front of what it confirms later
        assert turn["transcript"].startswith(confirmed.get(turn["turn_order"], ""))
        confirmed[turn["turn_order"]] = turn["transcript"]


def test_a_session_that_gets_too_long_ends_as_theirs_does() -> None:
    """A warning when it is cut off, then all that was said, and at last their error for it."""
    talk = stream(said(3))
    talk.send(bytes(64_000))
    talk.trouble(Problem("too_long", "that was long", False))
    talk.queue.append(Finish())
    talk.run()
    assert [turn["transcript"] for turn in ended(talk)] == [talk.text]
    assert [message["warning"] for message in talk.json("Warning")] == ["that was long"]
    assert talk.json()[-1] == {"type": "Error", "error_code": 3008, "error": "that was long"}
    assert talk.close == Close(3008, "too_long")


def test_a_session_is_terminated_where_nothing_comes_for_as_long_as_its_client_said() -> None:
    """As if the client had asked for the end: the rest of the words, both durations, and a close that is no error."""
    talk = stream(said(3), inactivity_timeout="5")
    assert talk.protocol.idle_s == 5
    talk.send(bytes(64_000))
    talk.run()
    talk.silent()
    talk.run()
    assert [turn["transcript"] for turn in ended(talk)] == [talk.text]
    assert talk.json()[-1] == {"type": "Termination", "audio_duration_seconds": 2, "session_duration_seconds": 2}
    assert talk.close == Close(1000)
    assert talk.json("Warning") == talk.json("Error") == []


@pytest.mark.parametrize(("ends", "longest"), [(" so.", 1_000), (" so", 1_200)])
def test_a_turn_without_pauses_ends_some_time(ends: str, longest: int) -> None:
    """Each message has the whole turn: after hours without a pause it would be megabytes, several times a second."""
    talk = stream()
    words = [Word(ends, 100 * number, 100 * number + 50) for number in range(5_000)]
    for number in range(0, len(words), 50):
        talk._perform(talk.protocol.events([Confirmed(number, 100 * number, tuple(words[number : number + 50]))]))
    talk._perform(talk.protocol.events([End(5_000, 500_000, 500_000)]))
    turns = ended(talk)
    assert [len(turn["words"]) for turn in turns[:-1]] == [longest] * (len(turns) - 1)
    assert sum(len(turn["words"]) for turn in turns) == len(words)
    assert [turn["turn_order"] for turn in turns] == list(range(len(turns)))
    assert max(map(len, talk.replies)) < 2**18


def test_a_client_that_names_no_time_has_the_servers() -> None:
    assert stream(inactivity_timeout="").protocol.idle_s is None
