"""What a model card measures: named sets of utterances, and the modes in which each is recognised.

Sentences in trained and in held-out voices, of our grammar and of WordNet; the recordings of a manifest by folder; an
hour without speech, as whole windows and as short excerpts. All text and all held-out voices are reserved for
evaluation (`corpora.text`, `corpora.voices`). Knows nothing of models but the words that one
was trained on, if that is known.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from whispertide.errors import CorpusError
from whispertide.types import CHUNK_SECONDS, FloatArray, to_samples
from whispertide_lab.evaluation.corpora.listed import ListedCorpus, Recording, plain_words, read_lines
from whispertide_lab.evaluation.corpora.manifest import MANIFEST, open_manifest
from whispertide_lab.evaluation.corpora.nonspeech import open_nonspeech
from whispertide_lab.evaluation.wer import normalise_word
from whispertide_lab.speech.sentences import Source, open_sentences
from whispertide_lab.speech.utterance import Corpus, Utterance
from whispertide_lab.speech.voices import HELD_OUT, TRAINED, Voice
from whispertide_lab.speech.wordnet import has_wordnet

Kind = Literal["synthetic", "real", "nonspeech"]

EXCERPT_S = 5
_TRAINED_COUNT, _HELD_OUT_COUNT, _QUICK_COUNT = 24, 12, 2  # sentences per voice and source
_EXCERPTS, _QUICK_EXCERPTS = 4, 1  # of each recording without speech


@dataclass(frozen=True, slots=True)
class Mode:
    """How an utterance is recognised: its framing (`streaming.framing`), and whether timestamps are asked for."""

    name: str
    framing: str
    timestamps: bool


PADDED = Mode("padded", "pad30", False)
PADDED_TIMES = Mode("padded, timestamps", "pad30", True)
UNPADDED = Mode("unpadded", "bare", False)
UNPADDED_TIMES = Mode("unpadded, timestamps", "bare", True)
MODES = (PADDED, PADDED_TIMES, UNPADDED, UNPADDED_TIMES)


@dataclass(frozen=True, slots=True)
class Part:
    """A set of utterances that gets figures of its own. `corpus` and `corpus_hash` say where they come from."""

    name: str
    kind: Kind
    corpus: str
    corpus_hash: str
    utterances: tuple[Utterance, ...]
    modes: tuple[Mode, ...] = MODES


def synthetic_parts(known: Collection[str] | None, *, quick: bool, seed: int) -> list[Part]:
    """Trained and held-out voices on reserved sentences; apart by whether all words are `known`, if anybody says which.

    Without WordNet on this machine its parts are missing. Raises `CorpusError` where a synthesizer is.
    """
    sources: list[tuple[Source, str]] = [("grammar", "grammar")]
    if has_wordnet():
        sources.append(("wordnet", "WordNet"))
    voices: tuple[tuple[str, tuple[Voice, ...], int], ...] = (
        ("trained voices", TRAINED, _TRAINED_COUNT),
        ("held-out voices", HELD_OUT, _HELD_OUT_COUNT),
    )
    parts: list[Part] = []
    for source, source_name in sources:
        for title, some, count in voices:
            corpus = open_sentences(source, some, _QUICK_COUNT if quick else count, seed=seed)
            parts += _by_words(f"{title}, {source_name}", corpus, known)
    return parts


def _by_words(name: str, corpus: Corpus, known: Collection[str] | None) -> Iterator[Part]:
    utterances = tuple(corpus.utterances())
    if known is None:
        yield Part(name, "synthetic", corpus.name, corpus.hash, utterances)
        return
    for title, wanted in (("known words", True), ("with unknown words", False)):
        some = tuple(utterance for utterance in utterances if _is_known(utterance, known) is wanted)
        if some:
            yield Part(f"{name}, {title}", "synthetic", corpus.name, corpus.hash, some)


def _is_known(utterance: Utterance, known: Collection[str]) -> bool:
    return all(part in known for word in utterance.words for part in normalise_word(word.text).split())


def trained_words(file: Path) -> frozenset[str] | None:
    """The words in a list, one per line, as the normaliser leaves them; None where there is no such file."""
    if not file.is_file():
        return None
    return frozenset(part for line in read_lines(file) for part in normalise_word(line.strip()).split())


# --- real recordings --------------------------------------------------------------------------------------------------


def real_parts(manifest: Path, languages: Collection[str], *, quick: bool, seed: int) -> list[Part]:
    """The recordings of a manifest folder by the folder they are in, or those of a manifest file as one set; those not
    in `languages` are left out.

    Files that follow each other in their source are scored one by one all the same: an interval needs many utterances.
    Raises `CorpusError` where the manifest cannot be read or nothing of it is left.
    """
    whole = open_manifest(manifest, quick=quick, seed=seed)
    singles = _by_folder(manifest, whole) if manifest.is_dir() else ((manifest.stem, one) for one in whole.recordings)
    groups: dict[tuple[str, bool], list[Recording]] = {}
    for folder, one in singles:
        if not one.words or one.language in languages:
            groups.setdefault((folder, bool(one.words)), []).append(one)
    if not groups:
        raise CorpusError(f"nothing in {manifest} is in a language that this model can write")
    parts = []
    for (folder, speech), recordings in groups.items():
        corpus = ListedCorpus(f"{whole.name}/{folder}", tuple(recordings))
        utterances = tuple(corpus.utterances())
        short = tuple(utterance for utterance in utterances if utterance.seconds <= CHUNK_SECONDS)
        long = tuple(utterance for utterance in utterances if utterance.seconds > CHUNK_SECONDS)
        kind: Kind = "real" if speech else "nonspeech"
        if short:
            parts.append(Part(f"real, {folder}", kind, corpus.name, corpus.hash, short))
        if long:
            parts.append(Part(f"real, {folder}, over 30 s", kind, corpus.name, corpus.hash, long, (PADDED_TIMES,)))
    return parts


def _by_folder(manifest: Path, whole: ListedCorpus) -> Iterator[tuple[str, Recording]]:
    transcripts = {
        entry["file"]: str(entry.get("transcript", "")) for entry in map(json.loads, read_lines(manifest / MANIFEST))
    }
    for recording in whole.recordings:
        for single in _apart(manifest, recording, transcripts):
            yield single.files[0].relative_to(manifest).parts[0], single


def _apart(folder: Path, recording: Recording, transcripts: dict[str, str]) -> Iterator[Recording]:
    if len(recording.files) == 1:
        yield recording
        return
    for file in recording.files:
        name = file.relative_to(folder).as_posix()
        words = plain_words(transcripts[name], recording.language)
        yield Recording(name, (file,), words, group=recording.group, language=recording.language)


# --- no speech --------------------------------------------------------------------------------------------------------


def nonspeech_parts(*, quick: bool, seed: int) -> list[Part]:
    """The corpus without speech: all of it in windows of up to 30 s, and short excerpts, which padding changes."""
    corpus = open_nonspeech(quick=quick, seed=seed)
    recordings = tuple(corpus.utterances())
    windows = tuple(_cut(one, at, CHUNK_SECONDS) for one in recordings for at in range(0, int(one.seconds), 30))
    count = _QUICK_EXCERPTS if quick else _EXCERPTS
    excerpts = tuple(
        _cut(one, at * (int(one.seconds) // count), EXCERPT_S) for one in recordings for at in range(count)
    )
    whole, short = (PADDED, PADDED_TIMES), MODES
    return [
        Part("no speech, windows of 30 s", "nonspeech", corpus.name, corpus.hash, windows, whole),
        Part(f"no speech, excerpts of {EXCERPT_S} s", "nonspeech", corpus.name, corpus.hash, excerpts, short),
    ]


def _cut(utterance: Utterance, at: int, length: int) -> Utterance:
    seconds = min(float(length), utterance.seconds - at)
    audio = partial(_stretch, utterance.audio, at, seconds)
    return Utterance(f"{utterance.id}@{at}+{seconds:g}", (), seconds, audio, group=utterance.id)


def _stretch(audio: Callable[[], FloatArray], at: int, seconds: float) -> FloatArray:
    return audio()[to_samples(at) : to_samples(at + seconds)]


def total_decodes(parts: Sequence[Part]) -> int:
    """How many recognitions all parts take: what a progress bar counts."""
    return sum(len(part.utterances) * len(part.modes) for part in parts)
