"""Deepgram live, message by message. Times and texts against what the session confirmed."""

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from opus_files import opus_file
from whispertide.checkpoint.languages import DETECT
from whispertide.events import Confirmed, Error, Hypothesis, SpeechStart, TurnEnd
from whispertide.server.protocols.base import Audio, Close, Configure, Finish, Flush, Problem, ProtocolError
from whispertide.server.protocols.deepgram import DeepgramProtocol
from whispertide.server.protocols.encodings import AudioInput
from whispertide.types import SAMPLE_RATE, Word, join_words
from wire_conversation import Conversation, opening, said, silence

RAW = {"encoding": "linear16", "sample_rate": "16000"}


def listen(words: tuple[Word, ...] = (), seed: int = 0, **query: Any) -> Conversation:
    return Conversation(DeepgramProtocol(opening(**{**RAW, **query})), words, seed)


def results(talk: Conversation, **wanted: bool) -> list[dict[str, Any]]:
    return [result for result in talk.json("Results") if all(result[name] == value for name, value in wanted.items())]


def transcript(result: dict[str, Any]) -> str:
    text = result["channel"]["alternatives"][0]["transcript"]
    assert isinstance(text, str)
    return text


def final_text(talk: Conversation) -> str:
    return " ".join(filter(None, map(transcript, results(talk, is_final=True))))


def test_a_result_has_every_field_of_the_service() -> None:
    talk = listen()
    talk.run()
    word = Word(" Red-ish,", 1_600, 8_000, 0.75)
    talk._perform(talk.protocol.events([Confirmed(0, 16_000, (word,))]))
    (result,) = talk.json()
    request = result["metadata"].pop("request_id")
    assert len(request) == 36
    assert len(result["metadata"].pop("model_uuid")) == 36
    assert result == {
        "type": "Results",
        "channel_index": [0, 1],
        "start": 0.0,
        "duration": 0.5,
        "is_final": True,
        "speech_final": False,
        "from_finalize": False,
        "channel": {
            "alternatives": [
                {
                    "transcript": "Red-ish,",
                    "confidence": 0.75,
                    "words": [
                        {"word": "red-ish", "start": 0.1, "end": 0.5, "confidence": 0.75, "punctuated_word": "Red-ish,"}
                    ],
                }
            ]
        },
        "metadata": {"model_info": {"name": "nano.en", "version": "1.2.3", "arch": "whisper"}},
    }


def test_interim_results_only_if_asked_for() -> None:
    guess = Hypothesis(0, 16_000, (Word(" maybe", 0, 8_000),))
    assert list(DeepgramProtocol(opening(**RAW)).events([guess])) == []
    talk = listen(interim_results="true")
    talk._perform(talk.protocol.events([guess]))
    (result,) = talk.json()
    assert (result["is_final"], transcript(result)) == (False, "maybe")


def test_final_results_follow_each_other_without_gap_or_overlap() -> None:
    talk = listen(said(12, pause_every=5), interim_results="true")
    for _ in range(60):
        talk.send(silence(0.2))
        talk.step()
    talk.send({"type": "CloseStream"})
    talk.run()
    at = 0.0
    for result in talk.json("Results"):
        assert result["start"] == pytest.approx(at, abs=0.002)
        if result["is_final"]:
            at += result["duration"]
    assert final_text(talk) == talk.text
    assert len(talk.heard) == 12


def test_the_last_words_of_a_turn_come_with_speech_final() -> None:
    talk = listen()
    events = [Confirmed(0, 16_000, (Word(" done", 0, 8_000),)), Hypothesis(1, 16_000, ()), TurnEnd(2, 16_000, 14_000)]
    talk._perform(talk.protocol.events(events))
    (result,) = talk.json()
    assert (transcript(result), result["is_final"], result["speech_final"]) == ("done", True, True)
    assert result["duration"] == 0.875


def test_a_turn_without_words_is_not_told() -> None:
    assert list(DeepgramProtocol(opening(**RAW)).events([SpeechStart(0, 100, 0), TurnEnd(1, 900, 900)])) == []


def test_endpointing_off_means_no_speech_final() -> None:
    talk = listen(endpointing="false")
    talk._perform(talk.protocol.events([Confirmed(0, 9, (Word(" a", 0, 9),)), TurnEnd(1, 9, 9)]))
    assert [result["speech_final"] for result in talk.json()] == [False]


@pytest.mark.parametrize(("endpointing", "pause"), [("10", 0.1), ("300", 0.3), ("99999999", 30.0)])
def test_endpointing_is_the_gates_pause(endpointing: str, pause: float) -> None:
    assert listen(endpointing=endpointing).asked().changes == {
        "vad_pause_s": pause,
        "vad_turn_s": 0.0,
        "turn_end": "pause",
    }


def test_finalize_answers_with_the_words_and_the_stream_goes_on() -> None:
    talk = listen(said(12))
    talk.send(silence(2.5), {"type": "Finalize"})
    talk.run()
    (answer,) = results(talk, from_finalize=True)
    assert answer["is_final"]
    assert transcript(answer)
    assert talk.close is None
    talk.send(silence(4.5), {"type": "Finalize"}, {"type": "Finalize"})
    talk.run()
    assert len(results(talk, from_finalize=True)) == 3
    talk.send({"type": "CloseStream"})
    talk.run()
    assert final_text(talk) == talk.text
    assert talk.close == Close()


def test_finalize_of_nothing_is_answered_with_nothing() -> None:
    talk = listen()
    talk.send({"type": "Finalize"})
    talk.run()
    (answer,) = talk.json()
    assert (transcript(answer), answer["is_final"], answer["from_finalize"]) == ("", True, True)


def test_an_empty_answer_covers_the_audio_up_to_its_finalize_and_not_what_came_since() -> None:
    talk = listen()
    talk.send(silence(1.5), {"type": "Finalize"}, silence(2.0), {"type": "Finalize"}, silence(1.0))
    talk.run()
    first, second = results(talk, from_finalize=True)
    assert (first["start"], first["duration"]) == (0.0, 1.5)
    assert (second["start"], second["duration"]) == (1.5, 2.0)


def test_finalize_takes_what_the_resampler_holds() -> None:
    talk = listen(sample_rate="48000")
    talk.send(silence(1.0, 48_000), {"type": "Finalize"})
    audio = [action for action in talk.performed if isinstance(action, Audio)]
    assert sum(len(action.samples) for action in audio) == SAMPLE_RATE
    assert isinstance(talk.performed[-1], Flush)


def test_close_stream_says_goodbye_with_metadata() -> None:
    talk = listen(said(3))
    audio = silence(2.0)
    talk.send(audio, {"type": "CloseStream"}, {"type": "KeepAlive"}, audio)
    talk.run()
    metadata = talk.json()[-1]
    assert metadata["type"] == "Metadata"
    assert metadata["sha256"] == hashlib.sha256(audio).hexdigest()
    assert (metadata["duration"], metadata["channels"]) == (2.0, 1)
    assert "warnings" not in metadata
    assert metadata["created"] == "2023-11-14T22:13:20.000+00:00"
    assert metadata["request_id"] == results(talk)[0]["metadata"]["request_id"]
    assert talk.close == Close()
    assert talk.performed.count(Finish()) == 1


def test_an_empty_message_ends_the_stream_as_there() -> None:
    talk = listen()
    talk.send(b"")
    talk.run()
    assert [reply["type"] for reply in talk.json()] == ["Metadata"]


def test_speech_started_and_utterance_end() -> None:
    talk = listen(said(4), vad_events="true", utterance_end_ms="1000")
    for _ in range(30):
        talk.send(silence(0.2))
        talk.step()
    talk.run()
    kinds = [reply["type"] for reply in talk.json() if reply["type"] != "Results"]
    assert kinds == ["SpeechStarted", "UtteranceEnd"]
    (end,) = talk.json("UtteranceEnd")
    last = results(talk, is_final=True)[-1]["channel"]["alternatives"][0]["words"][-1]
    assert end["last_word_end"] == pytest.approx(last["end"])
    (start,) = talk.json("SpeechStarted")
    assert start["channel"] == [0]


@pytest.mark.parametrize(("gap_ms", "after"), [("3000", [9]), ("1500", [4, 9])])
def test_a_pause_is_measured_in_what_was_heard(gap_ms: str, after: list[int]) -> None:
    """All of the audio comes at once: the pause of two seconds is no longer one for that."""
    words = said(10, pause_every=5)
    talk = listen(words, utterance_end_ms=gap_ms)
    for _ in range(60):
        talk.send(silence(0.2))
    talk.run()
    told = [end["last_word_end"] for end in talk.json("UtteranceEnd")]
    assert told == pytest.approx([words[index].end / SAMPLE_RATE for index in after], abs=0.2)


def test_the_end_of_the_stream_ends_the_last_pause() -> None:
    talk = listen(said(2), utterance_end_ms="1000")
    talk.send(silence(4), {"type": "CloseStream"})
    talk.run()
    assert [reply["type"] for reply in talk.json()][-2:] == ["UtteranceEnd", "Metadata"]


def test_utterance_end_waits_for_the_words_of_a_finalize() -> None:
    one, two = Word(" one", 0, 6_400), Word(" two", 8_000, 14_400)
    talk = listen(utterance_end_ms="1000")
    talk.run()
    talk.send(silence(2.5))
    talk._perform(talk.protocol.events([SpeechStart(0, 1_600, 0), Confirmed(1, 16_000, (one,))]))
    talk.send({"type": "Finalize"})
    talk._perform(talk.protocol.events([Confirmed(2, 40_000, (two,)), TurnEnd(3, 40_000, 40_000)]))
    talk._perform(talk.protocol.flushed())
    talk._perform(talk.protocol.processed(40_000))
    first, last, end = talk.json()
    assert [transcript(first), transcript(last)] == ["one", "two"]
    assert (end["type"], end["last_word_end"]) == ("UtteranceEnd", 0.9)


def test_any_rate_any_channels_any_of_its_encodings() -> None:
    for encoding, width in (("linear16", 2), ("linear32", 4), ("mulaw", 1), ("alaw", 1)):
        talk = listen(encoding=encoding, sample_rate="44100", channels="2")
        talk.send(silence(2.0, 44_100, 2 * width), {"type": "Finalize"})
        total = sum(len(action.samples) for action in talk.performed if isinstance(action, Audio))
        assert abs(total - 2 * SAMPLE_RATE) <= 1


def test_channels_are_mixed() -> None:
    talk = listen(channels="2")
    talk.send(np.array([[8_192, -8_192], [16_384, 0]] * 160, np.int16).tobytes())  # a piece of 20 ms
    (audio,) = [action for action in talk.performed if isinstance(action, Audio)]
    assert audio.samples.tolist() == [0.0, 0.25] * 160


@each_row("cut", [1, 3, 100])
@each_row(("container", "options"), [("ogg", {}), ("webm", {"live": "1"})])
def test_a_stream_without_encoding_may_be_in_a_container(container: str, options: dict[str, str], cut: int) -> None:
    """Browsers send its first byte alone."""
    packets, file = opus_file(container, **options)
    talk = Conversation(DeepgramProtocol(opening()))
    talk.send(file[:cut])
    talk.send(file[cut:])
    assert talk.problems == []
    heard = sum(len(action.samples) for action in talk.performed if isinstance(action, Audio))
    decoder = AudioInput("opus")
    assert heard == sum(len(decoder.feed(packet)) for packet in packets) > 15_000


def test_another_container_is_refused() -> None:
    talk = Conversation(DeepgramProtocol(opening()))
    talk.send(b"RIFF" + bytes(40))
    (problem,) = talk.problems
    assert problem.fatal
    assert "linear16" in problem.message


def test_settings_come_from_the_address() -> None:
    wanted = listen(model="nova-3", language="en-US", keyterm=["Whispertide", "tide"], keywords=["nano:2", "base"])
    chosen = wanted.asked()
    assert (chosen.model, chosen.language, chosen.strict_model) == ("nova-3", "en", False)
    assert (chosen.prompt, chosen.keyterms) == ("", ("Whispertide", "tide", "nano", "base"))
    assert listen(language="multi").asked().language == DETECT
    assert listen().asked().language is None
    assert listen(keywords=["nano:2", "base:-10"]).asked().keyterms == ("nano",)  # unwanted


@each_row(
    ("query", "language", "languages"),
    [
        ({"detect_language": "true"}, DETECT, ()),
        ({"detect_language": "false"}, None, ()),
        ({"detect_language": ["de", "fr-CA"]}, DETECT, ("de", "fr")),
        ({"language": "multi", "language_hint": ["en", "de"]}, DETECT, ("en", "de")),
        ({"language": "de", "detect_language": ["de", "fr"]}, "de", ()),
    ],
)
def test_languages_to_detect_come_from_the_address(
    query: dict[str, Any], language: str | None, languages: tuple[str, ...]
) -> None:
    chosen = listen(**query).asked()
    assert (chosen.language, chosen.languages) == (language, languages)


@each_row(
    "query",
    [
        {"encoding": "amr-nb"},
        {"sample_rate": "fast"},
        {"sample_rate": "1"},
        {"sample_rate": "9" * 400},
        {"channels": "0"},
        {"channels": "65536"},
        {"language": "tlh"},
        {"utterance_end_ms": "soon"},
        {"endpointing": "nan"},
        {"interim_results": "perhaps"},
    ],
)
def test_impossible_addresses_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(ProtocolError, match="expected"):
        DeepgramProtocol(opening(**{**RAW, **query}))


def test_parameters_without_effect_are_warned_of_in_the_metadata() -> None:
    """In the form of their service's warnings (`metadata.warnings` of a recording)."""
    talk = listen(numerals="true", redact="pci", tag=["a", "b"], diarize="false", punctuate="true", token="secret")
    talk.send({"type": "CloseStream"})
    talk.run()
    (metadata,) = talk.json("Metadata")
    assert metadata["warnings"] == [
        {"parameter": name, "type": "unsupported_parameter", "message": f"{name} has no effect here"}
        for name in ("numerals", "redact", "tag")
    ]
    many: dict[str, Any] = {f"p{number}": "1" for number in range(1_000)}
    flood = listen(**many)
    flood.send(b"")
    flood.run()
    assert len(flood.json("Metadata")[0]["warnings"]) == 40


def test_features_that_are_not_done_are_a_failure_of_configure() -> None:
    talk = listen()
    talk.send({"type": "Configure", "features": {"numerals": True, "punctuate": True}})
    (failure,) = talk.json()
    assert failure["type"] == "ConfigureFailure"
    assert failure["code"] == "CONFIGURE_FEATURES_NOT_SUPPORTED"
    assert failure["description"].endswith("got numerals")
    talk.send({"type": "Configure", "features": {"numerals": False, "punctuate": True}})
    assert talk.json()[-1]["type"] == "ConfigureSuccess"
    talk.send({"type": "Configure", "features": ["numerals"]})
    assert talk.json()[-1]["type"] == "Error"


def test_configure_tells_success_of_no_terms_that_are_refused() -> None:
    talk = listen()
    talk.send({"type": "Configure", "keyterms": ["x" * 6_000, "y" * 6_000]})
    (error,) = talk.json()
    assert error["type"] == "Error"
    assert "100 characters" in error["description"]
    assert not [action for action in talk.performed if isinstance(action, Configure)]


def test_configure_changes_the_key_terms() -> None:
    talk = listen()
    talk.send({"type": "Configure", "keyterms": ["tide", "wave"], "features": {"numerals": True}})
    assert talk.performed[-2] == Configure({"keyterms": ("tide", "wave")})
    assert talk.json()[0]["type"] == "ConfigureSuccess"
    assert talk.json()[0]["keyterms"] == ["tide", "wave"]
    assert [warning["parameter"] for warning in talk.json()[0]["warnings"]] == ["numerals"]
    talk.send({"type": "Configure", "keyterms": "tide"})
    assert talk.json()[-1]["type"] == "Error"


@each_row("message", ["", "null", "[]", "{", '{"type": 7}', '{"type": "Stop"}', "[" * 5_000])
def test_messages_that_make_no_sense_are_told_and_change_nothing(message: str) -> None:
    talk = listen(said(3))
    talk.send(silence(1.0), message, silence(1.0), {"type": "CloseStream"})
    talk.run()
    (error,) = talk.json("Error")
    assert error["variant"] == "bad_request"
    assert "expected" in error["description"]
    assert final_text(talk) == talk.text != ""


def test_problems_close_with_its_codes() -> None:
    protocol = DeepgramProtocol(opening(**RAW))
    protocol.events([Confirmed(0, 10, (Word(" kept", 0, 10),))])
    *_, close = protocol.problem(Problem("idle", "nothing came", True))
    assert close.code == 1011  # type: ignore[union-attr]
    assert "NET-0001" in close.reason  # type: ignore[union-attr]
    *_, close = list(protocol.events([Error(1, 10, "broken", True)]))
    assert isinstance(close, Close)
    assert close.code == 1011


CONTROL = st.sampled_from([{"type": "Finalize"}, {"type": "KeepAlive"}, {"type": "Configure"}])
STEP = st.one_of(st.integers(0, 12_000), st.none(), CONTROL, st.text(max_size=5))


@quick(20)
@given(st.lists(STEP, max_size=30), st.integers(0, 99), st.booleans(), st.integers(0, 6))
def test_no_word_is_lost_whatever_is_sent_when(steps: list[Any], seed: int, interim: bool, pauses: int) -> None:
    """Numbers are audio, None lets the server work, the rest are messages, some of them nonsense."""
    talk = listen(said(14, pause_every=pauses), seed, interim_results=str(interim), utterance_end_ms="500")
    finalized = 0
    for step in steps:
        if step is None:
            talk.step()
            continue
        finalized += isinstance(step, dict) and step["type"] == "Finalize"
        talk.send(bytes(2 * step + 2) if isinstance(step, int) else step)
    talk.send({"type": "CloseStream"})
    talk.run()
    assert final_text(talk) == talk.text
    assert len(results(talk, from_finalize=True)) == finalized
    words = [word for result in results(talk, is_final=True) for word in result["channel"]["alternatives"][0]["words"]]
    assert " ".join(word["punctuated_word"] for word in words) == join_words(talk.heard)
    times = [time for word in words for time in (word["start"], word["end"])]
    assert times == sorted(times)
    assert talk.close == Close()
