"""Deepgram live, message by message. Times and texts against what the session confirmed."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgram_talk import RAW, final_text, listen, results, transcript
from few_examples import quick
from whispertide.events import Confirmed, Error, Hypothesis, SpeechStart, TurnEnd
from whispertide.server.protocols.base import Audio, Close, Finish, Flush, Problem
from whispertide.server.protocols.deepgram import DeepgramProtocol
from whispertide.types import SAMPLE_RATE, Word, join_words
from wire_conversation import opening, said, silence


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


def test_a_guess_of_which_no_word_comes_is_taken_back() -> None:
    """Their clients show the last interim result until a final one comes, and take its speaker for speaking."""
    guess = Hypothesis(0, 16_000, (Word(" maybe", 0, 8_000),))
    talk = listen(interim_results="true")
    talk._perform(talk.protocol.events([guess]))
    talk._perform(talk.protocol.events([Hypothesis(1, 20_000, ()), TurnEnd(2, 20_000, 18_000)]))
    _, last = talk.json("Results")
    assert (transcript(last), last["is_final"], last["speech_final"]) == ("", True, True)
    assert (last["start"], last["duration"]) == (0.0, 1.125)
    # A turn of which nothing was shown, such as a cough, is not told.
    talk._perform(talk.protocol.events([TurnEnd(3, 40_000, 38_000)]))
    assert len(talk.json("Results")) == 2


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


@pytest.mark.parametrize("message", ["", "null", "[]", "{", '{"type": 7}', '{"type": "Stop"}', "[" * 5_000])
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
