"""What is said of a text that is likely to be wrong as a whole."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from command_line import Run, write_wav
from fake_transcriber import FakeTranscriber
from whispertide import api
from whispertide.cli.hints import of_english, of_language
from whispertide.decoding.longform import OfflineSegment
from whispertide.events import Event, Language
from whispertide.formats.document import TextSegment
from whispertide.types import FloatArray


def said(text: str, logprob: float) -> TextSegment:
    return TextSegment(0, 16_000, text, (), {"avg_logprob": logprob})


def test_a_language_that_is_certain_enough_gets_no_hint() -> None:
    assert of_language("fr", 0.5) is None
    assert of_language("en", 0.304) == (
        "hint: the language is a weak guess (English, 30%); --language says which it is"
    )


@pytest.mark.parametrize(
    ("segments", "told"),
    [
        ([], False),
        ([said("", -3.0)], False),
        ([TextSegment(0, 1, " no scores")], False),
        ([said(" short", -4.0), said(" but most of it is as likely as usual", -0.3)], False),
        ([said(" Sen. La Ratio aquirdigito", -3.9)], True),
    ],
)
def test_a_text_that_is_unlikely_throughout(segments: list[TextSegment], told: bool) -> None:
    assert (of_english(segments, "tiny.en") is not None) is told


class Unsure(FakeTranscriber):
    """Is sure of nothing: neither of the language nor of any word."""

    def transcribe_segments(self, *args: Any, **options: Any) -> Iterator[OfflineSegment]:
        for segment in super().transcribe_segments(*args, **options):
            yield replace(segment, avg_logprob=-3.0, language_probability=0.3)

    def session(self, *args: Any, **options: Any) -> Any:
        session = super().session(*args, **options)
        push = session.push

        def unsure(samples: FloatArray) -> list[Event]:
            return [replace(e, probability=0.3) if isinstance(e, Language) else e for e in push(samples)]

        session.push = unsure  # type: ignore[method-assign]
        return session


@pytest.mark.parametrize("multilingual", [True, False])
def test_both_are_said_of_a_recording(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, multilingual: bool
) -> None:
    transcriber = Unsure(dims=SimpleNamespace(is_multilingual=multilingual))
    monkeypatch.setattr(api, "load", lambda *_, **__: transcriber)
    told = run("transcribe", write_wav(tmp_path / "a.wav", 5)).stderr
    assert told.count("weak guess (English, 30%)") == 1
    assert ("knows English only" in told) is not multilingual


def test_a_stream_says_it_of_its_language(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(api, "load", lambda *_, **__: Unsure())
    told = run("transcribe", "-r", "tide", write_wav(tmp_path / "a.wav", 2)).stderr
    assert told.count("weak guess (English, 30%)") == 1
