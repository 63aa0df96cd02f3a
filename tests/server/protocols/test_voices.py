"""Voices in the protocols of other services: how they are asked for, and how words say whose they are."""

from dataclasses import replace
from typing import Any

import pytest

from each_row import each_row
from whispertide.events import Confirmed, Event, Hypothesis, Translation, TurnEnd
from whispertide.options import ANY_SPEAKERS
from whispertide.server.protocols.assemblyai import AssemblyAIProtocol
from whispertide.server.protocols.base import Opening, ProtocolError, Settings, Start, WireProtocol
from whispertide.server.protocols.deepgram import DeepgramProtocol
from whispertide.server.protocols.messages import letter
from whispertide.server.protocols.native import NativeProtocol
from whispertide.server.protocols.whisperlivekit import WhisperLiveKitProtocol
from whispertide.types import Word
from wire_conversation import Conversation, opening

RAW = {"encoding": "linear16", "sample_rate": "16000"}
ANN = Word(" Tea?", 0, 8_000, 0.5, 1), Word(" Now?", 8_000, 16_000, 0.5, 1)
BOB = (Word(" Yes.", 16_000, 24_000, 0.5, 2),)
NOBODY = Word(" Oh.", 24_000, 32_000, 0.5)


def asked(hears: bool = True, **query: Any) -> Opening:
    plain = opening(**query)
    return replace(plain, server=replace(plain.server, hears_speakers=hears))


def settings_of(protocol: WireProtocol) -> Settings:
    (start,) = (action for action in protocol.opened() if isinstance(action, Start))
    return start.settings


def tell(protocol: WireProtocol, *events: Event) -> list[dict[str, Any]]:
    talk = Conversation(protocol)
    talk._perform(protocol.events(events))
    return talk.json()


def deepgram(hears: bool = True, **query: Any) -> DeepgramProtocol:
    return DeepgramProtocol(asked(hears, **RAW, **query))


def assemblyai(hears: bool = True, **query: Any) -> AssemblyAIProtocol:
    return AssemblyAIProtocol(asked(hears, sample_rate="16000", **query))


# --- Deepgram --------------------------------------------------------------------------------------------------------


def test_deepgram_diarizes_where_there_is_a_network() -> None:
    assert settings_of(deepgram(diarize="true")).speakers == ANY_SPEAKERS
    assert settings_of(deepgram(diarize="false")).speakers is None
    assert settings_of(deepgram()).speakers is None
    assert settings_of(deepgram(False, diarize="true")).speakers is None
    # Their newer parameter asks for voices by itself.
    assert settings_of(deepgram(diarize_model="latest")).speakers == ANY_SPEAKERS
    assert settings_of(deepgram(diarize_model="")).speakers is None
    assert settings_of(deepgram(False, diarize_model="latest")).speakers is None


def test_deepgram_counts_speakers_from_0() -> None:
    (result,) = tell(deepgram(diarize="true"), Confirmed(0, 32_000, (*ANN, *BOB, NOBODY)))
    words = result["channel"]["alternatives"][0]["words"]
    assert [word.get("speaker") for word in words] == [0, 0, 1, None]
    assert "speaker" not in words[3]


@pytest.mark.parametrize(("hears", "warned"), [(True, []), (False, ["diarize"])])
def test_deepgram_warns_of_diarize_only_where_it_has_no_effect(hears: bool, warned: list[str]) -> None:
    talk = Conversation(deepgram(hears, diarize="true"))
    talk._perform(talk.protocol._summary())  # type: ignore[attr-defined]
    assert [each["parameter"] for each in talk.json()[-1].get("warnings", [])] == warned


# --- AssemblyAI ------------------------------------------------------------------------------------------------------


def test_assemblyai_labels_words_and_turns_by_letters() -> None:
    turns = tell(assemblyai(speaker_labels="true"), Confirmed(0, 24_000, (*ANN, *BOB)), TurnEnd(1, 24_000, 24_000))
    (turn,) = turns
    assert [word["speaker"] for word in turn["words"]] == ["A", "A", "B"]
    assert turn["speaker_label"] == "A"


def test_assemblyai_without_labels_is_as_before() -> None:
    (turn,) = tell(assemblyai(), Confirmed(0, 32_000, (NOBODY,)))
    assert "speaker_label" not in turn
    assert "speaker" not in turn["words"][0]


def test_assemblyai_limits_the_speakers() -> None:
    assert settings_of(assemblyai(speaker_labels="true", max_speakers="3")).speakers == 3
    assert settings_of(assemblyai(speaker_labels="true")).speakers == ANY_SPEAKERS
    assert settings_of(assemblyai(max_speakers="3")).speakers is None
    for wrong in ("0", "99", "many", "2.5"):
        with pytest.raises(ProtocolError, match="max_speakers"):
            assemblyai(speaker_labels="true", max_speakers=wrong)


def test_assemblyai_warns_where_there_is_no_network() -> None:
    talk = Conversation(assemblyai(False, speaker_labels="true"))
    talk.run()
    assert "speaker_labels" in talk.json()[-1]["warning"]
    talk = Conversation(assemblyai(True, speaker_labels="true", max_speakers="2"))
    assert [message for message in talk.json() if message["type"] == "Warning"] == []


# --- WhisperLiveKit --------------------------------------------------------------------------------------------------


def test_whisperlivekit_begins_a_line_with_each_voice() -> None:
    protocol = WhisperLiveKitProtocol(asked())
    state = tell(protocol, Confirmed(0, 24_000, (*ANN, *BOB)), Hypothesis(1, 24_000, ()))[-1]
    assert [(line["speaker"], line["text"]) for line in state["lines"]] == [(1, " Tea? Now?"), (2, " Yes.")]


def test_whisperlivekit_translates_every_voice_and_no_pause() -> None:
    protocol = WhisperLiveKitProtocol(asked())
    late = Word(" Yes.", 160_000, 168_000, 0.5, 2)
    before = Confirmed(0, 24_000, (*ANN, *BOB)), TurnEnd(1, 24_000, 24_000), Confirmed(2, 168_000, (late,))
    said = [
        Translation(0, word.end, word.start, word.end, "fr", text)
        for word, text in zip((ANN[0], BOB[0], late), ("Du thé ?", "Oui.", "Si."), strict=True)
    ]
    state = tell(protocol, *before, TurnEnd(3, 168_000, 168_000), *said)[-1]
    told = [(line["speaker"], line.get("translation")) for line in state["lines"]]
    assert told == [(1, "Du thé ?"), (2, "Oui."), (-2, None), (2, "Si.")]
    assert state["buffer_translation"] == ""


# --- native ----------------------------------------------------------------------------------------------------------


def test_the_native_protocol_has_a_number() -> None:
    protocol = NativeProtocol(asked())
    (start,) = protocol.receive('{"type": "start", "speakers": 3}')
    assert isinstance(start, Start)
    assert start.settings.speakers == 3
    assert start.settings.options.speakers == 3
    event = tell(NativeProtocol(asked()), Confirmed(0, 24_000, BOB))[-1]
    assert event["words"][0]["speaker"] == 2


@each_row("wrong", ["-1", "21", '"two"', "1.5", "true"])
def test_the_native_protocol_refuses_other_numbers(wrong: str) -> None:
    with pytest.raises(ProtocolError, match="speakers"):
        NativeProtocol(asked()).receive(f'{{"type": "start", "speakers": {wrong}}}')


def test_the_address_may_say_it() -> None:
    protocol = NativeProtocol(asked(speakers="2"))
    (start,) = protocol.receive('{"type": "start"}')
    assert isinstance(start, Start)
    assert start.settings.speakers == 2


def test_letters_go_on_after_z() -> None:
    assert [letter(number) for number in (1, 2, 26, 27, 53)] == ["A", "B", "Z", "AA", "AAA"]
