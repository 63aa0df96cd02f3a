"""Short talks in many voices, clean, noisy and in rooms: what the shipped rule of `steadiness` is fitted on.

Left out are the voices of the quick corpora (`talks.QUICK_TALKS`), so that these can show what the rule does on voices
that it never met. Made on first use and kept in the cache; no text is needed of them.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from whispertide.types import FloatArray
from whispertide_lab.evaluation.corpora import conditions
from whispertide_lab.evaluation.corpora.degraded import word_spans
from whispertide_lab.speech.cached import Reference
from whispertide_lab.speech.noise import KINDS
from whispertide_lab.speech.talks import QUICK_TALKS, open_short_talks, talk_plan
from whispertide_lab.speech.utterance import Utterance

TALKS = 22  # all voices come round; some have two
CHOICES = ("clean", "noisy", "rooms")


def many_voices(seed: int) -> list[tuple[str, Callable[[], FloatArray]]]:
    """The voice of each talk, and what loads its audio, 16 kHz [n]. Raises `CorpusError` without synthesizers."""
    kept = {talk_plan(seed, number).voice for number in range(QUICK_TALKS)}
    numbers = [number for number in range(TALKS) if talk_plan(seed, number).voice not in kept]
    corpus = open_short_talks(seed, numbers)
    found: list[tuple[str, Callable[[], FloatArray]]] = []
    for kind in CHOICES:
        for number, reference, utterance in zip(numbers, corpus.references, corpus.utterances(), strict=True):
            load = utterance.audio if kind == "clean" else partial(_degraded, kind, utterance, reference, seed, number)
            found.append((utterance.group, load))
    return found


def _degraded(kind: str, utterance: Utterance, reference: Reference, seed: int, number: int) -> FloatArray:
    audio = utterance.audio().astype(np.float64)
    condition = conditions.noisy if kind == "noisy" else conditions.recorded
    done, dice = condition(seed, number), np.random.RandomState([seed % 2**32, number])
    noise = KINDS.get(done.noise, KINDS["pink"])(len(audio), dice)  # babble would need other talks
    return conditions.degrade(audio, noise, word_spans(reference), done, dice).astype(np.float32)
