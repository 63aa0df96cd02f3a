"""Whether one folder gives one text here and in faster-whisper: `python benchmarks/same_text.py FOLDER SPEECH`.

FOLDER is a model of faster-whisper, SPEECH a folder of recordings with a manifest.jsonl. Both programs compute in
float32, greedily, without temperature fallback and voice gate, whatever --every takes of the recordings up to 30 s that
the model knows the language of. Prints where the texts differ, and how many are equal; the exit code says whether all
are. Needs faster-whisper, and the laboratory.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from whispertide import load
from whispertide.audio.file import load_audio
from whispertide.options import DecodeOptions
from whispertide.types import CHUNK_SECONDS

MANIFEST = "manifest.jsonl"


def recordings(speech: Path, languages: tuple[str, ...], every: int) -> Iterator[tuple[Path, str]]:
    """File and language of each recording that both programs are given."""
    entries = map(json.loads, (speech / MANIFEST).read_text(encoding="utf-8").splitlines())
    fitting = [
        (speech / entry["file"], entry["language"])
        for entry in entries
        if entry.get("seconds", CHUNK_SECONDS + 1) <= CHUNK_SECONDS and entry.get("language") in languages
    ]
    yield from fitting[::every]


def difference(ours: str, theirs: str) -> str:
    """Where two texts differ, word by word: "[ours|theirs]"."""
    left, right = ours.split(), theirs.split()
    shown = []
    for kind, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        both = " ".join(left[a:b]), " ".join(right[c:d])
        shown.append(both[0] if kind == "equal" else "[{}|{}]".format(*both))
    return " ".join(filter(None, shown))


def main() -> int:
    """Parse, compare, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with model.bin")
    parser.add_argument("speech", type=Path, help=f"with {MANIFEST}")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    options = parser.parse_args()
    from faster_whisper import WhisperModel

    ours = load(options.folder, precision="fp32", threads=1)
    theirs = WhisperModel(str(options.folder), device="cpu", compute_type="float32", cpu_threads=1)
    equal = total = 0
    for path, language in recordings(options.speech, ours.model.checkpoint.tokenizer.languages, options.every):
        audio = load_audio(path)
        greedy = DecodeOptions(language=language, beam=1, temperatures=(0.0,), word_timestamps=False)
        mine = ours.transcribe(audio, options=greedy).text.strip()
        segments, _ = theirs.transcribe(audio, language=language, beam_size=1, temperature=0.0)
        other = "".join(segment.text for segment in segments).strip()
        total, equal = total + 1, equal + (mine == other)
        if mine != other:
            print(f"{path.relative_to(options.speech)}: {difference(mine, other) or 'spaces'}", flush=True)
    print(f"{equal} of {total} equal")
    return 0 if equal == total > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
