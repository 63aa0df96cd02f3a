"""The clips of speech that come with the tests: their sound, what is said in them, and what of it is written twice."""

from collections import Counter
from functools import cache
from pathlib import Path

from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.cli.demo import plain
from whispertide.recipes.recipe import Recipe
from whispertide.types import FloatArray, join_words

CLIPS = Path(__file__).parents[1] / "clips"


@cache
def clip(stem: str) -> FloatArray:
    """16 kHz [n]."""
    return load_audio(CLIPS / f"{stem}.flac")


def said(*stems: str) -> str:
    """In these clips, one after the other."""
    return " ".join((CLIPS / f"{stem}.txt").read_text(encoding="utf-8") for stem in stems)


def streamed(model: Transcriber, recipe: Recipe, samples: FloatArray) -> str:
    """What a session confirms, in portions of 0.1 s."""
    session = model.session(recipe)
    for at in range(0, len(samples), 1_600):
        session.push(samples[at : at + 1_600])
    session.finish()
    return join_words(session.transcript.words)


def said_again(text: str, *stems: str) -> list[str]:
    """Runs of three words that come more often than they were said; what was misheard was said once."""
    once = _triples(said(*stems))
    return [" ".join(run) for run, count in _triples(text).items() if count > max(1, once[run])]


def _triples(text: str) -> Counter[tuple[str, ...]]:
    words = plain(text).split()
    return Counter(zip(words, words[1:], words[2:], strict=False))
