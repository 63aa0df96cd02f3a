"""A model card by one command: measure a checkpoint on everything there is to measure it on, and write it down.

Figures go to a Markdown page and, all of them, to a JSON file next to it; a previous card or checkpoint stands next to
the new one with paired intervals. `sets` says what is measured, `measure` measures, `results` keeps, `compare`
compares, `page` writes. Does not know how a checkpoint was trained but by what its folder says:
`training.json` (any keys; `page` has names for some) and `training_words.txt` (the words of the training text).
"""

import math
import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whispertide.atomic import CHOOSE_OUTPUT, check_place, write_text, writing
from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.json_file import read_json
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions
from whispertide_lab.evaluation.card.measure import Records, measure, version_of_code
from whispertide_lab.evaluation.card.page import page
from whispertide_lab.evaluation.card.results import Card, Result, read_card, result_of
from whispertide_lab.evaluation.card.sets import (
    Part,
    nonspeech_parts,
    real_parts,
    synthetic_parts,
    total_decodes,
    trained_words,
)

TRAINING = "training.json"
WORDS = "training_words.txt"
Announce = Callable[[str], None]
Advance = Callable[[str, int, int], None]  # what is running, recognitions done, and in all


@dataclass(frozen=True, slots=True)
class CardOptions:
    """What is measured, and how the model runs. `manifest` is one as for training, or a folder of
    recordings with a manifest.jsonl. `output` and `against` are only told by the card, which names the command.
    """

    manifest: Path | None = None
    quick: bool = False
    seed: int = 0
    engine: EngineOptions = field(default_factory=EngineOptions)
    output: Path = Path("FILE.md")
    against: str = ""


def make_card(
    name: str,
    options: CardOptions,
    *,
    words_of: str = "",
    announce: Announce | None = None,
    advance: Advance | None = None,
) -> Card:
    """Measure the model `name` (anything that `load_checkpoint` takes).

    `words_of` names another checkpoint whose list of training words splits the sets, so that two cards can be paired.
    What was measured before with the same weights and code is not measured again. Raises what loading the model, the
    corpora and the recordings raises, and `OutputError` where results cannot be kept.
    """
    checkpoint = load_checkpoint(name, announce=announce)
    splitter = load_checkpoint(words_of, announce=announce) if words_of else checkpoint
    model = load_model(name, options.engine, announce=announce)
    languages = frozenset(model.tokenizer.languages)
    parts = _parts(options, trained_words(splitter.folder / WORDS), languages)
    return Card(
        model=_described(checkpoint, model),
        training=_training(checkpoint),
        about=_about(name, options),
        results=tuple(_results(model, parts, advance)),
    )


def check_asked(output: Path, against: str) -> None:
    """Raise now what writing to `output` or comparing with `against` would raise after everything is measured."""
    for path in (output, output.with_suffix(".json")):
        with writing(path, CHOOSE_OUTPUT):
            check_place(path)
            if path.is_dir():
                raise IsADirectoryError("it is a folder")
    if against.endswith(".json"):
        read_card(Path(os.path.expanduser(against)))
    elif against:
        load_checkpoint(against)


def write_card(card: Card, output: Path, previous: Card | None = None) -> Path:
    """Write the page to `output` and the figures next to it; returns where those are. Raises `OutputError`."""
    figures = output.with_suffix(".json")
    with writing(output, CHOOSE_OUTPUT):
        output.parent.mkdir(parents=True, exist_ok=True)
        write_text(output, page(card, previous))
        write_text(figures, card.to_json())
    return figures


def previous_card(
    against: str, name: str, options: CardOptions, *, announce: Announce | None = None, advance: Advance | None = None
) -> Card:
    """The card to compare with: read from a card's JSON file, or measured on the sets of the model `name`."""
    if against.endswith(".json"):
        return read_card(Path(os.path.expanduser(against)))
    return make_card(against, options, words_of=name, announce=announce, advance=advance)


def _parts(options: CardOptions, known: Collection[str] | None, languages: Collection[str]) -> list[Part]:
    parts = synthetic_parts(known, quick=options.quick, seed=options.seed)
    if options.manifest is not None:
        parts += real_parts(options.manifest, languages, quick=options.quick, seed=options.seed)
    return parts + nonspeech_parts(quick=options.quick, seed=options.seed)


def _results(model: WhisperModel, parts: list[Part], advance: Advance | None) -> list[Result]:
    records = Records(model)
    total, done = total_decodes(parts), 0
    results = []
    for part in parts:

        def progress(count: int, name: str = part.name) -> None:
            nonlocal done
            done += count
            if advance is not None:
                advance(f"{model.name}: {name}", done, total)

        found = measure(model, part, records, progress)
        results += [result_of(part, mode, some) for mode, some in found.items()]
    return results


def _described(checkpoint: Checkpoint, model: WhisperModel) -> Mapping[str, Any]:
    tensors = checkpoint.tensors
    return {
        "name": checkpoint.name,
        "hash": checkpoint.content_hash,
        "dims": asdict(checkpoint.dims),
        "parameters": sum(math.prod(tensors.shape(name)) for name in tensors.names()),
        "bytes": sum(file.stat().st_size for file in tensors.files),
        "alignment_heads": [list(pair) for pair in model.alignment_heads],
    }


def _training(checkpoint: Checkpoint) -> Mapping[str, Any]:
    path = checkpoint.folder / TRAINING
    return read_json(path) if path.is_file() else {}


def _about(name: str, options: CardOptions) -> Mapping[str, Any]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seed": options.seed,
        "quick": options.quick,
        "precision": options.engine.precision,
        "code": version_of_code(),
        "command": shlex.join(["whispertide", "train", "card", name, *_flags(options)]),
    }


def _flags(options: CardOptions) -> Iterator[str]:
    """Those that give the same card, as a user types them."""
    plain, engine = CardOptions(), options.engine
    yield from ("--output", str(options.output))
    for flag, value, default in (
        ("--against", options.against, plain.against),
        ("--manifest", options.manifest, plain.manifest),
        ("--seed", options.seed, plain.seed),
        ("--precision", engine.precision, plain.engine.precision),
        ("--provider", engine.provider, plain.engine.provider),
        ("--threads", engine.threads, plain.engine.threads),
    ):
        if value != default:
            yield from (flag, str(value))
    if options.quick:
        yield "--quick"
