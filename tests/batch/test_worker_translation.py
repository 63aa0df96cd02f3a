"""A worker that translates: what it says of channels, and a recording that fails while its translator is away."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripted_translator import ScriptedTranslator, until
from sounds import make_wav
from whispertide import api
from whispertide.batch.worker import Ready, Setup, Translation, Worker
from whispertide.errors import GraphError
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.translation.translator import TranslationOptions, TranslatorError
from whispertide.types import OfflineSegment, Span, Word

QUIET = Path(__file__).parents[1] / "clips" / "quiet.flac"


def worker_with(translator: ScriptedTranslator, monkeypatch: pytest.MonkeyPatch, **setup: Any) -> Worker:
    monkeypatch.setattr("whispertide.translation.opening.open_translator", lambda *_: translator)
    weights = api.load("nano.en", threads=1).model.content_hash
    wanted = Translation(TranslationOptions("fr"), "http://localhost:1/v1", "llm")
    usual = Setup("nano.en", None, EngineOptions(threads=1), DecodeOptions(), "srt", weights, wanted)
    worker = Worker(replace(usual, **setup))
    assert worker.load() == Ready()
    return worker


def said_by(form: str, text: str) -> list[tuple[int, str]]:
    """The translations in a file, each with the number of its speaker."""
    match form:
        case "json":
            return [(one["speaker"], one["text"]) for one in json.loads(text)["translations"]]
        case "jsonl":
            events = [json.loads(line) for line in text.splitlines()]
            return [(event["speaker"], event["text"]) for event in events if event["type"] == "translation"]
        case "vtt":
            return [(int(cue[0]), cue.splitlines()[0].partition(">")[2]) for cue in text.split("<v Speaker ")[1:]]
    lines = [line.removeprefix("Speaker ").partition(": ") for line in text.splitlines()]
    return [(int(number), rest) for number, _, rest in lines]


@pytest.mark.parametrize("form", ["json", "vtt", "txt", "jsonl"])
def test_a_translation_of_channels_names_the_speakers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Only the transcript did."""
    worker = worker_with(ScriptedTranslator(), monkeypatch, form=form, multichannel=True)
    said = iter((" Where", " Here."))

    def hears(*_: Any, **__: Any) -> Iterator[OfflineSegment]:
        text = next(said)
        for number in range(2):
            span = Span(number * 16_000, number * 16_000 + 8_000)
            yield OfflineSegment(number, span, text, (), (Word(text, span.start, span.end),), 0, 1, 0, 0, "en")

    monkeypatch.setattr(worker._transcriber, "transcribe_segments", hears)
    path = tmp_path / "call.wav"
    path.write_bytes(make_wav(np.zeros((32_000, 2), np.float32), 16_000, "s16"))
    outcome = worker.transcribe(str(path))
    assert outcome.state == "done", outcome.reason
    text = outcome.others.get("fr", outcome.text) or ""
    assert said_by(form, text) == [(1, "FR: WHERE WHERE"), (2, "FR: HERE."), (2, "FR: HERE.")]


def test_of_a_recording_that_fails_nothing_more_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sentences waited for ever."""
    away = ScriptedTranslator(problems=[TranslatorError("no connection", "outage")] * 1000)
    worker = worker_with(away, monkeypatch)

    def breaks_off(*_: Any, **__: Any) -> Iterator[OfflineSegment]:
        yield OfflineSegment(0, Span(0, 16_000), " Hello there.", (), (), 0.0, 1.0, 0.0, 0.0, "en")
        yield OfflineSegment(1, Span(16_000, 32_000), " More.", (), (), 0.0, 1.0, 0.0, 0.0, "en")
        until(away.began.is_set)
        raise GraphError("the graph decoder.onnx failed")

    monkeypatch.setattr(worker._transcriber, "transcribe_segments", breaks_off)
    assert worker.transcribe(str(QUIET)).state == "failed"
    until(lambda: not any(thread.name == "translation" for thread in threading.enumerate()))
