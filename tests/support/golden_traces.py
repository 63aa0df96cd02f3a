"""Traces of what every recipe did, kept: the same audio with the same round boundaries must give the same events.

    python tests/support/golden_traces.py [RECIPE ...]  record them anew (a change of behaviour: a commit explains it)

`recordings` are those of the project, 105 s; `talks` are 300 s of the synthetic talks, where the synthesizers are.
"""

import gzip
import hashlib
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import whispertide
from whispertide.api import Transcriber
from whispertide.audio.file import decode_blocks
from whispertide.events import Event, to_dict
from whispertide.recipes.catalogue import RECIPES, get_recipe
from whispertide.session import Session
from whispertide.streaming.schedule import Recorded
from whispertide.types import N_FRAMES, SAMPLE_RATE, FloatArray
from whispertide_lab.from_json import built

FOLDER = Path(__file__).parents[1] / "golden"
HERE = (Path(whispertide.__file__).parent / "bundled/audio/demo.flac", Path(__file__).parents[1] / "clips/long.flac")
BLOCK = SAMPLE_RATE // 10


@dataclass(frozen=True, slots=True)
class Golden:
    """One recipe on one audio: where its rounds ended, under what load, and what came out.

    `arithmetic` is a digest of what the encoder computed, to the bit: another processor may round otherwise.
    """

    audio: str
    arithmetic: str
    boundaries: tuple[int, ...]
    loads: tuple[int, ...]
    events: tuple[dict[str, Any], ...]


def recordings() -> FloatArray:
    """The demo and the longest clip."""
    return np.concatenate([block for path in HERE for block in decode_blocks(path)])


def talks() -> FloatArray:
    """300 s of the talks. Raises `CorpusError` where no synthesizers are installed."""
    from whispertide_lab.evaluation.corpora import open_corpus
    from whispertide_lab.evaluation.corpora.parts import Excerpt

    corpus = Excerpt(open_corpus("talks", length_s=300), 300)
    return np.concatenate([utterance.audio() for utterance in corpus.utterances()])


AUDIO = {"recordings": recordings, "talks": talks}


@cache
def transcriber() -> Transcriber:
    """The bundled model, rounded as little as it can be, on one thread."""
    return whispertide.load("nano.en", precision="fp32", provider="cpu", threads=1)


def arithmetic(recipe: str) -> str:
    """A digest of noise, encoded in windows of the length that the recipe hears."""
    return _arithmetic(N_FRAMES if get_recipe(recipe).framing.kind == "pad30" else 400)


@cache
def _arithmetic(columns: int) -> str:
    # Long windows take other kernels than short ones, so processors that agree on these may differ on those.
    noise = np.random.default_rng(0).standard_normal((80, columns)).astype(np.float32)
    encoded = transcriber().model.encode(noise)
    return digest(np.concatenate([np.asarray(keys.numpy()).ravel() for keys in encoded.cross_k]))


def digest(values: FloatArray) -> str:
    """Of the bits."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def blocks(audio: FloatArray, lengths: Iterator[int]) -> Iterator[FloatArray]:
    """The audio in portions."""
    at = 0
    while at < len(audio):
        length = next(lengths)
        yield audio[at : at + length]
        at += length


def plain(events: Sequence[Event]) -> tuple[dict[str, Any], ...]:
    """What a client sees of them: words, times and what happened; not what it cost."""
    listed = [json.loads(json.dumps(to_dict(event))) for event in events]
    for each in listed:
        each.pop("stats", None)
    return tuple(listed)


def record(recipe: str, audio: FloatArray) -> Golden:
    """Run the recipe by its own schedule, in even portions."""
    session = transcriber().session(recipe)
    events: list[Event] = []
    for block in blocks(audio, iter(lambda: BLOCK, 0)):
        events += session.push(block)
    events += session.finish()
    return Golden(digest(audio), arithmetic(recipe), session.boundaries, session.loads, plain(events))


def replay(
    recipe: str, audio: FloatArray, golden: Golden, *, beginning: bool = False, seed: int = 0
) -> tuple[dict[str, Any], ...]:
    """Run it with the recorded boundaries, in random portions; a `beginning` of the audio does not end."""
    like = transcriber().session(recipe)
    schedule = Recorded(golden.boundaries, golden.loads)
    session = Session(like.recipe, like.executor, like.recipe.schedule.gate(), options=like.options, schedule=schedule)
    dice = random.Random(seed)
    events: list[Event] = []
    for block in blocks(audio, iter(lambda: dice.randint(1, SAMPLE_RATE), 0)):
        events += session.push(block)
    return plain(events if beginning else [*events, *session.finish()])


def path(audio: str, recipe: str) -> Path:
    """Where the trace is kept."""
    return FOLDER / f"{audio}-{recipe}.json.gz"


def load(audio: str, recipe: str) -> Golden:
    """The kept trace."""
    kept: Golden = built(Golden, json.loads(gzip.decompress(path(audio, recipe).read_bytes())))
    return kept


def save(audio: str, recipe: str, golden: Golden) -> None:
    """Keep the trace."""
    path(audio, recipe).parent.mkdir(exist_ok=True)
    path(audio, recipe).write_bytes(gzip.compress(json.dumps(asdict(golden)).encode(), mtime=0))


def main() -> None:
    """Record those of the recipes that are named, or of all."""
    recipes = sys.argv[1:] or list(RECIPES)
    for name, make in AUDIO.items():
        audio = make()
        for recipe in recipes:
            save(name, recipe, record(recipe, audio))
            print(path(name, recipe), flush=True)


if __name__ == "__main__":
    main()
