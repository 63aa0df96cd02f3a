"""Training an offramp for any checkpoint: it hears utterances with pilots, and learns which of them went wrong.

An utterance went wrong if more than 10 % of its words did, as in the paper (pilot inference, arXiv 2311.17065, 6). What
is learned from is the newest pilot, because that is what there is when speech ends. One utterance in five is held back:
half of these choose the epoch, the other half are for the report. Needs torch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from whispertide.audio.buffer import to_float
from whispertide.errors import CorpusError, OptionError
from whispertide.methods.pilot.pilot import HeardUtterance, Scores
from whispertide.model.whisper import WhisperModel
from whispertide.recipes.assembly import make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.items.commands import area
from whispertide_lab.evaluation.items.offloading import WRONG
from whispertide_lab.evaluation.trained_offramp import (
    CHANNELS,
    DENSE,
    HIDDEN,
    KERNEL,
    STRIDE,
    Asking,
    Trained,
    TrainedOfframp,
    padded,
    signs,
)
from whispertide_lab.evaluation.wer import align
from whispertide_lab.speech.noise import between
from whispertide_lab.training.augment import Augmentation, vary
from whispertide_lab.training.device import on_threads
from whispertide_lab.training.noise import add_noise
from whispertide_lab.training.shards import Utterance

Dice = np.random.RandomState
Float16Array = npt.NDArray[np.float16]

_BLOCK = SAMPLE_RATE // 10
_FEWEST = 20  # utterances of either sort
_LONGEST_S = 20.0
_HELD_BACK = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OfframpOptions:
    """How it is trained.

    utterances    that are heard at most
    augmentation  what happens to their sound: where nothing goes wrong there is nothing to learn
    """

    utterances: int = 2000
    epochs: int = 60
    batch: int = 32
    rate: float = 3e-3
    decay: float = 1e-2
    seed: int = 0
    augmentation: Augmentation = field(default_factory=lambda: replace(Augmentation(), band=0, codec=0, noise=0.7))

    def __post_init__(self) -> None:
        if min(self.utterances, self.epochs, self.batch) < 1 or self.rate <= 0 or self.decay < 0:
            raise OptionError(
                "expected utterances, epochs and batch from 1, a rate above 0 and a decay from 0; got "
                f"{self.utterances}, {self.epochs}, {self.batch}, {self.rate:g} and {self.decay:g}"
            )


@dataclass(frozen=True, slots=True)
class Example:
    """The newest pilot of an utterance, and how many of the utterance's words were wrong in the end.

    states  float16 [frames, width], what the encoder gave out for the pilot
    """

    scores: Scores
    states: Float16Array
    errors: int
    words: int

    @property
    def wrong(self) -> bool:
        """Whether this machine's text was not good enough."""
        return self.errors > WRONG * self.words


@dataclass(slots=True)
class Kept:
    """In the place of an offramp: keeps what it is asked. Satisfies `OffloadModel`."""

    logprobs: tuple[float, ...] = ()
    states: FloatArray | None = None
    hears: bool = True

    def offload_probability(self, logprobs: Sequence[float], states: FloatArray | None) -> float:
        """None yet."""
        self.logprobs, self.states = tuple(logprobs), states
        return 0.0


# --- hearing ----------------------------------------------------------------------------------------------------------


def hear_examples(
    model: WhisperModel, recipe: Recipe, said: Sequence[Utterance], options: OfframpOptions
) -> Iterator[Example | None]:
    """Each utterance, changed by dice of its own; None for one that ends before its first pilot.

    `recipe` must be one of pilots, its framing the model's.
    """
    executor = make_executor(model, recipe)
    assert isinstance(executor, SerialExecutor)
    kept = Kept()
    asking = Asking.of(executor.resources, kept)
    for utterance, samples in varied(said, options):
        yield _heard(asking, kept, recipe, samples, utterance.text)


def varied(said: Sequence[Utterance], options: OfframpOptions) -> Iterator[tuple[Utterance, FloatArray]]:
    """Each utterance and its samples as they are heard: at another speed, in a room, in noise, by dice of its own."""
    for number, utterance in enumerate(said):
        dice = np.random.RandomState([options.seed % 2**32, number])
        yield utterance, _changed(utterance, options.augmentation, dice)


def _changed(said: Utterance, options: Augmentation, dice: Dice) -> FloatArray:
    samples, _ = vary(said, options, dice)
    if dice.random_sample() < options.noise:
        add_noise(samples, between(options.ratio_db, dice), dice)
    return samples


def _heard(executor: SerialExecutor, kept: Kept, recipe: Recipe, samples: FloatArray, text: str) -> Example | None:
    session = Session(recipe)
    newest: tuple[Scores, Float16Array] | None = None
    for block in (*np.split(samples, range(_BLOCK, len(samples), _BLOCK)), None):
        if block is None:
            session.request("finish")
        else:
            session.ingest(block)
        while plan := session.due():
            result = executor.run(plan, session.window(plan), session.options)
            if not plan.is_last and isinstance(result.heard, HeardUtterance) and kept.states is not None:
                newest = result.heard.scores, kept.states.astype(np.float16)
            session.apply(result)
    if newest is None:
        return None
    counts = align(text.split(), session.transcript.text.split()).words
    return Example(*newest, counts.errors, counts.reference)


# --- networks -------------------------------------------------------------------------------------------------------


class Recurrent(nn.LSTM):  # type: ignore[misc]
    """One layer in both directions; the last state of each."""

    def __init__(self) -> None:
        super().__init__(2, HIDDEN, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * HIDDEN, 1)

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Each [tokens, 2] -> logits [b]."""
        lengths = [len(one) for one in inputs]
        together = nn.utils.rnn.pad_sequence(list(inputs), batch_first=True)
        packed = nn.utils.rnn.pack_padded_sequence(together, lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = super().forward(packed)
        scores: Tensor = self.out(torch.cat([last[0], last[1]], dim=-1))[:, 0]
        return scores


class Convolutional(nn.Module):  # type: ignore[misc]
    """Two convolutions, the mean over time, two linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        first, second = CHANNELS
        self.first = nn.Conv1d(width, first, KERNEL, STRIDE)
        self.second = nn.Conv1d(first, second, KERNEL, STRIDE)
        self.dense = nn.Linear(second, DENSE)
        self.out = nn.Linear(DENSE, 1)
        self.dropout = nn.Dropout(0.2)

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Each [frames, width] -> logits [b]. One by one, since each has a length of its own."""
        return torch.stack([self._one(one) for one in inputs])

    def _one(self, states: Tensor) -> Tensor:
        frames = functional.relu(self.second(functional.relu(self.first(self.dropout(states).T))))
        score: Tensor = self.out(self.dropout(functional.relu(self.dense(frames.mean(-1)))))[0]
        return score


class LinearExit(nn.Module):  # type: ignore[misc]
    """One linear layer over the mean of all frames."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.Linear(width, 1)

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Each [frames, width] -> logits [b]."""
        scores: Tensor = self.out(torch.stack([one.mean(0) for one in inputs]))[:, 0]
        return scores


def network_of(kind: Trained, width: int) -> nn.Module:
    """The one of a kind, with random weights; `width` is the encoder's."""
    if kind == "bilstm":
        return Recurrent()
    return Convolutional(width) if kind == "cnn" else LinearExit(width)


# --- training ---------------------------------------------------------------------------------------------------------


def train_offramp(
    kind: Trained,
    examples: Sequence[Example],
    options: OfframpOptions,
    content_hash: str,
    progress: Callable[[int, int], None] = lambda done, count: None,
) -> TrainedOfframp:
    """Train one on what was heard. Its `report` has the areas under the ROC curve on utterances that it never saw.

    Raises `CorpusError` where too few utterances went wrong, or too few did not.
    """
    wrong = sum(example.wrong for example in examples)
    if min(wrong, len(examples) - wrong) < _FEWEST:
        raise CorpusError(
            f"expected at least {_FEWEST} utterances that went wrong (more than {WRONG:.0%} of the words; of a command "
            f"the intent), and as many that did not; got {wrong} of {len(examples)}: use more speech, or harder speech"
        )
    trained = [example for number, example in enumerate(examples) if number % _HELD_BACK]
    chosen_by, reported = (list(examples[half * _HELD_BACK :: 2 * _HELD_BACK]) for half in (0, 1))
    torch.manual_seed(options.seed)
    network = network_of(kind, examples[0].states.shape[1])
    _fit(
        network,
        (_inputs(trained, kind), _targets(trained)),
        (_inputs(chosen_by, kind), _targets(chosen_by)),
        options,
        progress,
    )
    arrays = {name: value.detach().numpy().astype(np.float32) for name, value in network.state_dict().items()}
    offramp = TrainedOfframp(kind, arrays, content_hash)
    report = {
        "utterances": len(examples),
        "wrong": wrong,
        **areas(offramp, reported),
        "weights": sum(array.size for array in arrays.values()),
        "options": asdict(options),
    }
    return replace(offramp, report=report)


@on_threads(1)  # the networks are too small to be shared among threads, which would wait for each other
def _fit(
    network: nn.Module,
    trained: tuple[list[Tensor], Tensor],
    chosen_by: tuple[list[Tensor], Tensor],
    options: OfframpOptions,
    progress: Callable[[int, int], None],
) -> None:
    """In place: the weights of the epoch with the least loss on `chosen_by`. Both are inputs and targets."""
    (inputs, targets), (held_back, expected) = trained, chosen_by
    optimiser = torch.optim.AdamW(network.parameters(), lr=options.rate, weight_decay=options.decay)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, options.epochs)
    best: tuple[float, Mapping[str, Any]] | None = None
    for epoch in range(options.epochs):
        network.train()
        order = np.random.RandomState([options.seed % 2**32, epoch]).permutation(len(inputs))
        for at in np.split(order, range(options.batch, len(order), options.batch)):
            optimiser.zero_grad()
            loss = functional.binary_cross_entropy_with_logits(network([inputs[one] for one in at]), targets[at])
            loss.backward()
            optimiser.step()
        falling.step()
        network.eval()
        with torch.no_grad():
            found = float(functional.binary_cross_entropy_with_logits(network(held_back), expected))
        # A copy, since `state_dict` gives the tensors that go on changing.
        if best is None or found < best[0]:
            best = found, {name: value.clone() for name, value in network.state_dict().items()}
        progress(epoch + 1, options.epochs)
    assert best is not None
    network.load_state_dict(best[1])


def _inputs(examples: Sequence[Example], kind: Trained) -> list[Tensor]:
    if kind == "bilstm":
        return [torch.from_numpy(signs(example.scores.logprobs)) for example in examples]
    return [torch.from_numpy(padded(example.states.astype(np.float32))) for example in examples]


def _targets(examples: Sequence[Example]) -> Tensor:
    return torch.tensor([float(example.wrong) for example in examples])


def areas(offramp: TrainedOfframp, examples: Sequence[Example]) -> dict[str, float]:
    """How often an utterance that went wrong has the higher score of it and one that did not: 0.5 by random choice."""
    wrong = [example.wrong for example in examples]
    scores = {
        offramp.kind: [
            offramp.offload_probability(each.scores.logprobs, each.states.astype(np.float32)) for each in examples
        ],
        "perplexity": [each.scores.perplexity for each in examples],
        "entropy": [each.scores.entropy for each in examples],
    }
    return {f"area_{name}": round(area(values, wrong), 3) for name, values in scores.items()}


def pilots_recipe() -> Recipe:
    """What the utterances are heard with."""
    return get_recipe("pilot").replace(vad=False, step_s=0.5)


def fitting(said: Sequence[Utterance], options: OfframpOptions) -> list[Utterance]:
    """Some of the utterances that one round can hear, in an order of the seed's."""
    order = np.random.RandomState(options.seed % 2**32).permutation(len(said))
    chosen = (said[int(at)] for at in order)
    fits = (one for one in chosen if len(to_float(one.samples)) <= _LONGEST_S * SAMPLE_RATE and one.text.split())
    return [one for one, _ in zip(fits, range(options.utterances), strict=False)]
