"""People's own voices: a folder of recordings with a manifest (`manifest`), in parts by how the people speak.

    people-utterances                     one part; `people` is all of them
    people-accents/report                 of half of the speakers
    people-accents+dictation              several parts
    people-readings/choose:~/recordings   of a folder

Each recording is in one part:

    nonspeech   nothing is said
    languages   anything but English
    readings    groups of utterances that follow each other, joined (`longform_groups.jsonl`)
    digits      digits and short commands (tags "isolated digit", "short command"), and whatever is a single word
    dictation   the tag "voice note"
    accents     the tag "non-native"
    utterances  the rest: single sentences and short speeches

`choose` and `report` are two halves without a speaker in common, so that a threshold is not chosen on the voices that
are reported. A hash of the speaker's name decides, so a speaker stays where they are whatever comes to the folder; a
group goes by its first speaker. Where the manifest does not know the speaker it is the folder of the file; where nobody
speaks, the file.
"""

import hashlib
import os
from pathlib import Path

import whispertide
from whispertide.errors import CorpusError, OptionError
from whispertide_lab.evaluation.corpora.listed import ListedCorpus, existing_folder, listed_corpus
from whispertide_lab.evaluation.corpora.manifest import MANIFEST, Scored, hand_labelled, is_nonspeech, scored_in
from whispertide_lab.speech.utterance import NOBODY

PEOPLE = "people"
PARTS = ("readings", "utterances", "accents", "dictation", "digits", "languages", "nonspeech")
HALVES = ("choose", "report")
NAMES = (PEOPLE, *(f"{PEOPLE}-{part}" for part in PARTS))

_SHORT = frozenset({"isolated digit", "short command"})


def is_people(kind: str) -> bool:
    """Whether what stands before the colon of a corpus is meant to be one of these."""
    name = kind.partition("/")[0]
    return name.startswith(PEOPLE) and set(_parts(name)) <= set(PARTS)


def _parts(name: str) -> tuple[str, ...]:
    """The parts that a name without its half stands for."""
    return PARTS if name == PEOPLE else tuple(name.removeprefix(f"{PEOPLE}-").split("+"))


def check_people(kind: str) -> None:
    """Raise `OptionError` unless `kind`, which is one of these, names a half that there is, or none."""
    _, slash, half = kind.partition("/")
    if slash and half not in HALVES:
        raise OptionError(f"expected a half of the speakers, one of {', '.join(HALVES)}, after the '/'; got {kind!r}")


def place_of_people(path: str) -> Path:
    """The folder that was named; else `shared/speech` next to the checkout that this program runs from.

    Raises `CorpusError` where nobody named a folder and there is none.
    """
    if path:
        return Path(os.path.expanduser(path))
    checkout = Path(whispertide.__file__).parents[2]
    usual = checkout.parent / "shared" / "speech"
    if (checkout / "pyproject.toml").is_file() and (usual / MANIFEST).is_file():
        return usual
    raise CorpusError(
        f"expected the folder of people's recordings, because there is no shared/speech next to a checkout: "
        f"'{PEOPLE}:FOLDER', with {MANIFEST} in it"
    )


def open_people(kind: str, path: str, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """What `kind` names ("people-accents/report") of the folder `path`, or of the usual one if that is empty.

    Raises `CorpusError` where there is no such folder, its manifest is not as expected, or nothing is in that part or
    half; `OptionError` for a half that does not exist.
    """
    check_people(kind)
    folder = existing_folder(place_of_people(path), f"{MANIFEST} and the recordings that it lists")
    name, _, half = kind.partition("/")
    parts = _parts(name)
    every = scored_in(folder)
    of_part = [one for one in every if part_of_people(one) in parts]
    chosen = [one for one in of_part if half in ("", half_of(speaker_of(one)))]
    if not of_part:
        has = ", ".join(dict.fromkeys(map(part_of_people, every)))
        raise CorpusError(f"expected recordings of the part {'+'.join(parts)} in {folder}; it has none, but {has}")
    if not chosen:
        raise CorpusError(
            f"expected speakers of {name} in the half {half!r}; all {len({speaker_of(one) for one in of_part})} are in "
            "the other: measure the other half, or another part"
        )
    return listed_corpus(
        "-".join(filter(None, (name, half))),
        (one.recording for one in chosen),
        quick=quick,
        seed=seed,
        hand_labelled=hand_labelled([one.recording for one in every]),
    )


def part_of_people(one: Scored) -> str:
    """The part that a recording is in; see above."""
    first = one.entries[0]
    tags = frozenset(map(str, first.get("tags") or ()))
    if is_nonspeech(first):
        return "nonspeech"
    if one.recording.language != "en":
        return "languages"
    if one.grouped:
        return "readings"
    if tags & _SHORT or len(one.recording.words) == 1:
        return "digits"
    if "voice note" in tags:
        return "dictation"
    return "accents" if "non-native" in tags else "utterances"


def speaker_of(one: Scored) -> str:
    """Whoever speaks in a recording, or what stands for them; see above."""
    first = one.entries[0]
    if is_nonspeech(first):
        return str(first["file"])
    speaker = str(first.get("speaker") or "")
    return speaker if speaker not in NOBODY else str(Path(str(first["file"])).parent)


def half_of(speaker: str) -> str:
    """The half that a speaker is in, by the first bit of a hash of the name."""
    return HALVES[hashlib.sha256(speaker.encode()).digest()[0] % 2]
