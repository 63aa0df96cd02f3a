"""Speech divided for a run of epochs: what is trained on, and what is held back to choose the best epochs by.

Needs torch. Knows nothing of what is trained.
"""

from collections import Counter
from dataclasses import replace
from typing import Any, TypeVar

from whispertide.checkpoint import Tokenizer
from whispertide.errors import CorpusError
from whispertide_lab.speech.text import is_reserved
from whispertide_lab.training.augment import Augmentation
from whispertide_lab.training.batches import Numbered, SpeechBatches
from whispertide_lab.training.epochs import B, EpochOptions, Lessons
from whispertide_lab.training.shards import Shards, read_licences

HELD_BACK = 20  # one speaker in so many is for validation
SMALLEST = 40  # utterances to train on

Options = TypeVar("Options")


def clean() -> Augmentation:
    """For validation: nothing is changed but the level."""
    return replace(Augmentation.none(), level_db=Augmentation().level_db)


def unreserved(speech: Shards, least: int = SMALLEST) -> Shards:
    """Without the sentences that are reserved for evaluation. Raises `CorpusError` where too few are left."""
    usable = speech.having(lambda place: not is_reserved(place.entry["text"]))
    if len(usable) < least:
        raise CorpusError(
            f"expected at least {least} utterances that are not reserved for tests; got {len(usable)} of "
            f"{len(speech)}: give more with --data"
        )
    return usable


def divided(usable: Shards) -> tuple[Shards, Shards]:
    """What is trained on, and what is held back for validation: other speakers, or where there are too few for that one
    utterance in so many. Short windows have a rule of their own (`short_speech.apart`).
    """
    speakers = sorted(usable.by_speaker())
    if len(speakers) < HELD_BACK:
        return usable.one_in(HELD_BACK)
    held_back = set(speakers[::HELD_BACK])
    trained = usable.having(lambda place: place.entry["source"] not in held_back)
    return trained, usable.having(lambda place: place.entry["source"] in held_back)


def speech_lessons(
    kind: type[SpeechBatches[B, Options]],
    usable: Shards,
    tokenizer: Tokenizer,
    n_mels: int,
    batch: Options,
    options: EpochOptions,
) -> Lessons[B]:
    """Batches of a kind by `batch`, whose `windows` are clean where they are held out."""
    trained, held_back = divided(usable)
    quiet = replace(batch, windows=replace(batch.windows, augmentation=clean()))  # type: ignore[attr-defined, type-var]
    kept = kind(held_back, tokenizer, quiet, n_mels, options.seed + 1)
    return lessons(trained, kind(trained, tokenizer, batch, n_mels, options.seed), kept, options)


def lessons(trained: Shards, batches: Numbered[B], kept: Numbered[B], options: EpochOptions) -> Lessons[B]:
    """Batches of what is trained on, and the first ones of what is kept back."""
    return Lessons(batches, [kept[number] for number in range(options.held_out)], described(trained))


def described(speech: Shards) -> dict[str, Any]:
    """How much speech this is, and under which licences its folders are."""
    licences = Counter[str]()
    for folder in dict.fromkeys(place.file.parent for place in speech.places):
        licences.update(dict(read_licences(folder)))
    return {"utterances": len(speech), "hours": round(speech.seconds / 3600, 2), "licences": dict(licences)}
