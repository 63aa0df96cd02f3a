"""Batches of commands: utterances of about the same length, their features and their tokens.

A batch is a function of the seed and its number. Needs torch. Knows nothing of networks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide.understand.checkpoint import SAMPLES_PER_FRAME, LateVocabulary
from whispertide.understand.intent_words import plain
from whispertide.understand.model import FACTOR, features
from whispertide_lab.speech.noise import Dice, between
from whispertide_lab.training.augment import Augmentation, SpokenWord, vary
from whispertide_lab.training.batches import Numbered, Tensors, in_rows
from whispertide_lab.training.noise import make_noise
from whispertide_lab.training.shards import Shards, Utterance

Labels = npt.NDArray[np.int64]

_ALIKE = 8  # an utterance of a batch is one of so many times its size, by their lengths


@dataclass(frozen=True, slots=True)
class LateBatchOptions:
    """`count` utterances, what happens to their sound, and what of their features is hidden (SpecAugment).

    before_s, after_s   silence around them, at most
    mask_time           the longest stretch of mel frames that is hidden, twice; mask_mels of bands
    intent_last         after the text, not before it
    """

    count: int = 32
    before_s: float = 0.3
    after_s: float = 0.4
    mask_time: int = 30
    mask_mels: int = 16
    intent_last: bool = False
    augmentation: Augmentation = field(default_factory=lambda: replace(Augmentation(), band=0, codec=0))


@dataclass(slots=True)
class LateBatch(Tensors):
    """Some utterances.

    mel      [b, mels, 4 t], zeros after the shorter ones
    lengths  int64 [b], frames
    tokens   int64 [b, n], the end of text, the intent, the text: what the decoder is given
    targets  int64 [b, n], what comes next; -1 after the end
    spoken   int64 [b, t], what is said in a frame: a token, or the blank; -1 after the utterance
    seconds  of sound
    """

    mel: Tensor
    lengths: Tensor
    tokens: Tensor
    targets: Tensor
    spoken: Tensor
    seconds: float

    @property
    def count(self) -> int:
        """How many tokens count."""
        return int((self.targets >= 0).sum())


class LateBatches(Numbered[LateBatch]):
    """Utterances of about the same length, and what is said in them."""

    def __init__(
        self, speech: Shards, vocabulary: LateVocabulary, options: LateBatchOptions, n_mels: int, seed: int
    ) -> None:
        super().__init__(seed)
        order = sorted(range(len(speech)), key=lambda at: speech.places[at].count)
        self._speech = Shards(tuple(speech.places[at] for at in order))
        self._vocabulary, self._options, self._n_mels = vocabulary, options, n_mels

    def make(self, number: int, dice: Dice) -> LateBatch:
        """Batch `number`, by its dice."""
        count = min(self._options.count, len(self._speech))
        alike = min(len(self._speech), _ALIKE * count)
        first = int(dice.randint(len(self._speech) - alike + 1))
        chosen = [self._speech[first + int(at)] for at in dice.permutation(alike)[:count]]
        heard = [_heard(said, self._options, dice) for said in chosen]
        mels = [_hidden(features(samples, self._n_mels), self._options, dice) for samples, _ in heard]
        last = self._options.intent_last
        texts = [labels(said, self._vocabulary, intent_last=last) for said in chosen]
        spoken = [
            spoken_in(mel.shape[1] // FACTOR, text, words, self._vocabulary)
            for mel, text, (_, words) in zip(mels, texts, heard, strict=True)
        ]
        return collated(mels, texts, spoken, sum(len(samples) for samples, _ in heard) / SAMPLE_RATE)


def labels(said: Utterance, vocabulary: LateVocabulary, *, intent_last: bool = False) -> list[int]:
    """The intent, if the vocabulary has it, and the text."""
    number, text = None if said.intent is None else vocabulary.intent(said.intent), vocabulary.encode(plain(said.text))
    intent = [] if number is None else [number]
    return [*text, *intent] if intent_last else [*intent, *text]


def spoken_in(frames: int, text: Sequence[int], words: Sequence[SpokenWord], vocabulary: LateVocabulary) -> Labels:
    """int64 [frames]: the token that is said in each frame, the blank where nobody speaks.

    The subwords of a word share its time evenly. An intent is said in no time; it gets the first frame or the last.
    """
    spoken = np.full(frames, vocabulary.size, np.int64)
    for word in words:
        tokens = vocabulary.encode(plain(word.text))
        edges = np.linspace(word.start, word.end, len(tokens) + 1) / SAMPLES_PER_FRAME
        for token, first, last in zip(tokens, edges[:-1].astype(int), edges[1:].astype(int), strict=True):
            spoken[first : max(last, first + 1)] = token
    for at in (0, -1):
        if text and 1 <= text[at] <= len(vocabulary.intents):
            spoken[at] = text[at]
    return spoken


def _heard(said: Utterance, options: LateBatchOptions, dice: Dice) -> tuple[FloatArray, list[SpokenWord]]:
    samples, words = vary(said, options.augmentation, dice)
    before, after = (int(dice.random_sample() * s * SAMPLE_RATE) for s in (options.before_s, options.after_s))
    samples = np.pad(samples, (before, after))
    if dice.random_sample() < options.augmentation.noise:
        ratio_db = between(options.augmentation.ratio_db, dice)
        level = float(np.sqrt(np.mean(samples**2))) * 10 ** (-ratio_db / 20)
        samples = samples + make_noise(len(samples), dice) * np.float32(level)
    return samples, [SpokenWord(word.text, word.start + before, word.end + before) for word in words]


def _hidden(mel: FloatArray, options: LateBatchOptions, dice: Dice) -> FloatArray:
    """With two stretches of time and two of bands at the mean."""
    mean = mel.mean()
    for _ in range(2):
        long = int(dice.randint(options.mask_time + 1))
        at = int(dice.randint(max(1, mel.shape[1] - long)))
        mel[:, at : at + min(long, mel.shape[1] // 5)] = mean
        wide = int(dice.randint(options.mask_mels + 1))
        low = int(dice.randint(max(1, len(mel) - wide)))
        mel[low : low + wide] = mean
    return mel


def collated(mels: list[FloatArray], texts: list[list[int]], spoken: list[Labels], seconds: float) -> LateBatch:
    """One batch of mels [bands, frames], their labels, and those of each frame, padded to the longest."""
    frames = [mel.shape[1] // FACTOR for mel in mels]
    mel = np.zeros((len(mels), len(mels[0]), FACTOR * max(frames)), np.float32)
    for row, (values, count) in enumerate(zip(mels, frames, strict=True)):
        mel[row, :, : FACTOR * count] = values[:, : FACTOR * count]
    tokens = in_rows([np.array([0, *text]) for text in texts], 0)
    targets = in_rows([np.array([*text, 0]) for text in texts], -1)
    return LateBatch(torch.from_numpy(mel), torch.tensor(frames), tokens, targets, in_rows(spoken, -1), seconds)
