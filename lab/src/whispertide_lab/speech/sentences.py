"""Single sentences with exact word times, one recording each: what model cards and alignment heads are measured on.

As the talks they have voices of known and of held-out kinds (`voices`) and nothing but reserved text: of our grammar
(`text`) or of WordNet (`wordnet`). Each recording is one sentence with some silence before and after it. A voice says
its sentences in one process of its own (`python -m whispertide_lab.speech.sentences FOLDER SOURCE SEED VOICE
COUNT`), in order, because the synthesizers carry state from one sentence to the next; so the first few of a voice are
the same whether more are asked for or not.
"""

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from whispertide.checkpoint.cache import cache_dir
from whispertide.errors import CorpusError
from whispertide.types import to_samples
from whispertide_lab.speech.apart import Apart
from whispertide_lab.speech.cached import CachedCorpus, cached_corpus, write_recording
from whispertide_lab.speech.flite import INSTALL
from whispertide_lab.speech.installed import installed
from whispertide_lab.speech.noise import between
from whispertide_lab.speech.talks import open_speaker
from whispertide_lab.speech.text import TEXT_VERSION, reserved_sentences
from whispertide_lab.speech.voices import HELD_OUT, TRAINED, Int16Array, Spoken, Voice
from whispertide_lab.speech.wordnet import WORDNET_VERSION, wordnet_sentences

Source = Literal["grammar", "wordnet"]

VERSION = 1  # counts up whenever the same seed gives other recordings of the same text
VOICES = (*TRAINED, *HELD_OUT)

_STREAM = 1000  # of random numbers: that of the first voice; those before it are the talks'
_LEAD_S = (0.1, 0.6)
_TAIL_S = (0.2, 0.6)
_PEAK = 0.7


def open_sentences(source: Source, voices: Sequence[Voice], count: int, *, seed: int = 0) -> CachedCorpus:
    """`count` sentences in each of the `voices`, which are among `VOICES`; made first where the cache lacks them.

    Voices that are not installed are left out, and the name of the corpus says which synthesizers there were. The group
    of an utterance is its voice. Raises `CorpusError` where espeak-ng, or WordNet, is missing.
    """
    here = installed()
    versions = here.versions
    asked, voices = voices, [voice for voice in voices if voice in (*here.trained, *here.held_out)]
    if not voices:
        raise CorpusError(f"expected one of the voices {', '.join(map(str, asked))}; none is installed ({INSTALL})")
    text_version = TEXT_VERSION if source == "grammar" else WORDNET_VERSION
    name = f"sentences-{source}-{versions}-seed{seed}"
    folder = cache_dir() / "corpora" / f"{name}-v{VERSION}.{text_version}"
    speakers = {
        voice: Apart(
            __name__,
            f"sentences in the voice {VOICES[voice]}",
            (str(folder), source, str(seed), str(voice), str(count)),
        )
        for voice in map(VOICES.index, voices)
    }
    makers = {f"v{voice:02d}-{number:03d}": make for number in range(count) for voice, make in speakers.items()}
    return cached_corpus(name, f"sentences {VERSION} {source} {text_version} {seed} {versions}", folder, makers)


def make_sentences(folder: Path, source: Source, seed: int, voice: int, count: int) -> None:
    """Speak `count` sentences into `folder`; once per process. Raises `CorpusError` where a synthesizer fails."""
    dice = np.random.RandomState([seed % 2**32, _STREAM + voice, VERSION])
    speaker = open_speaker(VOICES[voice], dice.random_sample())
    note = "held out" if VOICES[voice] in HELD_OUT else "trained"
    texts = (reserved_sentences if source == "grammar" else wordnet_sentences)(seed, _STREAM + voice)
    said = ((text, spoken) for text in texts if (spoken := speaker.speak(text)) is not None)
    for number, (text, spoken) in enumerate(islice(said, count)):
        samples, words = recording(text, spoken, dice)
        write_recording(folder, f"v{voice:02d}-{number:03d}", samples, words, str(VOICES[voice]), note)


def recording(text: str, spoken: Spoken, dice: np.random.RandomState) -> tuple[Int16Array, list[tuple[str, int, int]]]:
    """A sentence between silences: 16 kHz int16 [n], and its words with first and end sample."""
    lead, tail = (to_samples(between(limits, dice)) for limits in (_LEAD_S, _TAIL_S))
    sound = np.pad(spoken.samples.astype(np.float64), (lead, tail))
    level = _PEAK * 32767 / max(1.0, float(np.max(np.abs(sound))))
    words = [(word, lead + start, lead + end) for word, (start, end) in zip(text.split(), spoken.words, strict=True)]
    return np.rint(sound * level).astype(np.int16), words


def main(arguments: list[str]) -> None:
    """FOLDER SOURCE SEED VOICE COUNT: make the sentences of one voice."""
    folder, source, seed, voice, count = arguments
    make_sentences(Path(folder), "wordnet" if source == "wordnet" else "grammar", int(seed), int(voice), int(count))


if __name__ == "__main__":
    main(sys.argv[1:])
