"""Recordings listed as for training: the manifest that `whispertide train prepare` takes, each line an utterance.

Every line's text counts as what is said, word for word; nobody's word times count as exact, because most come from an
aligner. Nothing is left out: what `prepare` reserves for evaluation is scored here.
"""

from functools import cache
from pathlib import Path

from whispertide.checkpoint.languages import language_code
from whispertide.errors import CorpusError, UnknownLanguageError
from whispertide.plural import counted
from whispertide.types import seconds
from whispertide_lab.evaluation.corpora.listed import ListedCorpus, Recording, length_of, listed_corpus, plain_words
from whispertide_lab.speech.manifest import SLACK_S, Line, Problem, read_manifest

_FEW = 20  # problems that are told


def open_own(path: Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """The recordings that the manifest `path` lists.

    Raises `CorpusError`, which names the lines, where some cannot be used or there are none; `AudioFileError` for a
    file that is no audio.
    """
    lines, problems = read_manifest(path)
    length = cache(length_of)  # many lines may be stretches of one file
    recordings = []
    for line in lines:
        try:
            recordings.append(_recording(line, length(line.audio)))
        except ValueError as error:
            problems.append(Problem(line.number, str(error)))
    if problems:
        told = "\n".join(f"  {problem}" for problem in sorted(problems, key=lambda one: one.number)[:_FEW])
        raise CorpusError(f"{counted(len(problems), 'line')} of {path} cannot be scored. Correct or remove:\n{told}")
    if not recordings:
        raise CorpusError(f"expected recordings in {path}; it lists none")
    return listed_corpus(f"manifest-{path.stem}", recordings, quick=quick, seed=seed)


def _recording(line: Line, length_s: float) -> Recording:
    """Raises ValueError for a stretch outside the audio, or a language that Whisper does not know.

    Where no speaker is named, stretches of one file are by whoever speaks in it.
    """
    start, end = seconds(line.start), length_s if line.end is None else seconds(line.end)
    if not start < end <= length_s + SLACK_S:
        raise ValueError(
            f"expected a stretch within {line.audio.name}, {length_s:.2f} s; got {start:.2f} to {end:.2f} s"
        )
    try:
        language = language_code(line.language)
    except UnknownLanguageError as error:
        raise ValueError(str(error)) from error
    whole = line.start == 0 and line.end is None
    return Recording(
        id=f"{line.number}: {line.audio.name}",
        files=(line.audio,),
        words=plain_words(line.text, language),
        group=line.speaker or ("" if whole else line.audio.name),
        language=language,
        cut=None if whole else (start, end),
        seconds=end - start,
    )
