"""Batches by number, each a function of the seed and its number: so a run can be resumed exactly.

`Batches` has windows of one length, for whole checkpoints; the other kinds are in files of their own.

Windows are composed and their features computed in loader processes. Needs torch. Knows nothing of networks.
"""

import math
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Subset

from whispertide.checkpoint.tokenizer import Tokenizer
from whispertide.features import log_mel
from whispertide.options import check_range
from whispertide.types import CHUNK_SECONDS, HOP_LENGTH, SAMPLE_RATE, FloatArray
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.shards import Shards, Utterance
from whispertide_lab.training.windows import Window, WindowOptions, compose

_DAY_S = 86_400.0
_AHEAD = 8  # batches that each worker has ready
_ENOUGH = 20  # utterances of a speaker for a window of that speaker alone: with fewer it would say the same again


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How much there is in a batch: windows of one of `lengths_s`, drawn with `shares`, about `seconds` in all.

    `mask_time` and `mask_mels` are the longest stretches, in frames and bands, that SpecAugment hides (Park et al.
    2019), two of each per window; 0 hides none. `one_speaker` is the share of the windows whose utterances are all by
    one speaker in one place, as in a talk; elsewhere each is by another.
    """

    seconds: float = 60.0
    lengths_s: tuple[float, ...] = (4.0, 6.0, 9.0, 14.0)
    shares: tuple[float, ...] = (0.25, 0.35, 0.25, 0.15)
    windows: WindowOptions = field(default_factory=WindowOptions)
    n_mels: int = 80
    mask_time: int = 30
    mask_mels: int = 12
    one_speaker: float = 0.0

    def __post_init__(self) -> None:
        check_range("seconds of a batch", self.seconds, 0.0, _DAY_S)
        for name in ("mask_time", "mask_mels"):
            check_range(name, getattr(self, name), 0, math.inf)


@dataclass(frozen=True, slots=True)
class Phase:
    """Batches up to number `until` are made by these options."""

    until: int
    options: BatchOptions


@dataclass(frozen=True, slots=True)
class Source:
    """Some of the speech, and how likely an utterance is drawn from it."""

    speech: Shards
    share: float


@dataclass(slots=True)
class Batch:
    """`mel` [b, mels, frames]; `tokens`, `targets` [b, n] (-1: does not count); `places` [b, n, 2] seconds; texts."""

    mel: Tensor
    tokens: Tensor
    targets: Tensor
    places: Tensor
    texts: list[str]

    @property
    def seconds(self) -> float:
        """Of sound."""
        return len(self.texts) * float(self.mel.shape[2] * HOP_LENGTH / SAMPLE_RATE)

    def pin_memory(self) -> "Batch":
        """The same in memory that a GPU can read by itself; the loader calls it."""
        mel, tokens, targets, places = (t.pin_memory() for t in (self.mel, self.tokens, self.targets, self.places))
        return Batch(mel, tokens, targets, places, self.texts)


@dataclass(slots=True)
class Tensors:
    """What kinds of batches add to: tensors, and what else they say of themselves."""

    def to(self, device: torch.device) -> Self:
        """The same with the tensors on that device."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        return replace(self, **{name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()})


B = TypeVar("B")
Options = TypeVar("Options")


class Numbered(Dataset[B], Generic[B]):  # type: ignore[misc]
    """Batches by number, as many as a run takes. A kind of them says how one is made."""

    def __init__(self, seed: int) -> None:
        self._seed = seed % 2**32

    def make(self, number: int, dice: Dice) -> B:
        """Batch `number`, by its dice."""
        raise NotImplementedError

    def __len__(self) -> int:
        return 2**31

    def __getitem__(self, number: int) -> B:
        return self.make(number, np.random.RandomState([self._seed, number]))

    def after(self, done: int, until: int, workers: int, *, pinned: bool = False) -> Iterator[B]:
        """The batches from number `done` up to `until`, made by `workers` processes (0: here)."""
        yield from DataLoader(
            Subset(self, range(done, until)),
            batch_size=None,
            num_workers=workers,
            prefetch_factor=_AHEAD if workers else None,
            worker_init_fn=quiet_worker,
            pin_memory=pinned,
        )


class SpeechBatches(Numbered[B], Generic[B, Options]):
    """Batches of `speech`, whose utterances are all drawn alike."""

    def __init__(
        self, speech: Sequence[Utterance], tokenizer: Tokenizer, options: Options, n_mels: int, seed: int
    ) -> None:
        super().__init__(seed)
        self._speech, self._tokenizer, self._options, self._n_mels = speech, tokenizer, options, n_mels

    def _draw(self, dice: Dice) -> Utterance:
        return self._speech[int(dice.randint(len(self._speech)))]


class Batches(Numbered[Batch]):
    """The batches of a run in phases."""

    def __init__(self, sources: Sequence[Source], tokenizer: Tokenizer, phases: Sequence[Phase], seed: int) -> None:
        super().__init__(seed)
        self._sources, self._tokenizer, self._phases = sources, tokenizer, phases

    def __len__(self) -> int:
        return self._phases[-1].until

    def make(self, number: int, dice: Dice) -> Batch:
        """Batch `number`, by the options of its phase."""
        options = next(phase.options for phase in self._phases if number < phase.until)
        seconds = options.lengths_s[_choose(options.shares, dice)]
        count = max(1, round(options.seconds / seconds))
        windows = [self._window(seconds, options, dice) for _ in range(count)]
        mels = [log_mel(window.samples, options.n_mels) for window in windows]
        for mel in mels:
            hide(mel, options.mask_mels, options.mask_time, dice)
        return collate(windows, mels, self._tokenizer.eot)

    def _window(self, seconds: float, options: BatchOptions, dice: Dice) -> Window:
        draw, windows = self._draw, options.windows
        if options.one_speaker and dice.random_sample() < options.one_speaker:
            own = self._by_speaker[draw(dice).source]
            if sum(len(source.speech) for source in own) >= _ENOUGH:
                draw = partial(_drawn, own)
                windows = replace(windows, augmentation=windows.augmentation.settled(dice))
        return compose(draw, self._tokenizer, seconds, dice, windows)

    def _draw(self, dice: Dice) -> Utterance:
        return _drawn(self._sources, dice)

    @cached_property
    def _by_speaker(self) -> dict[str, list[Source]]:
        """What each speaker says in each source that has some of it."""
        found: defaultdict[str, list[Source]] = defaultdict(list)
        for source in self._sources:
            for speaker, speech in source.speech.by_speaker().items():
                found[speaker].append(Source(speech, source.share * len(speech) / len(source.speech)))
        return dict(found)


def _drawn(sources: Sequence[Source], dice: Dice) -> Utterance:
    """An utterance of one of the sources."""
    speech = sources[_choose([source.share for source in sources], dice)].speech
    chosen: Utterance = speech[int(dice.randint(len(speech)))]
    return chosen


def _choose(shares: Sequence[float], dice: Dice) -> int:
    """One of them, with a probability that is its share of all."""
    edges = np.cumsum(shares)
    return int(np.searchsorted(edges, edges[-1] * dice.random_sample(), side="right"))


def quiet_worker(_: int) -> None:
    """One thread for each worker, and Ctrl-C is the trainer's business."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    threadpool_limits(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def hide(mel: FloatArray, mels: int, frames: int, dice: Dice) -> None:
    """SpecAugment: twice up to `mels` bands and up to `frames` frames of [mels, frames] at the mean, in place."""
    mean = mel.mean()
    for axis, width in ((0, mels), (1, frames)):
        for _ in range(2):
            length = min(int(dice.randint(width + 1)), mel.shape[axis])
            start = int(dice.randint(mel.shape[axis] - length + 1))
            np.moveaxis(mel, axis, 0)[start : start + length] = mean


def collate(windows: Sequence[Window], mels: Sequence[FloatArray], filler: int) -> Batch:
    """Windows of one length as tensors; `filler` is the token after the shorter rows, which does not count."""
    return Batch(
        torch.from_numpy(np.stack(mels)),
        in_rows([window.tokens for window in windows], filler),
        in_rows([window.targets for window in windows], -1),
        in_rows([window.places for window in windows], -1),
        [window.text for window in windows],
    )


def in_rows(arrays: Iterable[npt.NDArray[Any]], filler: int) -> Tensor:
    """Arrays as rows, each filled up to the length of the longest."""
    return pad_sequence([torch.from_numpy(array) for array in arrays], batch_first=True, padding_value=filler)


def padded(options: BatchOptions) -> BatchOptions:
    """The same with windows of 30 s alone, as Whisper's training had them, every second one padded with zeros."""
    windows = replace(options.windows, short=0.5)
    return replace(options, lengths_s=(float(CHUNK_SECONDS),), shares=(1.0,), windows=windows)
