"""Spoken commands as a corpus to measure on: a folder of shards that `whispertide train commands` made."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from whispertide.audio.buffer import to_float
from whispertide.lab.evaluation.corpora.listed import existing_folder
from whispertide.lab.speech.utterance import RefWord, Utterance
from whispertide.lab.training.shards import ShardEntry, Shards, open_shards
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class CommandCorpus:
    """Each command is an utterance, grouped by its voice."""

    name: str
    hash: str
    shards: Shards

    def utterances(self) -> Iterator[Utterance]:
        """In the order of the shards."""
        return (self._utterance(number, place) for number, place in enumerate(self.shards.places))

    def _utterance(self, number: int, place: ShardEntry) -> Utterance:
        entry = place.entry
        words, spans = entry["text"].split(), entry.get("words")
        if spans is None:
            said = [RefWord(word) for word in words]
        else:
            said = [RefWord(word, first, end) for word, (first, end) in zip(words, spans, strict=True)]

        def audio() -> FloatArray:
            return to_float(self.shards[number].samples)

        exact, intent = spans is not None and entry.get("exact", True), entry.get("intent")
        return Utterance(
            f"{self.name}/{number}", tuple(said), place.seconds, audio, exact, entry["source"], intent=intent
        )


def open_commands(path: str | Path, *, quick: bool = False, seed: int = 0) -> CommandCorpus:
    """The commands of a folder. A quick run takes an excerpt of them. Raises `CorpusError` where it has no shards."""
    folder = existing_folder(path, "shards of commands")
    shards, digest = open_shards([folder]), hashlib.sha256()
    for file in sorted(folder.glob("[0-9]*.*")):
        digest.update(file.read_bytes())
    return CommandCorpus(f"commands-{folder.name}", digest.hexdigest()[:12], shards)
