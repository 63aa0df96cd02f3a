"""Speech on disk, ready for training: folders of shards, each an array of samples and a list of utterances.

`00042.npy` holds int16 samples at 16 kHz, one utterance after the other, read by memory map; `00042.json` lists them:
text, length, source (a voice or a speaker) and, where known, the span of each word of the text. Synthesis writes such
folders, and so does preparing a user's manifest; `licences.json` counts the utterances under each licence that the
manifest names. Knows nothing of windows, tokens or torch.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.atomic import write_text
from whispertide.errors import CorpusError
from whispertide.types import SAMPLE_RATE, seconds

LICENCES = "licences.json"

Int16Array = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Utterance:
    """Something said: 16 kHz int16 [n], its text as it should be written, and first and end sample of each word.

    Not `exact` where some words share one span between them, because the synthesizer does not tell them apart.
    `intent` is what the speaker wants and `language` a code, where they are known.
    """

    samples: Int16Array
    text: str
    source: str
    words: tuple[tuple[int, int], ...] | None  # one per word of text.split(), or None where the times are not known
    exact: bool = True
    intent: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """Where an utterance is: its file, first sample, length in samples, and what the list says of it."""

    file: Path
    start: int
    count: int
    entry: dict[str, Any]

    @property
    def seconds(self) -> float:
        """Of sound."""
        return seconds(self.count)


@dataclass(frozen=True, slots=True)
class Shards(Sequence[Utterance]):
    """All utterances of some folders, in the order of their names. Holds the lists; samples stay on the disk."""

    places: tuple[ShardEntry, ...]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, at: Any) -> Any:
        place = self.places[at]
        words = place.entry.get("words")
        return Utterance(
            samples=_samples(place.file)[place.start : place.start + place.count],
            text=place.entry["text"],
            source=place.entry["source"],
            words=None if words is None else tuple((first, end) for first, end in words),
            exact=place.entry.get("exact", True),
            intent=place.entry.get("intent"),
            language=place.entry.get("language"),
        )

    def having(self, wanted: Callable[[ShardEntry], bool]) -> "Shards":
        """Only those utterances of which `wanted` is true."""
        return Shards(tuple(filter(wanted, self.places)))

    def one_in(self, count: int) -> "tuple[Shards, Shards]":
        """All utterances but one in so many, and these."""
        others = tuple(place for number, place in enumerate(self.places) if number % count)
        return Shards(others), Shards(self.places[::count])

    def spread(self, count: int) -> "Shards":
        """At most `count` utterances, from the first to the last, evenly apart."""
        chosen = np.linspace(0, len(self) - 1, min(count, len(self))).astype(int)
        return Shards(tuple(self.places[at] for at in chosen))

    def relabelled(
        self, label: Callable[[ShardEntry, Utterance], ShardEntry | None], progress: Callable[[int], None]
    ) -> "Shards":
        """The utterances as `label` gives them, without those for which it gives None. `progress` is told how many are
        done.
        """
        places = []
        for number, (place, said) in enumerate(zip(self.places, self, strict=True), 1):
            if (found := label(place, said)) is not None:
                places.append(found)
            progress(number)
        return Shards(tuple(places))

    def by_speaker(self) -> dict[str, "Shards"]:
        """The utterances of each source, a voice or a speaker."""
        found: defaultdict[str, list[ShardEntry]] = defaultdict(list)
        for place in self.places:
            found[place.entry["source"]].append(place)
        return {speaker: Shards(tuple(places)) for speaker, places in found.items()}

    def digest(self) -> str:
        """A hash over what is said and how long it takes, in this order; wherever the folders are."""
        said = hashlib.sha256()
        for place in self.places:
            said.update(json.dumps([place.entry["text"], place.count]).encode())
        return said.hexdigest()[:12]

    @property
    def texts(self) -> Iterator[str]:
        """Of all utterances, without touching the sound."""
        return (place.entry["text"] for place in self.places)

    @property
    def seconds(self) -> float:
        """Of sound in all."""
        return seconds(sum(place.count for place in self.places))


@lru_cache(maxsize=4096)
def _samples(file: Path) -> Int16Array:
    """A shard's samples as a memory map: opened once, paged in by the system as they are needed."""
    samples: Int16Array = np.load(file, mmap_mode="r")
    return samples


def write_shard(folder: Path, number: int, utterances: Sequence[Utterance]) -> None:
    """Write one shard; the list comes last and by renaming, so that a shard with a list is whole. Raises OSError."""
    stem = folder / f"{number:05d}"
    np.save(stem.with_suffix(".npy"), np.concatenate([said.samples for said in utterances]))
    entries = [
        {"text": said.text, "samples": len(said.samples), "source": said.source}
        | ({} if said.words is None else {"words": said.words})
        | ({} if said.exact else {"exact": False})
        | ({} if said.intent is None else {"intent": said.intent})
        | ({} if said.language is None else {"language": said.language})
        for said in utterances
    ]
    write_text(stem.with_suffix(".json"), json.dumps(entries))


def write_licences(folder: Path, counts: Mapping[str, int]) -> None:
    """Keep how many utterances of a folder there are under each licence. Raises OSError."""
    (folder / LICENCES).write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")


def read_licences(folder: Path) -> tuple[tuple[str, int], ...]:
    """What `write_licences` kept, in its order; nothing where nobody named licences. Raises `CorpusError`."""
    path = folder / LICENCES
    if not path.is_file():
        return ()
    try:
        return tuple((str(name), int(count)) for name, count in json.loads(path.read_text(encoding="utf-8")).items())
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise CorpusError(f"expected numbers of utterances by licence in {path}; it is damaged ({error})") from error


def open_shards(folders: Sequence[Path]) -> Shards:
    """The utterances of these folders.

    Raises `CorpusError` where a folder holds no shard, or one whose list or sound is damaged or cut off.
    """
    return Shards(tuple(place for folder in folders for place in _places(folder)))


def _places(folder: Path) -> Iterator[ShardEntry]:
    lists = sorted(folder.glob("[0-9]*.json"))
    if not lists:
        raise CorpusError(
            f"expected a folder of shards (00000.npy, 00000.json, ...); {folder} has none: "
            f"make it with `whispertide train speech` or `whispertide train prepare`"
        )
    for path in lists:
        file, start = path.with_suffix(".npy"), 0
        try:
            for entry in json.loads(path.read_text(encoding="utf-8")):
                count, words = int(entry["samples"]), entry.get("words")
                if words is not None and len(words) != len(entry["text"].split()):
                    raise ValueError(f"{len(words)} spans for the words of {entry['text']!r}")
                yield ShardEntry(file, start, count, {"source": "", **entry})
                start += count
            _check_size(file, start)
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise CorpusError(f"expected a whole shard at {path}; it is damaged ({error}): make it again") from error


def _check_size(file: Path, count: int) -> None:
    """The sound is as long as the list says; only the size of the file is looked at."""
    header, there = 128, file.stat().st_size  # numpy pads its header of such an array to 128 bytes
    if there != header + 2 * count:
        raise ValueError(
            f"{file.name} should hold {count / SAMPLE_RATE:.1f} s in {header + 2 * count} bytes; it has {there}"
        )
