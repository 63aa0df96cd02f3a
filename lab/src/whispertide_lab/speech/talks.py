"""Synthetic talks of 5 to 15 minutes with the exact time of every word: 32 of them, more than 40,000 words.

Each talk has one voice, a pace, sentences with pauses between them and paragraphs with longer ones; half of the talks
are in voices that the bundled model was trained on, half in voices held out (`voices`), and all text is test text
(`text`). Word times come from the synthesizers, which plan every sound before making it (`espeak`, `flite`).

The same seed gives the same talks wherever the same versions of the synthesizers and of numpy's and soxr's arithmetic
run; the versions of the synthesizers are part of the name and the hash. Without flite all voices are espeak-ng's, and
the name says so. A sentence whose words the synthesizer does not tell apart is left out. Every talk is made by a
process of its own (`python -m whispertide_lab.speech.talks FOLDER SEED NUMBER`), because the synthesizers carry state
from one sentence to the next. They carry none back, nor does the level depend on what follows: the beginning of a talk
is the same whether the rest is made or not.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whispertide.checkpoint.cache import cache_dir
from whispertide.types import to_samples
from whispertide_lab.speech.apart import Apart
from whispertide_lab.speech.cached import CachedCorpus, cached_corpus, write_recording
from whispertide_lab.speech.espeak import EspeakSpeaker
from whispertide_lab.speech.flite import SLOW_VOICES, FliteSpeaker
from whispertide_lab.speech.installed import EVERY_VOICE, Installed, installed
from whispertide_lab.speech.noise import between
from whispertide_lab.speech.text import TEXT_VERSION, reserved_sentences
from whispertide_lab.speech.utterance import Beginnings
from whispertide_lab.speech.voices import HELD_OUT, Int16Array, Speaker, Spoken, Voice

VERSION = 2  # counts up whenever the same seed gives other talks from the same text
TALKS = 32
QUICK_TALKS = 4
QUICK_WORDS = 90

_WORDS = (900, 1750)  # in a talk: 5 to 15 minutes at any of the paces
_ESPEAK_RATE = (130, 165)  # what espeak-ng calls words per minute
_FLITE_STRETCH = (1.0, 1.2)
_SENTENCES = (4, 8)  # in a paragraph
_PAUSE_S = (0.25, 0.9)  # besides what the synthesizer itself leaves between sentences
_PARAGRAPH_S = (1.2, 3.0)
_LEVEL = 0.7  # of what the synthesizer gives


@dataclass(frozen=True, slots=True)
class TalkPlan:
    """What makes a talk: who speaks how fast, at least how many words, and the random streams for the rest.

    With `samples` it is only the beginning: it ends with the first sentence that lasts longer.
    """

    number: int
    seed: int
    voice: Voice
    words: int
    pace: float  # 0 is the slowest of the range, 1 the fastest
    samples: int | None = None

    @property
    def name(self) -> str:
        """Of its files."""
        part = "" if self.samples is None else f"-{self.samples}"
        return f"talk-{self.number:02d}{part}"


def talk_plan(
    seed: int, number: int, speaking: Installed = EVERY_VOICE, *, quick: bool = False, samples: int | None = None
) -> TalkPlan:
    """Talk `number` of the corpus with this seed; even ones have known voices, odd ones held-out voices."""
    voices = speaking.held_out if number % 2 else speaking.trained
    pace = np.random.RandomState([seed % 2**32, number, 1]).random_sample()
    # Lengths are spread evenly by the golden ratio, so that the total hardly depends on chance.
    low, high = _WORDS
    words = QUICK_WORDS if quick else round(low + (high - low) * (number * 0.6180339887 % 1))
    return TalkPlan(number, seed, voices[number // 2 % len(voices)], words, pace, samples)


def open_talks(*, quick: bool = False, seed: int = 0, beginnings: Beginnings | None = None) -> CachedCorpus:
    """The corpus of talks, or `beginnings` of some; makes them first where they are not in the cache.

    Raises `CorpusError` without a synthesizer.
    """
    speaking = installed()
    samples = beginnings.samples if beginnings else None
    plans = [
        talk_plan(seed, number, speaking, quick=quick, samples=samples)
        for number in range(QUICK_TALKS if quick else TALKS)
    ]
    if beginnings:
        plans = [plans[place] for place in beginnings.places([str(plan.voice) for plan in plans])]
    return _opened(f"seed{seed}" + ("-quick" if quick else ""), plans, extent_arguments(quick, beginnings), speaking)


def open_short_talks(seed: int, numbers: Sequence[int]) -> CachedCorpus:
    """The beginnings of these talks, each as long as one of a quick corpus: many voices in little time.

    Made first where they are not in the cache. Raises `CorpusError` without a synthesizer.
    """
    speaking = installed()
    plans = [talk_plan(seed, number, speaking, quick=True) for number in numbers]
    return _opened(f"seed{seed}-short", plans, extent_arguments(quick=True, beginnings=None), speaking)


def _opened(what: str, plans: Sequence[TalkPlan], extent: Sequence[str], speaking: Installed) -> CachedCorpus:
    name, seed = f"talks-{speaking.versions}-{what}", plans[0].seed
    version = f"talks {VERSION} text {TEXT_VERSION} seed {seed} {speaking.versions}"
    folder = cache_dir() / "corpora" / f"{name}-v{VERSION}.{TEXT_VERSION}"
    makers = {
        plan.name: Apart(
            __name__, f"{plan.name} in the voice {plan.voice}", (str(folder), str(seed), str(plan.number), *extent)
        )
        for plan in plans
    }
    return cached_corpus(name, version, folder, makers)


def extent_arguments(quick: bool, beginnings: Beginnings | None) -> list[str]:
    """How much is made, as arguments of the process that makes a recording."""
    return [str(beginnings.count), str(beginnings.samples)] if beginnings else ["quick"] if quick else []


def read_extent(arguments: list[str]) -> tuple[bool, Beginnings | None]:
    """The same, read back."""
    return arguments == ["quick"], Beginnings(*map(int, arguments)) if len(arguments) == 2 else None


def make_talk(folder: Path, plan: TalkPlan) -> None:
    """Speak one talk and write it into `folder`; once per process. Raises `CorpusError` where a synthesizer fails."""
    samples, words = assemble(plan, open_speaker(plan.voice, plan.pace))
    note = "held out" if plan.voice in HELD_OUT else "trained"
    write_recording(folder, plan.name, samples, words, str(plan.voice), note)


def open_speaker(voice: Voice, pace: float) -> Speaker:
    """The voice, at a pace of 0 (slow) to 1 (fast) within the range of the talks."""
    if voice.synthesizer == "espeak-ng":
        slow, fast = _ESPEAK_RATE
        return EspeakSpeaker(voice.name, rate=round(slow + (fast - slow) * pace), pitch=50)
    fast_stretch, slow_stretch = _FLITE_STRETCH
    stretch = slow_stretch + (fast_stretch - slow_stretch) * pace
    return FliteSpeaker(voice.name, stretch=stretch * SLOW_VOICES.get(voice.name, 1.0))


def assemble(plan: TalkPlan, speaker: Speaker) -> tuple[Int16Array, list[tuple[str, int, int]]]:
    """The talk: 16 kHz int16 [n], and its words with their first sample and the one after their last."""
    parts: list[Int16Array] = []
    words: list[tuple[str, int, int]] = []
    length = 0
    for pause, text, spoken in _sentences(plan, speaker):
        length += pause
        parts.append(np.zeros(pause, np.int16))
        spans = zip(text.split(), spoken.words, strict=True)
        words += [(word, length + start, length + end) for word, (start, end) in spans]
        parts.append(spoken.samples)
        length += len(spoken.samples)
        if plan.samples is not None and words[-1][2] > plan.samples:
            break
    return np.rint(np.concatenate(parts) * _LEVEL).astype(np.int16), words


def _sentences(plan: TalkPlan, speaker: Speaker) -> Iterator[tuple[int, str, Spoken]]:
    """Pause, text and sound of one sentence after the other until there are words enough."""
    dice = np.random.RandomState([plan.seed % 2**32, plan.number, 2])
    count, left = 0, 0
    for text in reserved_sentences(plan.seed, plan.number):
        spoken = speaker.speak(text)
        if spoken is None:
            continue
        limits = _PARAGRAPH_S if left == 0 else _PAUSE_S
        left = left or int(dice.randint(_SENTENCES[0], _SENTENCES[1] + 1))
        yield to_samples(between(limits, dice)), text, spoken
        left -= 1
        count += len(spoken.words)
        if count >= plan.words:
            return


def main(arguments: list[str]) -> None:
    """FOLDER SEED NUMBER [quick | COUNT SAMPLES]: make one talk."""
    folder, seed, number, *extent = arguments
    quick, beginnings = read_extent(extent)
    samples = beginnings.samples if beginnings else None
    make_talk(Path(folder), talk_plan(int(seed), int(number), installed(), quick=quick, samples=samples))


if __name__ == "__main__":
    main(sys.argv[1:])
