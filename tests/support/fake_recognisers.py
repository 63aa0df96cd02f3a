"""What `whispertide bench` measures in tests: recognisers without a model, on a corpus without a synthesizer."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest

from evaluation_cells import make_trace
from whispertide.errors import CheckpointNotFoundError
from whispertide.options import EngineOptions
from whispertide.recipes.recipe import Recipe
from whispertide.recipes.short_windows import choose_framing
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation import corpora, preparation, runner, workbench
from whispertide_lab.evaluation.replay import Recogniser
from whispertide_lab.evaluation.runner import Runner
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.speech.utterance import Recordings, RefWord, Utterance

# DESIGN, section 5: at least these


def talks(name: str = "talks-seed0", hash: str = "0123456789ab", count: int = 2) -> Recordings:
    """Of 40 s, a word per second."""
    words = tuple(RefWord(f"word{n}", (n - 1) * SAMPLE_RATE, n * SAMPLE_RATE) for n in range(1, 40))
    audio = np.zeros(40 * SAMPLE_RATE, np.float32)
    whole = Utterance("", words, 40.0, lambda: audio, exact_times=True)
    return Recordings(name, hash, tuple(replace(whole, id=f"talk/{number}") for number in range(count)))


def untimed() -> Recordings:
    """The same, and nobody knows when the words are said."""
    known = talks()
    words = tuple(RefWord(word.text) for word in known.items[0].words)
    return replace(known, items=tuple(replace(item, words=words, exact_times=False) for item in known.items))


@dataclass
class Heard:
    """What the fake recognisers were asked, and samples for the estimate; which recipes were tried before anything
    was made; `fail_after` so many utterances the user loses patience.
    """

    asked: list[tuple[str, str]] = field(default_factory=list)
    sampled: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    fail_after: int | None = None

    def recogniser(self, name: str, late_s: float) -> Recogniser:
        def recognise(utterance: Utterance) -> Trace:
            if utterance.id.startswith("sample of "):
                self.sampled.append(name)
                return make_trace(utterance.id)
            if self.fail_after is not None and len(self.asked) >= self.fail_after:
                raise KeyboardInterrupt
            self.asked.append((name, utterance.id))
            return make_trace(utterance.id, late_s=late_s, seconds=utterance.seconds)

        return recognise


def fake_recognisers(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """Recognisers that need no model, and a corpus that needs no synthesizer, wherever a runner asks for them."""
    record = Heard()

    def streaming(transcriber: object, recipe: Recipe, *, clock: str) -> Recogniser:
        step_s = recipe.schedule.step_s
        return record.recogniser(f"{recipe.name} {step_s:g} {recipe.framing.kind} {clock}", step_s)

    def offline(transcriber: object, **_: object) -> Recogniser:
        return record.recogniser("offline", 5.0)

    def open_corpus(spec: str, *, seed: int = 0, **_: float | None) -> Recordings:
        return talks(f"{spec}-seed{seed}", f"{seed:012d}")

    def transcriber(self: Runner, model: str) -> SimpleNamespace:
        return SimpleNamespace(
            model=SimpleNamespace(checkpoint=None, content_hash="feed" * 16, options=EngineOptions("int8", "cpu", 1)),
            dims=SimpleNamespace(is_multilingual=False),
            tokenizer=SimpleNamespace(languages=("en",)),
            calibration=None,
            warm_up=lambda: None,
            session=session,
            framed=lambda recipe: choose_framing(recipe, knows_short=True, costs=None),
        )

    def session(recipe: Recipe) -> SimpleNamespace:
        if recipe.framing.kind == "hush":
            raise CheckpointNotFoundError("expected a hush word; there is none")
        record.checked.append(recipe.name)
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(workbench, "digest_attachments", lambda model: "nothing")
    monkeypatch.setattr(runner, "streaming", streaming)
    monkeypatch.setattr(runner, "offline", offline)
    monkeypatch.setattr(corpora, "open_corpus", open_corpus)
    monkeypatch.setattr(preparation, "check_corpus", lambda spec: None)
    monkeypatch.setattr(Runner, "transcriber", transcriber)
    return record
