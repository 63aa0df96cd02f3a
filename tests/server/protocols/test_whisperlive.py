"""WhisperLive's protocol, message by message, read as its client reads it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from whispertide.events import Confirmed, End, Error, Event, Hypothesis, Language, TurnEnd
from whispertide.server.protocols.base import Audio, Close, Finish, Problem
from whispertide.server.protocols.whisperlive import WhisperLiveProtocol
from whispertide.types import SAMPLE_RATE, Word
from wire_conversation import Conversation, opening, said

OPTIONS: dict[str, Any] = {
    "uid": "u-1",
    "language": "en",
    "task": "transcribe",
    "model": "small",
    "use_vad": True,
    "send_last_n_segments": 10,
    "word_timestamps": False,
}


def join(words: tuple[Word, ...] = (), seed: int = 0, **options: Any) -> Conversation:
    talk = Conversation(WhisperLiveProtocol(opening()), words, seed)
    talk.send({**OPTIONS, **options})
    return talk


def silence(duration_s: float) -> bytes:
    return bytes(4 * round(duration_s * SAMPLE_RATE))


def kept(talk: Conversation) -> list[dict[str, Any]]:
    """What the client's `transcript` has in the end (client.py, process_segments and write_srt_file)."""
    transcript: list[dict[str, Any]] = []
    last: dict[str, Any] | None = None
    for message in talk.json():
        segments, shown = message.get("segments", []), list[str]()
        assert segments or "segments" not in message, "the client looks at the last one"
        for index, segment in enumerate(segments):
            if shown and shown[-1] == segment["text"]:
                continue
            shown.append(segment["text"].strip())
            if index == len(segments) - 1 and not segment["completed"]:
                last = segment
            elif segment["completed"] and (not transcript or float(segment["start"]) >= float(transcript[-1]["end"])):
                transcript.append(segment)
    if last is not None and (not transcript or transcript[-1]["text"] != last["text"]):
        transcript.append(last)
    return transcript


def test_the_server_is_ready_when_the_session_is() -> None:
    talk = join()
    assert talk.replies == []
    talk.run()
    assert talk.json() == [{"uid": "u-1", "message": "SERVER_READY", "backend": "faster_whisper"}]


def test_options_that_are_not_done_are_a_warning_before_the_server_is_ready() -> None:
    """As their server warns of a backend that it has not."""
    as_sent: dict[str, Any] = {
        "no_speech_thresh": 0.45,
        "same_output_threshold": 10,
        "clip_audio": False,
        "target_language": "fr",
    }
    asked: dict[str, Any] = {"clip_audio": True, "enable_diarization": True, "vad_parameters": {"threshold": 0.5}}
    talk = join(**{**as_sent, **asked})
    talk.run()
    warning, ready = talk.json()
    assert warning == {
        "uid": "u-1",
        "status": "WARNING",
        "message": "fields without effect: clip_audio, enable_diarization, vad_parameters.threshold",
    }
    assert ready["message"] == "SERVER_READY"
    quiet = join(**as_sent)
    quiet.run()
    assert [reply.get("status") for reply in quiet.json()] == [None]


def test_options_become_settings() -> None:
    chosen = join(
        language="de", task="translate", use_vad=False, initial_prompt="Hier.", hotwords="Ebbe, Flut",
        vad_parameters={"min_silence_duration_ms": 700},
    ).asked()  # fmt: skip
    assert (chosen.model, chosen.language, chosen.task, chosen.vad) == ("small", "de", "translate", False)
    assert (chosen.prompt, chosen.keyterms) == ("Hier.", ("Ebbe", "Flut"))
    assert chosen.changes == {"vad_pause_s": 0.7, "vad_turn_s": 0.0, "turn_end": "pause"}
    assert join(language=None).asked().language is None


def test_segments_grow_and_are_completed_at_the_end_of_a_sentence() -> None:
    talk = join(word_timestamps=True)
    talk.run()
    red, house = Word(" Red", 0, 8_000, 0.5), Word(" house.", 8_000, 16_000, 0.75)
    talk._perform(talk.protocol.events([Confirmed(0, 1, (red,)), Hypothesis(1, 1, (house,))]))
    talk._perform(talk.protocol.events([Confirmed(2, 2, (house,)), Hypothesis(3, 2, ())]))
    _, growing, again, completed = talk.json()
    words = [
        {"word": " Red", "start": "0.000", "end": "0.500", "probability": 0.5},
        {"word": " house.", "start": "0.500", "end": "1.000", "probability": 0.75},
    ]
    segment = {"start": "0.000", "end": "1.000", "text": " Red house.", "completed": False, "words": words}
    assert growing == again == {"uid": "u-1", "segments": [segment]}
    assert completed == {"uid": "u-1", "segments": [{**segment, "completed": True}]}
    assert kept(talk) == [{**segment, "completed": True}]  # and not the guess as well


@pytest.mark.parametrize("end", [" “yes.”", " (yes!)", " yes…", " نعم؟"])
def test_a_sentence_may_end_in_quotes_and_in_the_marks_of_any_script(end: str) -> None:
    talk = join()
    talk._perform(talk.protocol.events([Confirmed(0, 1, (Word(" He said", 0, 8_000), Word(end, 8_000, 16_000)))]))
    assert [(segment["text"], segment["completed"]) for segment in kept(talk)] == [(f" He said{end}", True)]


def test_a_long_segment_is_completed_without_a_sentence() -> None:
    talk = join(said(60))
    for _ in range(32):
        talk.send(silence(1))
        talk.step()
    lengths = [float(segment["end"]) - float(segment["start"]) for segment in kept(talk)]
    assert len(lengths) > 2
    assert max(lengths) < 11


@pytest.mark.parametrize("last_n", [1, 3, 10])
def test_only_the_newest_segments_are_sent_and_none_is_missed(last_n: int) -> None:
    talk = join(said(40, pause_every=2, pause_s=1.0), send_last_n_segments=last_n)
    for _ in range(45):
        talk.send(silence(1))
        talk.step()
    talk.send(b"END_OF_AUDIO")
    talk.run()
    assert all(len(message.get("segments", [])) <= last_n + 1 for message in talk.json())
    assert "".join(segment["text"] for segment in kept(talk)).strip() == talk.text
    assert len(talk.heard) == 40
    assert talk.close == Close()


def test_other_sample_formats() -> None:
    for name, raw in (("int16", np.array([16_384], np.int16).tobytes()), ("uint8", bytes([192]))):
        talk = join(audio_format=name)
        talk.send(raw)
        (audio,) = [action for action in talk.performed if isinstance(action, Audio)]
        assert audio.samples.tolist() == [0.5]


@pytest.mark.parametrize(
    ("bad", "told"), [("{}", "got the text"), ("END OF AUDIO", "got the text"), (b"abc", "3 bytes")]
)
def test_what_is_no_whole_sample_is_refused_and_spoils_none(bad: str | bytes, told: str) -> None:
    talk = join(said(3))
    tone = np.linspace(-0.5, 0.5, 800, dtype=np.float32)
    talk.send(silence(1), bad, tone.tobytes(), silence(1), b"END_OF_AUDIO")
    talk.run()
    (warning,) = [reply for reply in talk.json() if reply.get("status") == "WARNING"]
    assert told in warning["message"]
    heard = [action.samples for action in talk.performed if isinstance(action, Audio)]
    assert np.array_equal(np.concatenate(heard)[SAMPLE_RATE : SAMPLE_RATE + 800], tone)
    assert "".join(segment["text"] for segment in kept(talk)).strip() == talk.text != ""


def test_the_end_of_audio_is_said_once_and_audio_after_it_is_nothing() -> None:
    talk = join(said(3))
    talk.send(silence(2), b"END_OF_AUDIO", b"END_OF_AUDIO", silence(1), "END_OF_AUDIO")
    talk.run()
    assert talk.performed.count(Finish()) == 1
    assert sum(len(action.samples) for action in talk.performed if isinstance(action, Audio)) == 2 * SAMPLE_RATE


@each_row(
    "first",
    [
        b"\0\0\0\0",
        {"uid": None},
        {**OPTIONS, "language": "tlh"},
        {**OPTIONS, "language": 5},
        {**OPTIONS, "task": "sing"},
        {**OPTIONS, "audio_format": "int24"},
        {**OPTIONS, "send_last_n_segments": "many"},
        {**OPTIONS, "use_vad": "perhaps"},
        {**OPTIONS, "vad_parameters": [1]},
        {**OPTIONS, "vad_parameters": {"min_silence_duration_ms": "long"}},
    ],
)
def test_impossible_options_end_the_connection(first: Any) -> None:
    talk = Conversation(WhisperLiveProtocol(opening()))
    talk.send(first)
    (problem,) = talk.problems
    assert problem.fatal
    assert talk.queue == type(talk.queue)()
    assert talk.json()[-1]["status"] == "ERROR"


def test_text_that_is_no_json_may_be_followed_by_options() -> None:
    talk = Conversation(WhisperLiveProtocol(opening()))
    talk.send("hello", OPTIONS)
    talk.run()
    assert [reply.get("status") or reply.get("message") for reply in talk.json()] == ["WARNING", "SERVER_READY"]


def test_a_full_server_tells_minutes_to_wait() -> None:
    talk = join()
    talk.trouble(Problem("overloaded", "full", True))
    (reply,) = talk.json()
    assert reply["status"] == "WAIT"
    assert round(reply["message"]) == 1  # the client rounds it


def test_the_end_of_the_time_completes_the_segment() -> None:
    """What was said until then is written first; the client hears of the limit at once, and at last of the end."""
    talk = join(said(3))
    talk.send(silence(2))
    talk.trouble(Problem("too_long", "that was long", False))
    talk.queue.append(Finish())
    talk.run()
    assert "".join(segment["text"] for segment in kept(talk)).strip() == talk.text != ""
    assert [reply.get("status") for reply in talk.json()].count("WARNING") == 1
    assert talk.json()[-1] == {"uid": "u-1", "message": "DISCONNECT"}
    assert talk.close == Close()


def test_a_server_that_stops_completes_the_segment() -> None:
    talk = join()
    talk._perform(talk.protocol.events([Confirmed(0, 1, (Word(" kept", 0, 1_600),))]))
    talk.trouble(Problem("shutdown", "bye", True))
    assert [segment["text"] for segment in kept(talk)] == [" kept"]
    assert talk.json()[-1] == {"uid": "u-1", "message": "DISCONNECT"}


def test_a_session_that_the_server_finishes_ends_with_disconnect() -> None:
    """As where it stops: a client that records goes on until it hears of that."""
    talk = join(said(3))
    talk.send(silence(2))
    talk.queue.append(Finish())
    talk.run()
    assert talk.json()[-1] == {"uid": "u-1", "message": "DISCONNECT"}
    assert talk.close == Close()


def test_a_client_that_ends_the_audio_is_not_told_to_disconnect() -> None:
    talk = join(said(3))
    talk.send(silence(2), b"END_OF_AUDIO")
    talk.run()
    assert {"uid": "u-1", "message": "DISCONNECT"} not in talk.json()
    assert talk.close == Close()


@each_row("last_n", [1, 10])
@each_row("with_words", [False, True])
@each_row("said_before", [" Red house.", "Ja. Ja.", ""])
@each_row("end", [[TurnEnd(9, 9, 9)], [Hypothesis(8, 9, ()), TurnEnd(9, 9, 9)], [Hypothesis(8, 9, ())], [End(9, 9, 9)]])
def test_a_guess_that_nothing_comes_of_is_not_saved(
    end: list[Event], said_before: str, with_words: bool, last_n: int
) -> None:
    """The client saves the last uncompleted segment it was sent, whatever became of it."""
    talk = join(word_timestamps=with_words, send_last_n_segments=last_n)
    for number, text in enumerate(said_before.split(" ")[said_before.startswith(" ") :] if said_before else ()):
        word = Word((" " if said_before.startswith(" ") else "") + text, 8_000 * number, 8_000 * number + 4_000)
        talk._perform(talk.protocol.events([Confirmed(0, 1, (word,)), TurnEnd(1, 1, 1)]))
    saved = kept(talk)
    talk._perform(talk.protocol.events([Hypothesis(7, 8, (Word(" Thank you.", 40_000, 48_000),))]))
    assert kept(talk)[-1]["text"] == " Thank you."
    talk._perform(talk.protocol.events(end))
    assert [segment for segment in kept(talk) if segment["text"]] == saved
    count = len(talk.replies)
    talk._perform(talk.protocol.events([TurnEnd(10, 10, 10)]))
    assert len(talk.replies) == count, "once"


def test_after_a_guess_that_was_withdrawn_all_goes_on() -> None:
    talk = join()
    for events in (
        [Hypothesis(0, 1, (Word(" Hm", 0, 1_600),))],
        [Hypothesis(1, 1, ()), TurnEnd(2, 2, 2)],
        [Hypothesis(3, 3, (Word(" Red", 8_000, 9_600),))],
        [Confirmed(4, 4, (Word(" Red.", 8_000, 9_600),)), Hypothesis(5, 4, ()), TurnEnd(6, 5, 5)],
    ):
        talk._perform(talk.protocol.events(events))
    assert [segment["text"] for segment in kept(talk)] == [" Red."]


def test_language_and_failures_are_told() -> None:
    talk = join()
    talk._perform(talk.protocol.events([Language(0, 1, "de", 0.9), TurnEnd(1, 1, 1), Error(2, 1, "broken", True)]))
    language, error = talk.json()
    assert language == {"uid": "u-1", "language": "de", "language_prob": 0.9}
    assert (error["status"], error["message"]) == ("ERROR", "broken")
    assert talk.close == Close(1011)


@quick(20)
@given(
    st.lists(st.one_of(st.integers(0, 12_000), st.none()), max_size=30),
    st.integers(0, 99),
    st.integers(0, 6),
    st.integers(-3, 12),
)
def test_no_word_is_lost_whatever_is_sent_when(steps: list[int | None], seed: int, pauses: int, last_n: int) -> None:
    talk = join(said(14, pause_every=pauses), seed, send_last_n_segments=last_n)
    talk.play(steps, lambda samples: bytes(4 * samples + samples % 4))
    talk.send(b"END_OF_AUDIO")
    talk.run()
    assert "".join(segment["text"] for segment in kept(talk)).strip() == talk.text


@quick(30)
@given(st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=40), st.just("{}")), max_size=6))
def test_anything_is_answered_properly(sent: list[str | bytes]) -> None:
    talk = Conversation(WhisperLiveProtocol(opening()))
    talk.send(*sent)
    talk.run()
    talk = join()
    talk.send(*sent)
    talk.run()
