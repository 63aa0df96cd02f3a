"""A few minutes of synthetic speech with exact word times, for training small layers; no test sentence, no held-out
voice.

The synthesizers keep state, so every voice speaks in a process of its own (`python -m
whispertide_lab.training.timed_speech FOLDER NUMBER SEED SECONDS`). For whole models there is more than this, and of
more kinds. Knows nothing of what is trained.
"""

import sys
from pathlib import Path

import numpy as np

from whispertide.atomic import writing
from whispertide.types import seconds
from whispertide_lab.speech.apart import WORKERS, Apart, make_all
from whispertide_lab.speech.installed import installed
from whispertide_lab.speech.talks import open_speaker
from whispertide_lab.speech.text import training_sentence
from whispertide_lab.training.shards import Utterance, write_shard

PACES = (0.15, 0.85)  # within the range of the synthetic talks


def make_speech(folder: Path, minutes: float, seed: int) -> None:
    """Write shards of so many minutes into `folder`, every known voice that is installed at two paces.

    Raises `CorpusError` where a synthesizer is missing, `OutputError` where `folder` cannot be written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    voices = installed().trained
    shards = len(voices) * len(PACES)
    makers = (
        Apart(
            __name__,
            f"speech in the voice {voices[number % len(voices)]}",
            (str(folder), str(number), str(seed), str(60 * minutes / shards)),
        )
        for number in range(shards)
    )
    make_all(makers, WORKERS, lambda done, count: None)


def speak_shard(folder: Path, number: int, seed: int, wanted_s: float) -> None:
    """Write shard `number`: sentences in one voice until there are so many seconds; once per process."""
    voices = installed().trained
    voice = voices[number % len(voices)]
    speaker = open_speaker(voice, PACES[number // len(voices)])
    dice = np.random.RandomState([seed % 2**32, number])
    said: list[Utterance] = []
    total = 0.0
    while total < wanted_s:
        text = training_sentence(dice)
        spoken = speaker.speak(text)
        if spoken is None:
            continue
        said.append(Utterance(spoken.samples, text, str(voice), spoken.words))
        total += seconds(len(spoken.samples))
    write_shard(folder, number, said)


if __name__ == "__main__":
    speak_shard(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
