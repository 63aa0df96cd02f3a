"""Single words, each an utterance of its own, through `tide` in one framing after the other: errors, and inventions.

    python benchmarks/single_words.py models/micro-padded.en --manifest FOLDER/manifest.jsonl

The words are made here with flite and espeak-ng ("yes", "seven", ...). With a manifest (docs/guides/compare-your-own-
audio.md) its recordings of one or two words are heard, too. Silence of 0.7 s before each word, and of 1.4 s after it.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from whispertide.api import Transcriber, load
from whispertide.audio.file import load_audio
from whispertide.events import Confirmed
from whispertide.lab.evaluation.wer import Counts, align
from whispertide.lab.tune import changes
from whispertide.streaming.framing import BARE, PAD30, Zeros
from whispertide.streaming.recipe import Recipe
from whispertide.streaming.recipes import get_recipe
from whispertide.types import SAMPLE_RATE, FloatArray

WORDS = "yes no seven stop go left right up down one two three four five six eight nine zero hello thanks"
Said = tuple[FloatArray, list[str]]
TIDE = get_recipe("tide")
RECIPES = {
    "bare": TIDE.replace(framing=BARE, shift_guard=True),
    "1 s of zeros": TIDE.replace(framing=Zeros(), shift_guard=True),
    "as tuned": TIDE.replace(**changes(Zeros())),
    "30 s": TIDE.replace(framing=PAD30),
}


def made() -> Iterator[Said]:
    """Every other one of all words in three voices."""
    with TemporaryDirectory() as folder:
        file = f"{folder}/word.wav"
        commands = [["flite", "-voice", voice, "-o", file, "-t"] for voice in ("slt", "rms")]
        commands.append(["espeak-ng", "-v", "en-us", "-w", file])
        for number, (word, command) in enumerate((word, each) for word in WORDS.split() for each in commands):
            if number % 2 == 0:
                subprocess.run([*command, word], check=True, capture_output=True)
                yield load_audio(Path(file)), [word]


def recorded(manifest: Path) -> Iterator[Said]:
    """Recordings of one or two English words."""
    for line in map(json.loads, manifest.read_text(encoding="utf-8").splitlines()):
        words = (line["transcript"] or "").split()
        if line["language"].startswith("en") and 1 <= len(words) <= 2:
            yield load_audio(manifest.parent / line["file"]), words


def heard(transcriber: Transcriber, recipe: Recipe, said: Said) -> Counts:
    """What becomes of one word."""
    session, pause = transcriber.session(recipe), np.zeros(round(0.7 * SAMPLE_RATE), np.float32)
    audio, words = np.concatenate((pause, said[0], pause, pause)), said[1]
    events = [event for at in range(0, len(audio), 1600) for event in session.push(audio[at : at + 1600])]
    events += session.finish()
    text = [word.text.strip() for event in events if isinstance(event, Confirmed) for word in event.words]
    return align(words, text).words


def main() -> None:
    """Print a line for each framing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--manifest", type=Path)
    parser.add_argument("--framings", nargs="*", default=list(RECIPES), choices=list(RECIPES), metavar="NAME")
    asked = parser.parse_args()
    transcriber = load(asked.model, threads=1)
    sets = {"made": list(made())} | ({"recorded": list(recorded(asked.manifest))} if asked.manifest else {})
    for name, words in sets.items():
        for framing in asked.framings:
            began = time.process_time()
            found = sum((heard(transcriber, RECIPES[framing], each) for each in words), Counts())
            taken = (time.process_time() - began) / len(words)
            print(
                f"{name:9} {framing:13} {len(words)} words: {found.errors} errors ({found.insertions} inserted, "
                f"{found.deletions} missing), {taken:.2f} processor seconds for each",
                flush=True,
            )


if __name__ == "__main__":
    main()
