"""The figures of a model card as values and as JSON: what was measured of one model, enough of it to compare later.

A `Card` has one `Result` per set and mode, with the counts of every utterance, so that two cards give paired intervals.
Knows nothing of how anything was recognised, nor of how a card looks.
"""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from whispertide.errors import OptionError
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation import bootstrap
from whispertide_lab.evaluation.bootstrap import Difference, Ratio, by_unit, units_of
from whispertide_lab.evaluation.card.measure import Record
from whispertide_lab.evaluation.card.sets import Kind, Mode, Part
from whispertide_lab.evaluation.wer import Counts
from whispertide_lab.from_json import built

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Result:
    """One set in one mode. All tuples have one item per utterance, in the order of `ids`.

    words       hits, substitutions, deletions, insertions
    characters  errors, characters of the reference
    timing      absolute errors of word starts and ends, in milliseconds
    speakers    of people; where nobody speaks, the recordings that they are parts of. Nothing of synthetic voices, and
                in cards of earlier versions
    """

    part: str
    kind: Kind
    mode: str
    corpus: str
    corpus_hash: str
    ids: tuple[str, ...]
    seconds: tuple[float, ...]
    words: tuple[tuple[int, int, int, int], ...]
    characters: tuple[tuple[int, int], ...]
    ran_away: tuple[bool, ...]
    timing: tuple[tuple[tuple[int, int], ...], ...] = ()
    speakers: tuple[str, ...] = ()

    @property
    def units(self) -> list[Hashable]:
        """What a bootstrap draws for each utterance: its speaker, or else the utterance."""
        return units_of(self.speakers or ("",) * len(self.ids))

    def by_unit(self, utterances: Sequence[Ratio]) -> list[Ratio]:
        """A ratio of each utterance, summed over what a bootstrap draws."""
        return by_unit(utterances, self.units)

    @property
    def total(self) -> Counts:
        """All utterances together."""
        return sum((Counts(*counts) for counts in self.words), Counts())

    @property
    def minutes(self) -> float:
        """Of audio."""
        return sum(self.seconds) / 60

    @property
    def word_errors(self) -> list[Ratio]:
        """Per utterance errors and words: what the word error rate is a ratio of."""
        return [(sub + dele + ins, hit + sub + dele) for hit, sub, dele, ins in self.words]

    @property
    def character_errors(self) -> list[Ratio]:
        """The same for characters."""
        return [(float(errors), float(count)) for errors, count in self.characters]

    @property
    def invented(self) -> list[Ratio]:
        """Per utterance words that nobody said, and minutes."""
        return [(counts[3], seconds / 60) for counts, seconds in zip(self.words, self.seconds, strict=True)]

    @property
    def timing_sums(self) -> list[Ratio]:
        """Per utterance the sum of the absolute errors of starts and ends in milliseconds, and their number."""
        return [(float(sum(map(sum, errors))), 2.0 * len(errors)) for errors in self.timing]

    @property
    def boundaries(self) -> list[tuple[int, int]]:
        """All timing errors."""
        return [pair for errors in self.timing for pair in errors]

    def figures(self) -> dict[str, Any]:
        """What a table shows, for whoever reads the JSON file."""
        count, total = len(self.ids), self.total
        found: dict[str, Any] = {"utterances": count, "minutes": self.minutes, "words": total.reference}
        if total.reference:
            characters = self.character_errors
            found |= {
                "wer": total.rate,
                "wer_interval": bootstrap.interval(self.by_unit(self.word_errors)),
                "cer": sum(errors for errors, _ in characters) / sum(length for _, length in characters),
                "cer_interval": bootstrap.interval(self.by_unit(characters)),
                "substitutions": total.substitutions,
                "deletions": total.deletions,
                "insertions": total.insertions,
                "ran_away": sum(self.ran_away) / count,
            }
        else:
            found |= {
                "invented_words": total.insertions,
                "invented_per_minute": total.insertions / self.minutes,
                "invented_per_minute_interval": bootstrap.interval(self.by_unit(self.invented)),
                "utterances_with_words": sum(counts[3] > 0 for counts in self.words),
            }
        if times := self.word_times_ms():
            found["word_times_ms"] = times
        return found

    def word_times_ms(self) -> dict[str, float]:
        """How many words have exact times, and how far from these ours are; empty where none has."""
        if not self.boundaries:
            return {}
        errors = np.array(self.boundaries)
        median, p90 = np.percentile(errors, [50, 90])
        return {
            "words": len(errors),
            "median": float(median),
            "p90": float(p90),
            "start_median": float(np.median(errors[:, 0])),
            "end_median": float(np.median(errors[:, 1])),
        }


@dataclass(frozen=True, slots=True)
class Card:
    """Everything about one model.

    model     name, hash, shape, parameters, bytes, alignment heads
    training  what the checkpoint's training.json says, or nothing
    about     date, seed, precision, whether it was quick, version of the code
    """

    model: Mapping[str, Any]
    training: Mapping[str, Any]
    about: Mapping[str, Any]
    results: tuple[Result, ...]

    def result(self, part: str, mode: Mode) -> Result | None:
        """That of a set in a mode."""
        return next((one for one in self.results if one.part == part and one.mode == mode.name), None)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of all sets, in order."""
        return tuple(dict.fromkeys(result.part for result in self.results))

    def to_json(self) -> str:
        """The card as text that `from_json` reads; lists of utterances take one line each."""
        results = [{**asdict(result), "figures": result.figures()} for result in self.results]
        head = {"format": FORMAT, "model": self.model, "training": self.training, "about": self.about}
        lines = ",\n".join(json.dumps(result, separators=(",", ":")) for result in results)
        return json.dumps(head, indent=1)[:-2] + ',\n "results": [\n' + lines + "\n ]\n}\n"

    @classmethod
    def from_json(cls, text: str) -> "Card":
        """The inverse. Raises `ValueError`, `KeyError` or `TypeError` where it is no card."""
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT}, got {data['format']}")
        for result in data["results"]:
            result.pop("figures", None)  # they follow from the counts
        return cls(data["model"], data["training"], data["about"], built(tuple[Result, ...], data["results"]))


def result_of(part: Part, mode: str, records: Sequence[Record]) -> Result:
    """The records of a part in a mode, which are in the order of its utterances."""

    def milliseconds(samples: int) -> int:
        return round(1000 * abs(samples) / SAMPLE_RATE)

    timing = tuple(
        tuple((milliseconds(start), milliseconds(end)) for start, end in record.timing) for record in records
    )
    words = [record.words for record in records]
    return Result(
        part=part.name,
        kind=part.kind,
        mode=mode,
        corpus=part.corpus,
        corpus_hash=part.corpus_hash,
        ids=tuple(record.utterance for record in records),
        seconds=tuple(round(utterance.seconds, 3) for utterance in part.utterances),
        words=tuple((one.hits, one.substitutions, one.deletions, one.insertions) for one in words),
        characters=tuple((record.characters.errors, record.characters.reference) for record in records),
        ran_away=tuple(record.ran_away for record in records),
        timing=timing if any(timing) else (),
        speakers=() if part.kind == "synthetic" else tuple(utterance.group for utterance in part.utterances),
    )


def pooled(name: str, results: Sequence[Result]) -> Result:
    """Sets of one kind in one mode, taken as one."""
    first = results[0]

    def together(field: str) -> Any:
        return tuple(item for result in results for item in getattr(result, field))

    return replace(
        first,
        part=name,
        corpus=" ".join(result.corpus for result in results),
        corpus_hash=" ".join(result.corpus_hash for result in results),
        ids=tuple(f"{result.part}: {name}" for result in results for name in result.ids),
        **{field: together(field) for field in ("seconds", "words", "characters", "ran_away", "speakers")},
        timing=(),
    )


def read_card(path: Path) -> Card:
    """The card in a JSON file. Raises `OptionError` where there is none."""
    try:
        return Card.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(
            f"expected the JSON file of a model card (`whispertide train card`); {path}: {error}"
        ) from error


def paired(before: Result, after: Result, ratio: str) -> Difference | None:
    """What `after` has more than `before` in the ratio of that name (a property of `Result`), on what both have.

    None where they were not measured on the same recordings, or where there is nothing to divide by.
    """
    if before.corpus_hash != after.corpus_hash:
        return None
    sides = []
    known = before if before.speakers else after
    unit = dict(zip(known.ids, known.units, strict=True))
    shared = set(before.ids) & set(after.ids)
    for result in (before, after):
        values = dict(zip(result.ids, getattr(result, ratio), strict=False))
        names = [name for name in before.ids if name in shared and name in values]
        sides.append(by_unit([values[name] for name in names], [unit[name] for name in names]))
    if len(sides[0]) != len(sides[1]) or not all(sum(count for _, count in side) for side in sides):
        return None
    return bootstrap.paired(sides[0], sides[1])
