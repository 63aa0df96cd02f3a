"""TED-LIUM 3 for long form: one whole talk per utterance, as openai/whisper evaluated it (data/README.md there).

A talk is cut from the beginning of its first labelled segment to the end of its last one; the reference is the text
of all labelled segments. Segments marked `ignore_time_segment_in_scoring` have no label, but those in between are
heard: what is said there counts as inserted. Read from the release's own files: `stm` (file, channel, speaker, start,
end, labels, text) and `sph`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from whispertide.errors import CorpusError
from whispertide.lab.evaluation.corpora.listed import (
    ListedCorpus,
    Recording,
    audio_beside,
    existing_folder,
    listed_corpus,
    plain_words,
    read_lines,
)

_IGNORED = "ignore_time_segment_in_scoring"
_NOT_WORDS = re.compile(r"<[^>]*>|\{[^}]*\}|\[[^\]]*\]|\(\d+\)")


def open_tedlium(path: str | Path, *, quick: bool = False, seed: int = 0) -> ListedCorpus:
    """The talks in `path`, which holds `stm` and `sph`; of a whole release its test part. Raises `CorpusError`."""
    folder = existing_folder(path, "TED-LIUM: folders stm and sph")
    part = _part(folder)
    talks = [talk for file in sorted((part / "stm").glob("*.stm")) for talk in _talks(part, file)]
    if not talks:
        raise CorpusError(f"expected talks in {part / 'stm'}: files *.stm with labelled segments; found none")
    return listed_corpus(f"tedlium-{part.name}", talks, quick=quick, seed=seed)


def _part(folder: Path) -> Path:
    for candidate in (folder, folder / "legacy" / "test", folder / "test"):
        if (candidate / "stm").is_dir():
            return candidate
    raise CorpusError(f"expected TED-LIUM in {folder}: a folder stm in it, in legacy/test or in test; found none")


def _talks(part: Path, stm: Path) -> Iterator[Recording]:
    """One talk per file and speaker's recording in an stm file."""
    segments: dict[str, list[tuple[float, float, str]]] = {}
    for line in read_lines(stm):
        if line.startswith(";;"):
            continue
        name, start, end, text = _segment(stm, line)
        if text != _IGNORED:
            segments.setdefault(name, []).append((start, end, text))
    for name, labelled in segments.items():
        audio = audio_beside(part / "sph" / name)
        if audio is None:
            raise CorpusError(f"{stm} names {name}, but there is no audio of it in {part / 'sph'}; unpack it again")
        labelled.sort(key=lambda segment: segment[:2])
        cut = (labelled[0][0], max(end for _, end, _ in labelled))
        text = " ".join(text for _, _, text in labelled)
        yield Recording(name, (audio,), plain_words(_spoken(text)), group=name, cut=cut)


def _segment(stm: Path, line: str) -> tuple[str, float, float, str]:
    fields = line.split(maxsplit=5)
    try:
        name, _, _, start, end, rest = fields
        # <labels> may be missing; the text may not
        text = rest.split(">", 1)[1] if rest.startswith("<") and "," in rest.split(">", 1)[0] else rest
        return name, float(start), float(end), text.strip()
    except (ValueError, IndexError) as error:
        raise CorpusError(
            f"{stm}: expected 'file channel speaker start end <labels> text'; got {line[:80]!r}"
        ) from error


def _spoken(text: str) -> str:
    """Without marks for noises and unknown words; "it 's" is one word again."""
    return " ".join(_NOT_WORDS.sub(" ", text).replace(" '", "'").split())
