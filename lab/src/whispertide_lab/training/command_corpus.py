"""Spoken commands as a corpus to measure on: a folder of shards that `whispertide train commands` made."""

import hashlib
from pathlib import Path

from whispertide.audio.buffer import to_float
from whispertide.types import FloatArray
from whispertide_lab.evaluation.corpora.listed import existing_folder
from whispertide_lab.speech.utterance import Recordings, RefWord, Utterance
from whispertide_lab.training.shards import Shards, open_shards


def open_commands(path: str | Path, *, quick: bool = False, seed: int = 0) -> Recordings:
    """The commands of a folder, each an utterance, grouped by its voice. A quick run takes an excerpt of them.

    Raises `CorpusError` where it has no shards.
    """
    folder = existing_folder(path, "shards of commands")
    shards, digest = open_shards([folder]), hashlib.sha256()
    for file in sorted(folder.glob("[0-9]*.*")):
        digest.update(file.read_bytes())
    name = f"commands-{folder.name}"
    items = tuple(_utterance(f"{name}/{number}", shards, number) for number in range(len(shards.places)))
    return Recordings(name, digest.hexdigest()[:12], items)


def _utterance(name: str, shards: Shards, number: int) -> Utterance:
    place = shards.places[number]
    entry = place.entry
    words, spans = entry["text"].split(), entry.get("words")
    if spans is None:
        said = [RefWord(word) for word in words]
    else:
        said = [RefWord(word, first, end) for word, (first, end) in zip(words, spans, strict=True)]

    def audio() -> FloatArray:
        return to_float(shards[number].samples)

    exact, intent = spans is not None and entry.get("exact", True), entry.get("intent")
    return Utterance(name, tuple(said), place.seconds, audio, exact, entry["source"], intent=intent)
