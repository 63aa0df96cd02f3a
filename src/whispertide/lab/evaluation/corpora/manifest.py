"""Any folder of recordings with a manifest.jsonl: one JSON object per line. (A manifest by itself, as for training, is
`own`'s.)

Fields: `file` (below the folder), `seconds`, `transcript`, `ref_quality`, and where known `language`, `speaker`,
`tags`, `words` (objects with word, start, end in seconds) and `words_source`. What is scored:

- `ref_quality` "human" or "prompt": the transcript is the reference;
- the tag "nonspeech", or a language "none": nothing is said, every word is invented;
- anything else ("asr", "none") is left out, because nobody checked what is said.

Word times count as exact only where `words_source` says that they were made by hand or by a synthesizer and the words
are those of the transcript; times by an aligner or a recogniser are dropped. `longform_groups.jsonl` next to it
(`group`, `files`) names files that follow each other in their source; each group is one long recording, and its files
are not used alone.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from whispertide.audio.file import load_audio
from whispertide.errors import CorpusError
from whispertide.lab.evaluation.corpora.listed import (
    ListedCorpus,
    Recording,
    existing_folder,
    listed_corpus,
    plain_words,
    read_lines,
)
from whispertide.lab.evaluation.corpora.own import open_own
from whispertide.lab.speech.manifest import bare_word
from whispertide.lab.speech.utterance import RefWord
from whispertide.types import to_samples

MANIFEST = "manifest.jsonl"
GROUPS = "longform_groups.jsonl"

_SCORED = frozenset({"human", "prompt"})
_EXACT = re.compile(r"(by )?(hand|manual|synth)", re.IGNORECASE)  # at the beginning of words_source

Entry = Mapping[str, Any]


def open_manifest(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """What can be scored of the folder `path`, or of the manifest `path` if it is a file (`own`).

    Raises `CorpusError` if it has no manifest or nothing to score.
    """
    if (file := Path(path).expanduser()).is_file():
        return open_own(file, quick=quick, seed=seed)
    folder = existing_folder(path, f"{MANIFEST}, or a manifest")
    if not (folder / MANIFEST).is_file():
        raise CorpusError(f"expected {MANIFEST} in {folder}; it is not there: name the folder that holds it")
    entries = {entry["file"]: entry for entry in _objects(folder / MANIFEST, {"file"}) if _is_scored(entry)}
    groups = _objects(folder / GROUPS, {"group", "files"}) if (folder / GROUPS).is_file() else []
    recordings: list[Recording] = []
    used: set[str] = set()
    for group in groups:
        if all(file in entries for file in group["files"]):
            recordings.append(_joined(folder, group["group"], [entries[file] for file in group["files"]]))
            used.update(group["files"])
    recordings += [_single(folder, entry) for file, entry in entries.items() if file not in used]
    if not recordings:
        raise CorpusError(f"nothing in {folder / MANIFEST} can be scored: no entry has ref_quality human or prompt")
    return listed_corpus(f"manifest-{folder.name}", recordings, quick=quick, seed=seed)


def _objects(file: Path, needed: set[str]) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(read_lines(file), 1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise CorpusError(f"{file}, line {number}: expected a JSON object; {error}") from error
        if not isinstance(entry, dict) or not needed <= set(entry):
            hint = f": a manifest as for `train prepare` is named itself, {file}" if "audio" in entry else ""
            raise CorpusError(
                f"{file}, line {number}: expected an object with {', '.join(sorted(needed))}; got {line[:80]}{hint}"
            )
        found.append(entry)
    return found


def _is_scored(entry: Entry) -> bool:
    return _is_nonspeech(entry) or entry.get("ref_quality") in _SCORED


def _is_nonspeech(entry: Entry) -> bool:
    return "nonspeech" in (entry.get("tags") or ()) or entry.get("language") == "none"


def _single(folder: Path, entry: Entry) -> Recording:
    name = str(entry["file"])
    if _is_nonspeech(entry):
        return Recording(name, (folder / name,), (), group="nonspeech", seconds=entry.get("seconds"))
    return _joined(folder, name, [entry])


def _joined(folder: Path, name: str, entries: Sequence[Entry]) -> Recording:
    """Files of a group, or one alone, as one recording; exact only if every part is."""
    files = tuple(folder / str(entry["file"]) for entry in entries)
    words = tuple(word for entry in entries for word in plain_words(str(entry.get("transcript", ""))))
    exact = all(_timed(entry, 0) is not None for entry in entries)
    if exact:
        words = tuple(_shifted(files, entries))
    lengths = [entry.get("seconds") for entry in entries]
    return Recording(
        id=name,
        files=files,
        words=words,
        exact_times=exact,
        group=str(entries[0].get("speaker") or ""),
        language=str(entries[0].get("language") or "en"),
        seconds=None if None in lengths else sum(float(length or 0) for length in lengths),
    )


def _shifted(files: Sequence[Path], entries: Sequence[Entry]) -> Iterator[RefWord]:
    offset = 0
    for at, entry in enumerate(entries):
        if at:
            offset += len(load_audio(files[at - 1]))  # a header's length may be off by some milliseconds
        yield from _timed(entry, offset) or ()


def _timed(entry: Entry, offset: int) -> tuple[RefWord, ...] | None:
    """The words with their exact times, `offset` samples later; None where nobody knows them."""
    listed = entry.get("words")
    if not listed or not _EXACT.match(str(entry.get("words_source") or "")):
        return None
    try:
        spans = [(str(one["word"]), float(one["start"]), float(one["end"])) for one in listed]
    except (KeyError, TypeError, ValueError) as error:
        raise CorpusError(
            f"{entry['file']}: expected words with word, start and end in seconds; got {listed!r:.80}"
        ) from error
    transcript = str(entry.get("transcript", "")).split()
    if [bare_word(text) for text, _, _ in spans] != [bare_word(word) for word in transcript]:
        return None
    return tuple(
        RefWord(word, offset + to_samples(start), offset + to_samples(end))
        for word, (_, start, end) in zip(transcript, spans, strict=True)
    )
