"""A call with a speaker on each channel, heard apart."""

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chat_server import chat_server, fails
from command_line import Run
from fake_transcriber import HALF, FakeSession, FakeTranscriber
from sounds import make_wav
from whispertide.cli.interrupt import Interrupts
from whispertide.options import DecodeOptions
from whispertide.translation.channels import ChannelTranslating
from whispertide.types import FloatArray, OfflineSegment, Span, Word

RAW = ("--rate", "16000", "--sample-format", "f32le")
Loads = list[tuple[str, dict[str, object]]]


def hears_loud_halves(audio: Iterable[FloatArray], **settings: Any) -> Iterator[OfflineSegment]:
    """A word for each half of a second in which somebody speaks, by its number."""
    samples = np.concatenate(list(audio))
    for number in range(len(samples) // HALF):
        start = number * HALF
        if np.abs(samples[start : start + HALF]).max() > 0.05:
            words = (Word(f" half{number}.", start, start + HALF),)
            yield OfflineSegment(number, Span(start, start + HALF), words[0].text, (), words, -0.1, 1, 0, 0, "en")


@pytest.fixture
def call(tmp_path: Path, transcriber: FakeTranscriber, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The left channel speaks in the halves 0, 1 and 4, the right one in 2, 3 and 4: at once with the left one."""
    monkeypatch.setattr(transcriber, "transcribe_segments", hears_loud_halves)
    sound = np.zeros((6 * HALF, 2), np.float32)
    for channel, halves in enumerate(((0, 1, 4), (2, 3, 4))):
        for half in halves:
            sound[half * HALF : (half + 1) * HALF, channel] = 0.3
    path = tmp_path / "call.wav"
    path.write_bytes(make_wav(sound, 16_000, "f32"))
    return path


def test_each_channel_is_a_speaker(run: Run, call: Path) -> None:
    result = run("transcribe", call, "--multichannel", "-f", "json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    heard = [(segment["speaker"], segment["text"].strip()) for segment in document["segments"]]
    assert heard[:4] == [(1, "half0."), (1, "half1."), (2, "half2."), (2, "half3.")]
    assert sorted(heard[4:]) == [(1, "half4."), (2, "half4.")], "who speaks at once is heard, too"
    assert {word["speaker"] for word in document["words"]} == {1, 2}
    assert document["duration"] == 3


def test_text_and_subtitles_name_them(run: Run, call: Path) -> None:
    text = run("transcribe", call, "--multichannel").stdout.splitlines()
    assert text[0] == "Speaker 1: half0."
    assert "<v Speaker 2>half2." in run("transcribe", call, "--multichannel", "-f", "vtt").stdout


def test_what_breaks_in_the_second_channel_keeps_the_first(
    run: Run, call: Path, tmp_path: Path, transcriber: FakeTranscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(audio: Iterable[FloatArray], **settings: Any) -> Iterator[OfflineSegment]:
        for segment in hears_loud_halves(audio):
            if segment.text == " half3.":
                raise KeyboardInterrupt
            yield segment

    monkeypatch.setattr(transcriber, "transcribe_segments", breaks)
    result = run("transcribe", call, "--multichannel", "-o", tmp_path / "call.txt")
    assert result.exit_code == 130
    kept = (tmp_path / "call.partial.txt").read_text().splitlines()
    assert kept == ["Speaker 1: half0.", "Speaker 1: half1.", "Speaker 2: half2.", "Speaker 1: half4."]


def test_voices_are_not_told_apart_as_well(run: Run, call: Path, loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.speakers.embedding.find_embedding", lambda: None)
    result = run("transcribe", call, "--multichannel", "--speakers", "2")
    assert result.exit_code == 2
    assert "got both" in " ".join(result.stderr.split())
    assert not loads


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "expected a file with --multichannel"),
        (("--pace", "max"), "expected a file with --multichannel"),
        ((*RAW, "--channels", "2"), "or stream it with --pace live"),
        ((*RAW, "--pace", "live"), "expected --channels N, two or more"),
    ],
)
def test_standard_input_can_be_read_once(run: Run, call: Path, options: tuple[str, ...], told: str) -> None:
    result = run("transcribe", "-", "--multichannel", *options, stdin=call.read_bytes())
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


@pytest.mark.parametrize("piped", [False, True])
def test_a_stream_has_a_session_for_each_channel(
    run: Run, call: Path, transcriber: FakeTranscriber, monkeypatch: pytest.MonkeyPatch, piped: bool
) -> None:
    heard: list[list[FloatArray]] = []

    def session(*_: object, **__: object) -> FakeSession:
        one, parts = FakeSession(DecodeOptions()), list[FloatArray]()
        ingest = one.ingest

        def noted(samples: FloatArray) -> None:
            parts.append(samples)
            ingest(samples)

        monkeypatch.setattr(one, "ingest", noted)
        heard.append(parts)
        return one

    monkeypatch.setattr(transcriber, "session", session)
    raw = (*RAW, "--channels", "2")
    source = ("-", *raw) if piped else (call,)
    sound = call.read_bytes()[44:] if piped else None
    result = run("transcribe", *source, "--multichannel", "--pace", "max", stdin=sound)
    assert result.exit_code == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [
        f"Speaker {number}: word0 word1 word2 word3 word4 word5" for number in (1, 2)
    ]
    left, right = (np.concatenate(parts) for parts in heard)
    assert np.flatnonzero(left[::HALF] == 0.3).tolist() == [0, 1, 4]
    assert np.flatnonzero(right[::HALF] == 0.3).tolist() == [2, 3, 4]


def asking(url: str) -> tuple[str, ...]:
    return "--translate-to", "fr", "--translator", url, "--translator-model", "llm"


def test_a_recording_has_the_translations_of_each_speaker(run: Run, call: Path) -> None:
    with chat_server() as chat:
        result = run("transcribe", call, "--multichannel", "-f", "json", *asking(chat.url))
    document = json.loads(result.stdout)
    translated = [(one["speaker"], one["text"].replace("French: ", "")) for one in document["translations"]]
    said = [(one["speaker"], one["text"].strip().upper()) for one in document["segments"]]
    assert sorted(translated) == sorted(said)
    assert [one["start"] for one in document["translations"]] == sorted(one["start"] for one in document["segments"])


@pytest.mark.parametrize("pace", ["max", "live"])
def test_a_stream_has_a_translator_for_each_channel(run: Run, call: Path, tmp_path: Path, pace: str) -> None:
    with chat_server() as chat:
        stream = ("transcribe", call, "--multichannel", "--pace", pace, *asking(chat.url))
        result = run(*stream, "-o", f"{tmp_path}/", "-f", "jsonl,vtt,json")
    assert result.exit_code == 0, result.stderr
    events = [json.loads(line) for line in (tmp_path / "call.jsonl").read_text().splitlines()]
    french = "French: WORD0 WORD1 WORD2 WORD3 WORD4 WORD5"
    for channel in (1, 2):
        own = [event for event in events if event["channel"] == channel]
        assert [event["seq"] for event in own] == list(range(len(own)))
        assert [event["text"] for event in own if event["type"] == "translation"] == [french]
        assert own[-1]["type"] == "end"
    vtt = (tmp_path / "call.fr.vtt").read_text().replace("\n", " ")
    assert all(f"<v Speaker {number}>French: WORD0" in vtt for number in (1, 2))
    document = json.loads((tmp_path / "call.json").read_text())
    assert sorted((one["speaker"], one["text"]) for one in document["translations"]) == [(1, french), (2, french)]


def test_on_standard_output_a_translation_is_a_line_of_its_speaker(run: Run, call: Path) -> None:
    with chat_server() as chat:
        result = run("transcribe", call, "--multichannel", "--pace", "max", *asking(chat.url))
    translated = sorted(line for line in result.stdout.splitlines() if line.startswith("[fr]"))
    assert [line[: len("[fr] Speaker 1: French: WORD0")] for line in translated] == [
        f"[fr] Speaker {number}: French: WORD0" for number in (1, 2)
    ]


def test_a_translator_that_fails_is_told_of_each_channel_and_costs_nothing_else(run: Run, call: Path) -> None:
    with chat_server(fails(401, "who are you?"), fails(401, "who are you?")) as chat:
        result = run("transcribe", call, "--multichannel", "--pace", "max", *asking(chat.url))
    assert result.exit_code == 0
    told = " ".join(result.stderr.split())
    assert all(f"warning: channel {number}: translations fail, captions continue" in told for number in (1, 2))
    assert len(result.stdout.splitlines()) == 2


def test_of_a_recording_it_is_told_of_each_channel_too(run: Run, call: Path) -> None:
    with chat_server(fails(401, "who are you?"), fails(401, "who are you?")) as chat:
        result = run("transcribe", call, "--multichannel", *asking(chat.url))
    assert result.exit_code == 0
    told = " ".join(result.stderr.split())
    assert all(f"warning: channel {number}: translations fail, captions continue" in told for number in (1, 2))


def test_an_interrupt_of_the_wait_for_translations_costs_no_channel(
    run: Run, call: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait was at the end of each channel, and those after it were not heard."""

    def pressed(translating: ChannelTranslating, interrupts: Interrupts, *_: object, **__: object) -> None:
        interrupts.pressed = True
        translating.give_up()

    monkeypatch.setattr("whispertide.cli.job.finish_translations", pressed)
    with chat_server() as chat:
        result = run("transcribe", call, "--multichannel", "-o", tmp_path / "call.txt", *asking(chat.url))
    assert "interrupted; the transcript is in" in " ".join(result.stderr.split())
    said = (tmp_path / "call.txt").read_text().splitlines()
    assert [line for line in said if line.startswith("Speaker 2: ")] == [f"Speaker 2: half{n}." for n in (2, 3, 4)]


def test_the_figures_are_of_all_channels(
    run: Run, call: Path, transcriber: FakeTranscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were those of the last one."""

    def hears_slowly(audio: Iterable[FloatArray], **settings: Any) -> Iterator[OfflineSegment]:
        time.sleep(0.1)
        return hears_loud_halves(audio, **settings)

    monkeypatch.setattr(transcriber, "transcribe_segments", hears_slowly)
    figures = json.loads(run("transcribe", call, "--multichannel", "-f", "json").stdout)["metrics"]
    assert figures["audio_s"] == 3
    assert figures["wall_s"] >= 0.2
    assert 0.1 <= figures["first_text_s"] <= figures["wall_s"] - 0.09


def test_one_channel_is_none_of_two(run: Run, talk: Path) -> None:
    result = run("transcribe", talk, "--multichannel")
    assert result.exit_code == 3
    assert "expected two channels or more" in result.stderr
