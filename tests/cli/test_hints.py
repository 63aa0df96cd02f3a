"""What is said of a text that is likely to be wrong as a whole."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from command_line import Run, write_wav
from each_row import each_row
from fake_transcriber import FakeTranscriber
from whispertide import api
from whispertide.cli.hints import EnglishOnly, english_hint, language_hint
from whispertide.events import Confirmed, Event, Language, SpeechStart, SpeechStop
from whispertide.formats.document import TextSegment
from whispertide.types import SAMPLE_RATE, FloatArray, OfflineSegment, Word


def said(text: str, logprob: float) -> TextSegment:
    return TextSegment(0, 16_000, text, (), {"avg_logprob": logprob})


def test_a_language_that_is_certain_enough_gets_no_hint() -> None:
    assert language_hint("fr", 0.5) is None
    assert language_hint("en", 0.304) == (
        "hint: the detected language is uncertain (English, 30%); set it with --language"
    )


@each_row(
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
    assert (english_hint(segments, "tiny.en") is not None) is told


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
    assert told.count("uncertain (English, 30%)") == 1
    assert ("supports only English" in told) is not multilingual


def test_a_stream_says_it_of_its_language(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(api, "load", lambda *_, **__: Unsure())
    told = run("transcribe", "-r", "tide", write_wav(tmp_path / "a.wav", 2)).stderr
    assert told.count("uncertain (English, 30%)") == 1


def spoken(until_s: float, words: int, probability: float) -> list[Event]:
    """Somebody speaks from 1 s on, pauses for a minute from 5 s on, and speaks again; words come all along."""
    at = round(until_s * SAMPLE_RATE)
    pause = [SpeechStop(1, 5 * SAMPLE_RATE, 5 * SAMPLE_RATE), SpeechStart(2, 65 * SAMPLE_RATE, 65 * SAMPLE_RATE)]
    confirmed = tuple(Word(" so", 0, 1, probability) for _ in range(words))
    return [SpeechStart(0, SAMPLE_RATE, SAMPLE_RATE), *pause, Confirmed(3, at, confirmed)]


@pytest.mark.parametrize(
    ("until_s", "words", "probability", "told"),
    [
        (67.0, 5, 0.6, True),
        (66.5, 5, 0.6, False),  # five and a half seconds of voice are too few, however long it took
        (67.0, 7, 0.6, False),
        (67.0, 30, 0.4, True),
        (67.0, 0, 0.0, True),
    ],
)
def test_a_stream_of_little_text_or_of_guesses_gets_one_hint(
    until_s: float, words: int, probability: float, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = EnglishOnly("tiny.en")
    for event in [*spoken(until_s, words, probability), Confirmed(4, round(until_s * SAMPLE_RATE), ())]:
        watcher.event(event)
    assert capsys.readouterr().err.count("hint: tiny.en finds hardly any words") == told


@pytest.mark.parametrize("multilingual", [True, False])
def test_of_a_stream_it_is_said_while_it_goes_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, multilingual: bool
) -> None:
    class Foreign(FakeTranscriber):
        """Hears a voice all the time, and no word."""

        def session(self, *args: Any, **options: Any) -> Any:
            session = super().session(*args, **options)
            at = 0

            def push(samples: FloatArray) -> list[Event]:
                nonlocal at
                at += len(samples)
                return [SpeechStart(0, at, 0)] if at == len(samples) else [Confirmed(1, at, ())]

            session.push = push  # type: ignore[method-assign]
            return session

    monkeypatch.setattr(api, "load", lambda *_, **__: Foreign(dims=SimpleNamespace(is_multilingual=multilingual)))
    told = run("transcribe", "-r", "tide", write_wav(tmp_path / "a.wav", 12)).stderr
    assert told.count("finds hardly any words in this speech") == (not multilingual)
