"""Training a drafter: the recurrent cell over a frozen decoder's hidden states (`decoding.recurrent`). Needs torch.

First speech is heard: windows of it are encoded, their right text goes through the decoder in one run, and the hidden
states that predict its tokens are kept in the folder of the run, in parts. Then the cell learns from these alone. From
the state that predicted a token it is given that token and the ones after it, and learns what comes next, by the
cross-entropy of each of the next few tokens. So no audio and no vocabulary of 50,000 are in the loop.

Which windows there are depends on the seed alone, and batches on the seed and the number of the update: a run that was
stopped goes on as if it had not been.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from whispertide.atomic import replacing, writing
from whispertide.checkpoint.layout import EMBEDDING
from whispertide.decoding.recurrent import LEARNED, CellWeights
from whispertide.errors import CheckpointError, CorpusError, OptionError
from whispertide.features import log_mel
from whispertide.model.engine import DecodeRequest
from whispertide.model.whisper import WhisperModel
from whispertide.types import N_FRAMES, FloatArray, IntArray
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.batches import Numbered, Tensors
from whispertide_lab.training.epochs import Descent, EpochOptions, EpochTrainer, Lessons
from whispertide_lab.training.lessons import HELD_BACK, divided, unreserved
from whispertide_lab.training.loop import Figures
from whispertide_lab.training.shards import Shards
from whispertide_lab.training.small_run import note_options
from whispertide_lab.training.windows import WindowOptions, compose

PART = 100  # windows in a file
_SECONDS = (4.0, 14.0)  # of a window
_PADDED = 4  # one window in so many is padded to 30 s

Count = Callable[[int, int], None]  # (windows heard, in all)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterOptions(EpochOptions):
    """How a drafter is trained.

    windows      of speech that are heard; one in `HELD_BACK` is not trained on
    known        tokens that it knows: the commonest of the text
    size         of the state
    length       so many tokens ahead are learned
    batch        places of the text in an update
    """

    windows: int = 2000
    known: int = 4096
    size: int = 160
    length: int = 4
    steps: int = 1500
    epoch: int = 100
    batch: int = 256
    rate: float = 3e-3
    best: int = 1
    language: str | None = None

    def __post_init__(self) -> None:
        EpochOptions.__post_init__(self)
        counts = (self.windows, self.known, self.size, self.length, self.batch)
        if min(counts) < 1 or self.windows < 2 * HELD_BACK:
            raise OptionError(
                f"expected windows from {2 * HELD_BACK} and known, size, length and batch from 1; "
                f"got {', '.join(map(str, counts))}"
            )


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """A window: the hidden states [n, width] that predict its tokens, and these, `said` [n], end of text included."""

    hidden: FloatArray
    said: IntArray


# --- hearing ----------------------------------------------------------------------------------------------------------


def hear(model: WhisperModel, speech: Shards, number: int, options: DrafterOptions) -> HiddenStates:
    """Window `number` of a run, of some of these utterances."""
    dice = np.random.RandomState([options.seed % 2**32, number])
    how = WindowOptions(silent=0.0, prompt=0.0, cut_start=0.0, language=options.language)
    seconds = float(dice.uniform(*_SECONDS))
    window = compose(lambda dice: speech[int(dice.randint(len(speech)))], model.tokenizer, seconds, dice, how)
    mel = log_mel(window.samples, model.dims.n_mels)
    columns = N_FRAMES if number % _PADDED == 0 else mel.shape[1] + mel.shape[1] % 2
    encoded = model.encode(np.pad(mel, [(0, 0), (0, columns - mel.shape[1])]))
    counted = np.flatnonzero(window.targets >= 0)
    request = DecodeRequest(window.tokens[None], (len(window.tokens) - 1,), hidden=True)
    hidden = model.decoder(encoded).run(request).hidden
    assert hidden is not None
    return HiddenStates(hidden[0, counted].astype(np.float16), window.targets[counted])


def hear_all(
    model: WhisperModel,
    speech: Shards,
    options: DrafterOptions,
    folder: Path,
    progress: Count,
    stop: Callable[[], bool] = lambda: False,
) -> list[HiddenStates] | None:
    """All windows; those of parts that are in the folder already are read. None: stopped. What is held back is made of
    utterances that no other window has.

    Raises `CheckpointError` where a part is damaged, `OutputError` where one cannot be written.
    """
    trained, held_back = divided(speech)
    heard: list[HiddenStates] = []
    for first in range(0, options.windows, PART):
        path = folder / f"heard-{first // PART:04d}.npz"
        if path.exists():
            heard += _read_part(path)
            continue
        part = []
        for number in range(first, min(first + PART, options.windows)):
            part.append(hear(model, trained if number % HELD_BACK else held_back, number, options))
            progress(number + 1, options.windows)
            if stop():
                return None
        _write_part(path, part)
        heard += part
    return heard


def _write_part(path: Path, part: Sequence[HiddenStates]) -> None:
    arrays: dict[str, Any] = {
        "hidden": np.concatenate([window.hidden for window in part]),
        "said": np.concatenate([window.said for window in part]),
        "lengths": np.array([len(window.said) for window in part]),
    }
    with writing(path), replacing(path) as unfinished, unfinished.open("wb") as file:
        np.savez(file, **arrays)


def _read_part(path: Path) -> list[HiddenStates]:
    try:
        with np.load(path, allow_pickle=False) as content:
            ends = content["lengths"].cumsum()[:-1]
            hidden, said = np.split(content["hidden"], ends), np.split(content["said"], ends)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise CheckpointError(f"{path} is damaged ({type(error).__name__}); remove it, and start again") from error
    return [HiddenStates(*pair) for pair in zip(hidden, said, strict=True)]


# --- learning ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Places(Tensors):
    """Places of a text: the state [n, width] that predicted a token, and the rows [n, 1 + length] of that token and of
    those after it; -1 after the end of a window.
    """

    hidden: Tensor
    rows: Tensor

    @classmethod
    def of(cls, heard: Sequence[HiddenStates], row: dict[int, int], length: int) -> "Places":
        """All places but the last of each window; a token that is not in `row` has the row after all of them."""
        hidden, rows = [], []
        for window in heard:
            known = np.array([row.get(token, len(row)) for token in window.said.tolist()], np.int64)
            padded = np.pad(known, (0, length), constant_values=-1)
            rows.append(np.lib.stride_tricks.sliding_window_view(padded, 1 + length)[:-1])
            hidden.append(window.hidden[:-1])
        return cls(torch.from_numpy(np.concatenate(hidden)), torch.from_numpy(np.concatenate(rows)))

    def at(self, places: IntArray) -> "Places":
        """Some of them."""
        where = torch.from_numpy(places)
        return Places(self.hidden[where], self.rows[where])

    @property
    def seconds(self) -> float:
        """Of sound: there is none any more."""
        return 0.0

    @property
    def count(self) -> int:
        """How many tokens count."""
        return int((self.rows[:, 1:] >= 0).sum())


class PlaceBatches(Numbered[Places]):
    """Some of the places of a text."""

    def __init__(self, places: Places, count: int, seed: int) -> None:
        super().__init__(seed)
        self._places, self._count = places, count

    def make(self, number: int, dice: Dice) -> Places:
        """Batch `number`, by dice of its own."""
        own = np.random.default_rng([self._seed, number])
        return self._places.at(own.integers(len(self._places.rows), size=self._count))


class DrafterNetwork(nn.Module):  # type: ignore[misc]
    """The cell as `decoding.recurrent` computes it; `embedding` [known, width] is frozen."""

    def __init__(self, embedding: FloatArray, size: int) -> None:
        super().__init__()
        known, width = embedding.shape
        self.register_buffer("embedding", torch.from_numpy(embedding))

        def matrix(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape) / math.sqrt(shape[0]))

        self.start, self.inner, self.outer = matrix(width, size), matrix(width, 3 * size), matrix(width, size)
        self.cell, self.bias = matrix(size, 3 * size), nn.Parameter(torch.zeros(2, 3 * size))
        self.other, self.prior = nn.Parameter(torch.zeros(size)), nn.Parameter(torch.zeros(known + 1))

    def forward(self, hidden: Tensor, given: Tensor) -> Tensor:
        """Scores [n, length, known + 1] of what comes after each of the rows `given` [n, length]."""
        known, size = self.embedding @ self.inner, self.cell.shape[0]
        inputs = functional.pad(known, (0, 0, 0, 1)) + self.bias[0]
        outputs = torch.cat([self.embedding @ self.outer, self.other[None]])
        state = torch.tanh(hidden.float() @ self.start)
        states = []
        for row in given.unbind(1):
            fed, kept = inputs[row], state @ self.cell + self.bias[1]
            reset, update = (fed[:, : 2 * size] + kept[:, : 2 * size]).sigmoid().chunk(2, 1)
            new = torch.tanh(fed[:, 2 * size :] + reset * kept[:, 2 * size :])
            state = new + update * (state - new)
            states.append(state)
        return torch.stack(states, 1) @ outputs.T + self.prior

    def loss(self, places: Places) -> Tensor:
        """Cross-entropy of the tokens after the first, summed."""
        wanted = places.rows[:, 1:]
        scores = self(places.hidden, places.rows[:, :-1].clamp_min(0))
        return functional.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=-1, reduction="sum")

    def accepted(self, places: Places) -> float:
        """Tokens that one verified draft of one chain gives on average, the one that any run gives included."""
        count = 0.0
        with torch.no_grad():
            for part in range(0, len(places.rows), 512):
                at = Places(places.hidden[part : part + 512], places.rows[part : part + 512])
                # teacher forcing is what the cell would draft, as long as every draft so far was right
                right = self(at.hidden, at.rows[:, :-1].clamp_min(0)).argmax(-1) == at.rows[:, 1:]
                right &= at.rows[:, 1:] < len(self.prior) - 1
                count += float(right.cumprod(1).sum())
        return 1.0 + count / len(places.rows)


class DrafterTrainer(EpochTrainer[Places]):
    """The cell and the text that it learns from. What it is at the end is kept."""

    descent = Descent(warm_up=0.0, decay=0.05, eps=1e-8)

    def __init__(
        self, heard: Sequence[HiddenStates], embedding: FloatArray, options: DrafterOptions, folder: Path
    ) -> None:
        self.options = options
        trained = [window for number, window in enumerate(heard) if number % HELD_BACK]
        common = Counter(token for window in trained for token in window.said.tolist()).most_common(options.known)
        self.tokens = np.array(sorted(token for token, _ in common), np.int64)
        row = {token: number for number, token in enumerate(self.tokens.tolist())}
        places, self.held_out = (Places.of(part, row, options.length) for part in (trained, heard[::HELD_BACK]))
        if not len(places.rows) or not len(self.held_out.rows):
            raise CorpusError("expected speech with text to train a drafter on; got none: use longer recordings")
        torch.manual_seed(options.seed)
        self.network = DrafterNetwork(np.asarray(embedding[self.tokens], np.float32), options.size)
        lessons = Lessons(PlaceBatches(places, options.batch, options.seed), [self.held_out])
        super().__init__(list(self.network.parameters()), lessons, options, folder, "cpu")
        self.resume()

    def loss(self, batch: Places) -> Tensor:
        """Cross-entropy of the next tokens."""
        return self.network.loss(batch)

    def end_epoch(self) -> Figures:
        """Also what a chain of drafts would gain on what is held back."""
        return {**super().end_epoch(), "accepted": self.network.accepted(self.held_out)}

    def measured(self) -> Figures:
        """The loss on what is held back, and what a chain of drafts would gain there."""
        return {"held_out": self.held_out_loss(), "accepted": self.network.accepted(self.held_out)}

    def result(self) -> CellWeights:
        """The cell as it is."""
        state = self.network.state_dict()
        learned = {name: state[name].numpy() for name in LEARNED}
        figures = {name: round(value, 4) for name, value in self.measured().items()}
        covered = float((self.held_out.rows[:, 0] < len(self.tokens)).float().mean())
        report = self.report({**figures, "known_share": round(covered, 4)})
        return CellWeights(self.tokens, **learned, content_hash=self.options.content_hash, report=report)


def open_trainer(
    model: WhisperModel,
    speech: Shards,
    options: DrafterOptions,
    folder: Path,
    progress: Count,
    stop: Callable[[], bool] = lambda: False,
) -> DrafterTrainer | None:
    """A run in `folder`, new or as it was left; None: stopped while it heard.

    Sentences that are reserved for evaluation are left out. Raises `CorpusError` where nothing is left, and
    `OptionError` where the run that is there has other options or other speech.
    """
    usable = unreserved(speech, 2)
    note_options(options, folder, speech)
    heard = hear_all(model, usable, options, folder, progress, stop)
    if heard is None:
        return None
    return DrafterTrainer(heard, model.checkpoint.tensors.get(EMBEDDING), options, folder)
