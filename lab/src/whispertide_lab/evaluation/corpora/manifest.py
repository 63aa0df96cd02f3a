"""Any folder of recordings with a manifest.jsonl: one JSON object per line. (A manifest by itself, as for training, is
`own`'s.)

Fields: `file` (below the folder), `seconds`, `transcript`, `ref_quality`, and where known `language`, `speaker`,
`tags`, `words` (objects with word, start, end in seconds) and `words_source`. What is scored:

- `ref_quality` "human": the transcript is the reference; "prompt": it is what the speaker was asked to read, and what
  was said otherwise counts as an error, which is told below every table;
- the tag "nonspeech", or a language "none": nothing is said, every word is invented;
- anything else ("asr", "none") is left out, because nobody checked what is said.

Word times count as exact only where `words_source` says that they were made by hand or by a synthesizer and the words
are those of the transcript; times by an aligner or a recogniser are dropped. `longform_groups.jsonl` next to it
(`group`, `files`) names files that follow each other in their source; each group is one long recording, and its files
are not used alone. Recordings whose words have exact times also tell how well a model places words (`aligned`).
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whispertide.audio.file import load_audio
from whispertide.checkpoint.languages import language_code
from whispertide.errors import CorpusError, UnknownLanguageError
from whispertide.types import to_samples
from whispertide_lab.evaluation.corpora.listed import (
    ListedCorpus,
    Recording,
    existing_folder,
    length_of,
    listed_corpus,
    plain_words,
    read_lines,
)
from whispertide_lab.evaluation.corpora.own import open_own
from whispertide_lab.speech.manifest import SLACK_S, bare_word
from whispertide_lab.speech.utterance import RefWord

MANIFEST = "manifest.jsonl"
GROUPS = "longform_groups.jsonl"

PROMPT = "prompt"  # the reference is what a speaker was asked to read

_SCORED = frozenset({"human", PROMPT})
_EXACT = re.compile(r"(by )?(hand|manual|synth)", re.IGNORECASE)  # at the beginning of words_source

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scored:
    """A recording that can be scored, and the entries of the manifest that it is made of."""

    recording: Recording
    entries: tuple[Entry, ...]
    grouped: bool = False  # several utterances that follow each other, by `longform_groups.jsonl`


def open_manifest(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """What can be scored of the folder `path`, or of the manifest `path` if it is a file (`own`).

    Raises `CorpusError` if it has no manifest, one that is not as expected, or nothing to score.
    """
    if (file := Path(os.path.expanduser(path))).is_file():
        return open_own(file, quick=quick, seed=seed)
    folder = existing_folder(path, f"{MANIFEST}, or a manifest")
    recordings = [one.recording for one in scored_in(folder)]
    return listed_corpus(
        f"manifest-{folder.name}", recordings, quick=quick, seed=seed, hand_labelled=hand_labelled(recordings)
    )


def scored_in(folder: Path) -> list[Scored]:
    """The groups of a folder and then its other recordings, as far as they can be scored; at least one.

    Raises `CorpusError` where there is no manifest, one that is not as expected, or nothing to score.
    """
    if not (folder / MANIFEST).is_file():
        raise CorpusError(f"expected {MANIFEST} in {folder}; it is not there: name the folder that holds it")
    listed = _by_file(folder)
    _check_files(folder, listed)
    groups = _objects(folder / GROUPS, {"group", "files"}) if (folder / GROUPS).is_file() else []
    found: list[Scored] = []
    used: set[str] = set()
    for group in groups:
        entries = tuple(_member(folder, group, file, listed) for file in group["files"])
        if entries and all(map(_is_scored, entries)):
            found.append(Scored(_joined(folder, str(group["group"]), entries), entries, grouped=True))
            used.update(group["files"])
    found += [
        Scored(_single(folder, entry), (entry,))
        for file, entry in listed.items()
        if file not in used and _is_scored(entry)
    ]
    if not found:
        raise CorpusError(f"nothing in {folder / MANIFEST} can be scored: no entry has ref_quality human or prompt")
    return found


def hand_labelled(recordings: Sequence[Recording]) -> tuple[Recording, ...]:
    """Those of which somebody knows exactly when each word was said."""
    return tuple(one for one in recordings if one.exact_times)


def is_nonspeech(entry: Entry) -> bool:
    """Whether nothing is said in it."""
    return "nonspeech" in (entry.get("tags") or ()) or entry.get("language") == "none"


def _by_file(folder: Path) -> dict[str, Entry]:
    """Every entry of the manifest by its file. Raises `CorpusError` for one that cannot be used as it stands."""
    found: dict[str, Entry] = {}
    for entry in _objects(folder / MANIFEST, {"file"}):
        file, seconds = str(entry["file"]), entry.get("seconds")
        if file in found:
            raise CorpusError(f"{folder / MANIFEST}: expected each file once; {file} is there twice")
        if isinstance(seconds, bool) or not (seconds is None or (isinstance(seconds, int | float) and seconds > 0)):
            raise CorpusError(f"{folder / MANIFEST}: expected seconds of {file} as a number above 0; got {seconds!r}")
        said = entry.get("transcript")
        if _is_scored(entry) and not is_nonspeech(entry) and not (isinstance(said, str) and said.strip()):
            raise CorpusError(
                f"{folder / MANIFEST}: expected the transcript of {file}, whose ref_quality is "
                f"{entry['ref_quality']}; got {said!r}: write what is said, or ref_quality none to leave it out"
            )
        found[file] = entry
    return found


def _check_files(folder: Path, listed: Mapping[str, Entry]) -> None:
    missing = [file for file, entry in listed.items() if _is_scored(entry) and not (folder / file).is_file()]
    if missing:
        raise CorpusError(
            f"expected every file that {folder / MANIFEST} lists; {len(missing)} of {len(listed)} are missing, the "
            f"first is {missing[0]}: copy them there, or take their lines out"
        )


def _member(folder: Path, group: Entry, file: object, listed: Mapping[str, Entry]) -> Entry:
    """The entry of a file of a group. Raises `CorpusError`."""
    if (entry := listed.get(str(file))) is None:
        raise CorpusError(
            f"{folder / GROUPS}: expected files that {MANIFEST} lists; {group['group']!r} names {file!r}, which it "
            "does not"
        )
    return entry


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
    return is_nonspeech(entry) or entry.get("ref_quality") in _SCORED


def _single(folder: Path, entry: Entry) -> Recording:
    name = str(entry["file"])
    if is_nonspeech(entry):
        return Recording(name, (folder / name,), (), group="nonspeech", seconds=entry.get("seconds"))
    return _joined(folder, name, [entry])


def _joined(folder: Path, name: str, entries: Sequence[Entry]) -> Recording:
    """Files of a group, or one alone, as one recording; exact only if every part is."""
    files = tuple(folder / str(entry["file"]) for entry in entries)
    language = _language(str(entries[0].get("language") or "en"))
    words = tuple(word for entry in entries for word in plain_words(str(entry.get("transcript", "")), language))
    exact = all(_timed(file, entry, 0) is not None for file, entry in zip(files, entries, strict=True))
    if exact:
        words = tuple(_shifted(files, entries))
    lengths = [entry.get("seconds") for entry in entries]
    return Recording(
        id=name,
        files=files,
        words=words,
        exact_times=exact,
        group=str(entries[0].get("speaker") or ""),
        language=language,
        seconds=None if None in lengths else sum(float(length or 0) for length in lengths),
        prompted=any(entry.get("ref_quality") == PROMPT for entry in entries),
    )


def _language(named: str) -> str:
    """Its code, which says how texts are normalised; as it stands where Whisper does not know it."""
    try:
        return language_code(named)
    except UnknownLanguageError:
        return named


def _shifted(files: Sequence[Path], entries: Sequence[Entry]) -> Iterator[RefWord]:
    offset = 0
    for at, (file, entry) in enumerate(zip(files, entries, strict=True)):
        if at:
            offset += len(load_audio(files[at - 1]))  # a header's length may be off by some milliseconds
        yield from _timed(file, entry, offset) or ()


def _timed(file: Path, entry: Entry, offset: int) -> tuple[RefWord, ...] | None:
    """The words with their exact times, `offset` samples later; None where nobody knows them.

    Raises `CorpusError` for times that cannot be: latencies would be wrong by as much.
    """
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
    length_s, before = float(entry.get("seconds") or length_of(file)), 0.0
    for word, (_, start, end) in zip(transcript, spans, strict=True):
        # What is no number is in no order.
        if not (max(0.0, before - SLACK_S) <= start < end <= length_s + SLACK_S):
            raise CorpusError(
                f"{entry['file']}: expected words in order, within its {length_s:g} s; {word!r} is at {start:g} to "
                f"{end:g} s"
            )
        before = start
    return tuple(
        RefWord(word, offset + to_samples(start), offset + to_samples(end))
        for word, (_, start, end) in zip(transcript, spans, strict=True)
    )
