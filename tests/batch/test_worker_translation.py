"""A worker whose recording fails while its translator is away."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripted_translator import ScriptedTranslator, until
from whispertide import api
from whispertide.batch.worker import Ready, Setup, Translation, Worker
from whispertide.decoding.longform import OfflineSegment
from whispertide.errors import GraphError
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.translation.translator import TranslationOptions, TranslatorError
from whispertide.types import Span

QUIET = Path(__file__).parents[1] / "clips" / "quiet.flac"


def test_of_a_recording_that_fails_nothing_more_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sentences waited for ever."""
    away = ScriptedTranslator(problems=[TranslatorError("no connection", "outage")] * 1000)
    monkeypatch.setattr("whispertide.translation.opening.open_translator", lambda *_: away)
    weights = api.load("nano.en", threads=1).model.content_hash
    wanted = Translation(TranslationOptions("fr"), "http://localhost:1/v1", "llm")
    worker = Worker(Setup("nano.en", None, EngineOptions(threads=1), DecodeOptions(), "srt", weights, wanted))
    assert worker.load() == Ready()

    def breaks_off(*_: Any, **__: Any) -> Iterator[OfflineSegment]:
        yield OfflineSegment(0, Span(0, 16_000), " Hello there.", (), (), 0.0, 1.0, 0.0, 0.0, "en")
        yield OfflineSegment(1, Span(16_000, 32_000), " More.", (), (), 0.0, 1.0, 0.0, 0.0, "en")
        until(away.began.is_set)
        raise GraphError("the graph decoder.onnx failed")

    monkeypatch.setattr(worker._transcriber, "transcribe_segments", breaks_off)
    assert worker.transcribe(str(QUIET)).state == "failed"
    until(lambda: not any(thread.name == "translation" for thread in threading.enumerate()))
