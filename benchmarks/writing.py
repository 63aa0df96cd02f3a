"""Case and punctuation errors per 100 words against what a person wrote: offline and streamed, with the same weights.

`python benchmarks/writing.py MODEL SPEECH FILE... -r tide -r simulstreaming`: MODEL as for --model, SPEECH a folder
with a manifest.jsonl, each FILE one of it whose transcript has capitals and marks. A recipe may be changed:
`-r tide,framing=zeros,zeros_s=1`. `bench run` holds recipes against the offline text; this tells how far
offline is from the truth itself. Needs the laboratory.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from whispertide import load
from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.options import BEAM, DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe, parse_overrides
from whispertide.types import SAMPLE_RATE, FloatArray, join_words
from whispertide_lab.evaluation.writing import WritingErrors, writing_errors

MANIFEST = "manifest.jsonl"
_PORTION = SAMPLE_RATE // 10


Texts = Mapping[Path, Sequence[str]]  # the written words of each recording


def written(speech: Path, names: Iterable[str]) -> Texts:
    """The words of each recording as a person wrote them. Raises `SystemExit` where a transcript has no marks."""
    lines = (speech / MANIFEST).read_text(encoding="utf-8").splitlines()
    entries = {entry["file"]: entry for entry in map(json.loads, lines)}
    found = {}
    for name in names:
        text = entries.get(name, {}).get("transcript") or ""
        if not (re.search(r"[a-z]", text) and re.search(r"[.?!,]", text)):
            sys.exit(f"expected a recording of {speech / MANIFEST} whose transcript has capitals and marks; got {name}")
        found[speech / name] = text.split()
    return found


def recipe_of(text: str) -> Recipe:
    """`tide,framing=zeros` -> the recipe with that change."""
    name, *changes = text.split(",")
    return parse_overrides(get_recipe(name), changes)


def offline(model: Transcriber, samples: FloatArray) -> str:
    """As `transcribe` hears a file: a beam of five."""
    return model.transcribe(samples, options=DecodeOptions(beam=BEAM)).text


def streamed(model: Transcriber, recipe: Recipe, samples: FloatArray) -> str:
    """What a session confirms, in portions of 0.1 s."""
    session = model.session(recipe)
    for at in range(0, len(samples), _PORTION):
        session.push(samples[at : at + _PORTION])
    session.finish()
    return join_words(session.transcript.words)


def errors(truths: Texts, heard: Texts) -> WritingErrors:
    """Over all recordings."""
    return sum((writing_errors(truths[path], words) for path, words in heard.items()), WritingErrors())


def row(name: str, truth: WritingErrors, offline: WritingErrors) -> str:
    """One line of the table."""
    counts = f"{truth.compared} | {truth.case} | {truth.punctuation} | {truth.per_100:.1f}"
    return f"| {name} | {counts} | {offline.per_100:.1f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, hear, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("speech", type=Path, help=f"with {MANIFEST}")
    parser.add_argument("files", nargs="+")
    parser.add_argument("-r", "--recipe", action="append", default=[], metavar="NAME[,FIELD=VALUE...]")
    parser.add_argument("--texts", action="store_true", help="print what was written, too")
    options = parser.parse_args(arguments)
    truths = written(options.speech, options.files)
    recipes = {text: recipe_of(text) for text in options.recipe}
    model = load(options.model, threads=1)
    audio = {path: load_audio(path) for path in truths}
    print("| | words | case | marks | in 100 words | against offline |\n|---|---:|---:|---:|---:|---:|")
    heard: dict[str, Texts] = {}
    for name, recipe in {"offline": None, **recipes}.items():
        heard[name] = {
            path: (offline(model, samples) if recipe is None else streamed(model, recipe, samples)).split()
            for path, samples in audio.items()
        }
        print(row(name, errors(truths, heard[name]), errors(heard["offline"], heard[name])), flush=True)
    if options.texts:
        for name, by_path in heard.items():
            for path, words in by_path.items():
                print(f"\n{name}, {path.name}: {' '.join(words)}")


if __name__ == "__main__":
    main()
