"""A transcriber that needs no model: it "hears" one word per half second of audio, whatever the audio is.

Word n spans [0.5 n, 0.5 n + 0.4] s. It is a guess once it has ended, and confirmed half a second later. Every tenth
word ends a sentence. As a program it runs the command line with this transcriber:

    python tests/support/fake_transcriber.py transcribe talk.wav
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from whispertide.api import Transcriber
from whispertide.errors import GraphError, UnknownLanguageError
from whispertide.events import Confirmed, End, Event, Hypothesis, Language, RoundStats, TurnEnd
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.recipes.short_windows import Costs, Framed, choose_framing
from whispertide.types import SAMPLE_RATE, FloatArray, OfflineSegment, Span, Word

HALF = SAMPLE_RATE // 2


def word(number: int) -> Word:
    text = f" word{number}" + ("." if number % 10 == 9 else "")
    return Word(text, HALF * number, HALF * number + 6400, 0.5 + (number % 5) / 10)


def announce_words() -> None:
    """For other processes: a file that appears once something is confirmed."""
    if path := os.environ.get("FAKE_HAS_WORDS"):
        Path(path).touch()


@dataclass
class FakeSession:
    options: DecodeOptions
    live: bool = False
    delay_s: float = 0.0
    fail_at: float | None = None
    samples: int = 0
    pushes: list[int] = field(default_factory=list)
    confirmed: int = 0
    seq: int = 0
    ended: bool = False
    ingested: int = 0  # samples that no `push` has looked at

    def ingest(self, samples: FloatArray) -> None:
        self.ingested += len(samples)

    def push(self, samples: FloatArray) -> list[Event]:
        assert not self.ended
        assert samples.dtype == np.float32
        self.pushes.append(len(samples))
        before, self.samples = self.samples, self.samples + self.ingested + len(samples)
        self.ingested = 0
        if self.fail_at is not None and self.samples >= self.fail_at * SAMPLE_RATE:
            raise GraphError("the graph decoder.onnx failed")
        events: list[Event] = []
        if before == 0:
            events.append(self._event(Language, language=self.options.language or "en", probability=0.9))
        heard = self.samples // HALF
        if heard > before // HALF:
            time.sleep(self.delay_s)
            stats = RoundStats(round_id=heard, window_end=self.samples, encode_s=0.001, decode_s=0.002)
            fresh = tuple(word(n) for n in range(self.confirmed, heard - 1))
            if fresh:
                events.append(self._event(Confirmed, words=fresh, stats=stats))
                self.confirmed = heard - 1
                announce_words()
            events.append(self._event(Hypothesis, words=(word(heard - 1),), stats=stats))
        return events

    def finish(self) -> list[Event]:
        self.ended = True
        heard = self.samples // HALF
        words = tuple(word(n) for n in range(self.confirmed, heard))
        events: list[Event] = [self._event(Confirmed, words=words)] if words else []
        return [
            *events,
            self._event(TurnEnd, end=self.samples),
            self._event(End, duration=self.samples),
        ]

    def collect(self) -> list[Event]:
        return []

    def drain(self) -> list[Event]:
        return []

    def close(self) -> None:
        pass

    def _event(self, kind: type[Event], **values: Any) -> Event:
        self.seq += 1
        return kind(seq=self.seq - 1, at=self.samples, **values)


@dataclass
class FakeTranscriber:
    name: str = "fake.en"
    is_bundled: bool = False
    is_known: bool = True
    delay_s: float = 0.0
    fail_at: float | None = None
    encode_s: float = 0.1
    warm: bool = False
    dims: Any = field(default_factory=lambda: SimpleNamespace(is_multilingual=False))
    tokenizer: Any = field(default_factory=lambda: SimpleNamespace(languages=("en",)))
    sessions: list[FakeSession] = field(default_factory=list)
    recipes: list[Recipe] = field(default_factory=list)
    offline_options: list[DecodeOptions] = field(default_factory=list)
    offline_gates: list[bool] = field(default_factory=list)

    language_of = Transcriber.language_of
    channel_sessions = Transcriber.channel_sessions

    def warm_up(self) -> None:
        self.warm = True

    def framed(self, recipe: Recipe) -> Framed:
        return choose_framing(recipe, False, lambda: Costs(self.encode_s))

    def can_stream(self, recipe: Recipe) -> bool:
        return recipe.framing.kind != "hush"

    def session(
        self,
        recipe: str | Recipe,
        *,
        options: DecodeOptions | None = None,
        vad: bool | None = None,
        live: bool = False,
    ) -> FakeSession:
        options = self._checked(options)
        self.recipes.append(get_recipe(recipe) if isinstance(recipe, str) else recipe)
        self.sessions.append(FakeSession(options, live, self.delay_s, self.fail_at))
        return self.sessions[-1]

    def _checked(self, options: DecodeOptions | None) -> DecodeOptions:
        options = options or DecodeOptions()
        if options.language not in (None, *self.tokenizer.languages):
            raise UnknownLanguageError(f"{self.name} knows {self.tokenizer.languages}; got {options.language!r}")
        return options

    def transcribe_segments(
        self,
        audio: Iterable[FloatArray],
        *,
        options: DecodeOptions | None = None,
        progress: Callable[[int, int], None] | None = None,
        framing: str | None = None,
        vad: bool = True,
    ) -> Iterator[OfflineSegment]:
        self.offline_options.append(self._checked(options))
        self.offline_gates.append(vad)
        total = sum(len(block) for block in audio)
        for number, start in enumerate(range(0, total, 2 * SAMPLE_RATE)):
            time.sleep(self.delay_s)
            words = tuple(word(n) for n in range(start // HALF, min(start + 2 * SAMPLE_RATE, total) // HALF))
            text = "".join(item.text for item in words)
            span = Span(start, min(start + 2 * SAMPLE_RATE, total))
            yield OfflineSegment(number, span, text, (1, 2), words, -0.2, 1.1, 0.01, 0.0, "en")
            announce_words()
            if progress is not None:
                progress(span.end, total)


def main() -> None:
    from whispertide import api
    from whispertide.cli.main import main as command_line

    delay = float(os.environ.get("FAKE_DELAY_S", "0"))
    api.load = lambda *_, **__: FakeTranscriber(delay_s=delay)  # type: ignore[assignment]
    command_line()


if __name__ == "__main__":
    main()
