"""WhisperLiveKit's protocol, message by message, read as its page and its test client read it."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from opus_files import TONE, opus_file
from whispertide.events import Confirmed, End, Error, Hypothesis, Language, SpeechStart, Translation, TurnEnd
from whispertide.server.protocols.base import Audio, Close, Finish, Problem, Start
from whispertide.server.protocols.whisperlivekit import MOST_LINES, SHOWN_LINES, WhisperLiveKitProtocol
from whispertide.types import SAMPLE_RATE, Word
from wire_conversation import Conversation, opening, said, silence

RED, HOUSE = Word(" Red", 8_000, 16_000, 0.5), Word(" house.", 16_000, 24_000, 0.75)
READY = {"type": "ready_to_stop"}


def join(words: tuple[Word, ...] = (), seed: int = 0, **query: str) -> Conversation:
    return Conversation(WhisperLiveKitProtocol(opening(**query)), words, seed)


def tell(talk: Conversation, *events: Any) -> None:
    talk._perform(talk.protocol.events(events))


def states(talk: Conversation) -> list[dict[str, Any]]:
    """The whole states, those of differences put together as their documentation says."""
    found: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    for message in talk.json():
        match message.get("type"):
            case None:
                found.append(message)
            case "snapshot":
                lines = list(message["lines"])
                found.append(message)
            case "diff":
                del lines[: message.get("lines_pruned", 0)]
                lines += message.get("new_lines", [])
                assert len(lines) == message["n_lines"], "the client would have to connect anew"
                found.append({**message, "lines": list(lines)})
    return found


def text(state: dict[str, Any]) -> str:
    return "".join(line["text"] for line in state["lines"]).strip()


def heard(talk: Conversation) -> list[float]:
    return [sample for action in talk.performed if isinstance(action, Audio) for sample in action.samples.tolist()]


def test_the_configuration_comes_first_and_then_an_empty_state() -> None:
    talk = join()
    assert talk.json() == [{"type": "config", "useAudioWorklet": True, "mode": "full"}]
    talk.run()
    assert talk.json()[1:] == [
        {
            "status": "no_audio_detected",
            "lines": [],
            "buffer_transcription": "",
            "buffer_diarization": "",
            "buffer_translation": "",
            "remaining_time_transcription": 0,
            "remaining_time_transcription_processing": 0,
            "remaining_time_transcription_policy": 0,
            "remaining_time_diarization": 0,
        }
    ]


def test_a_line_grows_and_the_guess_is_in_the_buffer() -> None:
    talk = join()
    talk.send(silence(4))
    tell(talk, SpeechStart(0, 4_000, 4_000), Confirmed(1, 32_000, (RED,)), Hypothesis(2, 32_000, (HOUSE,)))
    tell(talk, Confirmed(3, 48_000, (HOUSE,)), Hypothesis(4, 48_000, ()))
    first, second = states(talk)
    assert first["lines"] == [{"speaker": 1, "text": " Red", "start": "0:00:00.50", "end": "0:00:01.00"}]
    assert first["buffer_transcription"] == " house."
    assert second["lines"] == [{"speaker": 1, "text": " Red house.", "start": "0:00:00.50", "end": "0:00:01.50"}]
    assert (second["status"], second["buffer_transcription"]) == ("active_transcription", "")
    assert second["remaining_time_transcription"] == second["remaining_time_transcription_processing"] == 1.0
    assert second["remaining_time_transcription_policy"] == 1.5


def test_nothing_is_sent_where_nothing_changed() -> None:
    talk = join()
    talk.run()
    count = len(talk.replies)
    tell(talk, SpeechStart(0, 1, 0), Hypothesis(1, 2, ()))
    assert len(talk.replies) == count
    tell(talk, Hypothesis(2, 3, (RED,)))
    tell(talk, Hypothesis(3, 4, (RED,)))
    assert len(talk.replies) == count + 1
    tell(talk, TurnEnd(4, 5, 5))
    assert (states(talk)[-1]["buffer_transcription"], states(talk)[-1]["status"]) == ("", "no_audio_detected")


def test_each_utterance_is_a_line_and_a_long_pause_one_too() -> None:
    talk = join()
    late = Word(" Blue.", 120_000, 128_000)
    tell(talk, Confirmed(0, 24_000, (RED, HOUSE)), TurnEnd(1, 24_000, 24_000))
    tell(talk, Confirmed(2, 128_000, (late,)), TurnEnd(3, 130_000, 130_000))
    tell(talk, End(4, 59_000_000, 59_000_000))
    assert [(line["speaker"], line["text"], line["start"], line["end"]) for line in states(talk)[-1]["lines"]] == [
        (1, " Red house.", "0:00:00.50", "0:00:01.50"),
        (-2, "", "0:00:01.50", "0:00:07.50"),
        (1, " Blue.", "0:00:07.50", "0:00:08.00"),
        (-2, "", "0:00:08.00", "1:01:27.50"),
    ]
    assert talk.json()[-1] == READY
    assert talk.close == Close()


@pytest.mark.parametrize(("end", "lengths"), [(".", [63, 63, 63, 51]), ("", [121, 119])])
def test_a_long_utterance_is_several_lines(end: str, lengths: list[int]) -> None:
    """After half a minute at the end of a sentence, here every seventh word; after a minute in spite of none."""
    talk = join()
    for n in range(240):
        word = Word(f" w{n}{end if n % 7 == 6 else ''}", 8_000 * n, 8_000 * n + 6_400)
        tell(talk, Confirmed(n, word.end, (word,)))
    assert [len(line["text"].split()) for line in states(talk)[-1]["lines"]] == lengths


def test_hours_of_lines_are_not_sent_again_and_again_but_once_at_the_end() -> None:
    talk = join()
    total = MOST_LINES + 100
    words = [Word(f" w{n}", 8_000 * n, 8_000 * n + 6_400) for n in range(total)]
    tell(talk, *(event for word in words for event in (Confirmed(0, 1, (word,)), TurnEnd(0, 1, 1))))
    assert [line["text"] for line in states(talk)[-1]["lines"]] == [f" w{n}" for n in range(total - SHOWN_LINES, total)]
    tell(talk, End(0, 8_000 * total, 8_000 * total))
    assert [line["text"] for line in states(talk)[-1]["lines"]] == [f" w{n}" for n in range(100, total)]
    assert max(map(len, talk.replies)) < 2**20


def test_differences_have_only_what_is_new() -> None:
    talk = join(mode="diff")
    talk.run()
    tell(talk, Confirmed(1, 32_000, (RED,)), Hypothesis(2, 32_000, (HOUSE,)))
    tell(talk, Confirmed(3, 48_000, (HOUSE,)), Hypothesis(4, 48_000, ()), TurnEnd(5, 48_000, 48_000))
    tell(talk, Hypothesis(6, 64_000, (RED,)))
    config, snapshot, growing, complete, after = talk.json()
    assert (config["mode"], snapshot["type"], snapshot["seq"], snapshot["lines"]) == ("diff", "snapshot", 1, [])
    assert (growing["type"], growing["seq"], growing["n_lines"]) == ("diff", 2, 0)
    assert growing["buffer_transcription"] == " Red house."
    assert [line["text"] for line in complete["new_lines"]] == [" Red house."]
    assert (complete["n_lines"], complete["buffer_transcription"]) == (1, "")
    assert after["n_lines"] == 1
    assert not {"new_lines", "lines"} & {*growing, *after} - {"n_lines"}
    assert set(snapshot) - {"lines"} == set(after) - {"n_lines"}


def test_parameters_become_settings() -> None:
    assert join().asked().language is None
    assert join(language="de-AT").asked().language == "de"
    assert join(language="auto").asked().language == "auto"
    assert join(target_language="fr", mode="other").json()[0]["mode"] == "full"


def test_a_language_that_is_not_served_is_told() -> None:
    talk = join(language="tlh")
    (error,) = talk.json()
    assert (error["type"], talk.close) == ("error", Close(4400, "bad_setting"))
    assert "expected a language that is served" in error["error"]
    assert not any(isinstance(action, Start) for action in talk.performed)


def test_a_language_that_was_detected_is_in_the_lines() -> None:
    talk = join()
    tell(talk, Language(0, 1, "de", 0.9), Confirmed(1, 24_000, (RED,)))
    assert states(talk)[-1]["lines"][0]["detected_language"] == "de"


# --- audio -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@quick(25)
@given(st.sampled_from(["pcm", "webm", "ogg"]), st.data())
def test_the_first_bytes_tell_what_audio_it_is_however_it_is_cut(kind: str, data: st.DataObject) -> None:
    raw = TONE.tobytes() if kind == "pcm" else opus_file(kind, **({"live": "1"} if kind == "webm" else {}))[1]
    cuts = sorted(data.draw(st.lists(st.integers(0, min(len(raw), 40)), max_size=4)))
    cuts += sorted(data.draw(st.lists(st.integers(40, len(raw)), max_size=4)))
    talk = join()
    talk.send(*(raw[a:b] for a, b in pairwise([0, *cuts, len(raw)]) if a < b), b"")
    samples = np.array(heard(talk))
    if kind == "pcm":
        np.testing.assert_array_equal(samples, TONE / np.float32(32_768))
        return
    assert abs(len(samples) - SAMPLE_RATE) < 700
    assert np.argmax(np.abs(np.fft.rfft(samples[2_000:10_000]))) == 220  # bins of 2 Hz


@each_row("length", range(9))
def test_hardly_any_audio(length: int) -> None:
    talk = join()
    talk.send(*[b"\1"] * length, b"")
    assert len(heard(talk)) == length // 2
    assert talk.performed[-1] == Finish()


def test_small_pieces_are_given_together() -> None:
    """Their page sends 43 samples at a time; a session would have its work with each."""
    talk = join()
    talk.send(*[silence(43 / SAMPLE_RATE)] * 375, b"")
    pieces = [len(action.samples) for action in talk.performed if isinstance(action, Audio)]
    assert sum(pieces) == 43 * 375
    assert min(pieces[1:-1]) >= 800


def test_audio_after_the_end_is_nothing() -> None:
    """The page's recorder has one more piece when it is stopped."""
    talk = join(said(3))
    talk.send(silence(2), b"", silence(1), b"", "x")
    talk.run()
    assert talk.performed.count(Finish()) == 1
    assert len(heard(talk)) == 2 * SAMPLE_RATE
    assert talk.problems == []


def test_text_is_told_and_spoils_nothing() -> None:
    talk = join(said(3))
    talk.send(silence(1) + b"\0", '{"type":"start"}', b"\0" + silence(2))
    talk.run()
    assert text(states(talk)[-1]) != ""
    talk.send("x", b"")
    talk.run()
    first, second = [state for state in states(talk) if state["status"] == "error"]
    assert "expected binary audio" in first["error"]
    assert text(second) != "", "their page shows what is in the message"
    assert text(states(talk)[-1]) == talk.text


@each_row(
    "sent",
    [
        [b"RIFF\0\0\0\0WAVEfmt "],
        [b"\0\0\0\x1cftypM4A "],
        [b"fLaC\0\0\0\x22"],
        [b"ID3\x04\0\0\0\0"],
        [silence(1), opus_file("webm")[1]],
        [opus_file("webm")[1], silence(1)],
        [opus_file("ogg")[1], silence(1)],
        [b"\x1aE\xdf\xa3\x9fB\x86\x81", b"\0" * 100],
    ],
)
def test_audio_of_another_kind_ends_the_connection(sent: list[bytes]) -> None:
    talk = join()
    talk.send(*sent)
    (problem,) = talk.problems
    assert problem.fatal
    assert states(talk)[-1]["error"] == problem.message
    assert "expected" in problem.message


# --- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["full", "diff"])
def test_what_was_confirmed_is_a_line_when_a_session_fails(mode: str) -> None:
    talk = join(mode=mode)
    tell(talk, Confirmed(0, 24_000, (RED,)), Hypothesis(1, 32_000, (HOUSE,)), Error(2, 32_000, "broken", True))
    last = states(talk)[-1]
    assert (text(last), last["buffer_transcription"], last["error"]) == ("Red", "", "broken")
    assert talk.close == Close(1011)


def test_a_session_that_gets_too_long_is_finished() -> None:
    talk = join(said(3))
    talk.send(silence(2))
    talk.trouble(Problem("too_long", "that was long", False))
    talk.queue.append(Finish())
    talk.run()
    assert text(states(talk)[-1]) == talk.text != ""
    assert talk.json()[-1] == READY


@quick(25)
@given(
    st.lists(st.one_of(st.integers(1, 12_000), st.none()), max_size=30),
    st.integers(0, 99),
    st.integers(0, 6),
    st.sampled_from(["full", "diff"]),
)
def test_no_word_is_lost_or_changed_whatever_is_sent_when(
    steps: list[int | None], seed: int, pauses: int, mode: str
) -> None:
    talk = join(said(14, pause_every=pauses), seed, mode=mode)
    talk.play(steps, lambda samples: bytes(2 * samples + samples % 2))
    talk.send(b"")
    talk.run()
    said_by_then = [text(state) for state in states(talk)]
    assert all(later.startswith(earlier) for earlier, later in pairwise(said_by_then))
    assert said_by_then[-1] == talk.text
    assert talk.json()[-1] == READY


@quick(30)
@given(st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=40), st.just("{}")), max_size=6), st.booleans())
def test_anything_is_answered_properly(sent: list[str | bytes], diff: bool) -> None:
    talk = join(mode="diff" if diff else "full")
    talk.send(*sent)
    talk.run()
    assert all(json.loads(reply) for reply in talk.replies)


# --- translation ------------------------------------------------------------------------------------------------------


def translating(**query: str) -> Conversation:
    about = opening(**query)
    protocol = WhisperLiveKitProtocol(replace(about, server=replace(about.server, translations=("fr", "de"))))
    return Conversation(protocol, (), 0)


def translation(word: Word, text: str) -> Translation:
    return Translation(0, word.end, word.start, word.end, "fr", text)


LATER = Word(" Later.", 40_000, 48_000)


def test_a_line_has_the_translation_of_its_sentences() -> None:
    talk = translating()
    tell(talk, Confirmed(0, 0, (RED, HOUSE)), translation(RED, "Maison rouge."))
    assert [line["translation"] for line in states(talk)[-1]["lines"]] == ["Maison rouge."]
    tell(talk, TurnEnd(0, 24_000, 24_000), Confirmed(0, 0, (LATER,)))
    tell(talk, translation(HOUSE, "Une maison."))
    first, second = states(talk)[-1]["lines"]
    assert first["translation"] == "Maison rouge. Une maison."
    assert "translation" not in second
    tell(talk, translation(LATER, "Plus tard."), End(0, 48_000, 48_000))
    assert [line["translation"] for line in states(talk)[-1]["lines"]] == ["Maison rouge. Une maison.", "Plus tard."]


def test_a_line_that_was_sent_cannot_change() -> None:
    talk = translating(mode="diff")
    tell(talk, Confirmed(0, 0, (RED, HOUSE)), translation(RED, "Maison rouge."), TurnEnd(0, 24_000, 24_000))
    assert states(talk)[-1]["lines"][0]["translation"] == "Maison rouge."
    tell(talk, Confirmed(0, 0, (LATER,)), TurnEnd(0, 48_000, 48_000))
    tell(talk, translation(LATER, "Plus tard."))
    state = states(talk)[-1]
    assert (state["buffer_translation"], "translation" in state["lines"][1]) == ("Plus tard.", False)


@pytest.mark.parametrize(("query", "language"), [({}, "fr"), ({"target_language": "de-AT"}, "de")])
def test_the_address_chooses_among_the_languages_of_the_operator(query: dict[str, str], language: str) -> None:
    (start,) = [action for action in translating(**query).performed if isinstance(action, Start)]
    assert start.settings.translate_to == language


def test_another_language_is_refused_and_without_a_translator_it_has_no_effect() -> None:
    talk = translating(target_language="es")
    assert "target_language among fr, de; got es" in talk.json()[0]["error"]
    (start,) = [action for action in join(target_language="es").performed if isinstance(action, Start)]
    assert start.settings.translate_to is None
