"""Measure this machine and check the model: speed, estimates for live use, parity with a reference.

Returns values; printing is the command line's business. Knows nothing of the microphone. torch and transformers are
used where they happen to be installed, as a second opinion, and never required.
"""

import importlib
import importlib.util
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whispertide.checkpoint.attachments import BUNDLED
from whispertide.checkpoint.short import KIND
from whispertide.decoding.rules import log_softmax
from whispertide.features import log_mel
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.recipes.short_windows import COMFORTABLE, TOKENS_PER_S, Costs, choose_framing
from whispertide.types import FRAME_SAMPLES, HOP_LENGTH, N_FRAMES, N_SAMPLES, SAMPLE_RATE, FloatArray

if TYPE_CHECKING:
    from whispertide.checkpoint import Checkpoint, ModelDims
    from whispertide.model.engine import Encoded
    from whispertide.model.whisper import WhisperModel
    from whispertide.recipes.calibration import Calibration
    from whispertide.recipes.recipe import Recipe

# --- speed -----------------------------------------------------------------------------------------------------------

_REPEATS = 7
BUSY = 2.0  # a spread that only other work on the machine explains
_BEAM = 5
_BLOCK = 50  # tokens of the block pass that finds word times
_WARM_CACHE = 40  # cached tokens at which a step is measured: the middle of a long window
_FILLER = 11  # any text token; speed does not depend on it


@dataclass(frozen=True, slots=True)
class Speed:
    """Median seconds of the pieces of a round, for one model on this machine as it is now.

    `spread` is how much slower the slowest repetition of any piece was than the fastest.
    """

    model: str
    precision: str
    provider: str
    threads: int
    encode_30s: float
    encode_5s: float
    step_1: float
    step_5: float
    block_50: float
    spread: float

    @property
    def costs(self) -> Costs:
        """The costs by which a framing is chosen."""
        return Costs(self.encode_30s, self.step_1)


def measure_speed(model: "WhisperModel") -> Speed:
    """Time the encoder for 30 s and 5 s, decoder steps with 1 and 5 rows, and a block of 50 tokens."""
    from whispertide.model.providers import choose_provider, thread_count

    mel = np.zeros((model.dims.n_mels, N_FRAMES), np.float32)
    short = mel[:, : N_FRAMES // 6]
    encoded = model.encode(short)
    pieces = {
        "encode_30s": _time(lambda: model.encode(mel)),
        "encode_5s": _time(lambda: model.encode(short)),
        "step_1": _time(_feed(model, encoded, rows=1, length=_WARM_CACHE)),
        "step_5": _time(_feed(model, encoded, rows=_BEAM, length=_WARM_CACHE)),
        "block_50": _time(lambda: _feed(model, encoded, rows=1, length=_BLOCK)),
    }
    return Speed(
        model=model.name,
        precision=model.options.precision,
        provider=choose_provider(model.options.provider),
        threads=thread_count(model.options),
        spread=max(max(times) / min(times) for times in pieces.values()),
        **{name: statistics.median(times) for name, times in pieces.items()},
    )


def _time(run: Callable[[], object]) -> list[float]:
    """Seconds of each repetition, after one for warming up."""
    run()
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return times


def _feed(model: "WhisperModel", encoded: "Encoded", *, rows: int, length: int) -> Callable[[], object]:
    """Feed `length` tokens to `rows` rows of a fresh decoder; returns a function that feeds one more to each."""
    from whispertide.decoding.search import DecodeRequest

    decoder = model.decoder(encoded)
    tokens = np.full((rows, length), _FILLER, np.int64)
    # All rows come from the one row of an empty cache.
    decoder.run(DecodeRequest(tokens, logits_at=(length - 1,), parents=(0,) * rows))
    return lambda: decoder.run(DecodeRequest(tokens[:, :1], logits_at=(0,)))


# --- what can run live -----------------------------------------------------------------------------------------------

RULE = (
    f"A round = encode its window + one decoder step per token ({TOKENS_PER_S:g} tokens per second of the longest "
    f"window, at the recipe's beam) + one block pass for word times. It runs live if a round takes at most "
    f"{COMFORTABLE:.0%} of the recipe's step. whisperrt needs a model with a causal adapter (`whispertide train "
    'causal`): where it says "no adapter" there is none, and the figures are those with one. It encodes only what is '
    "new and feeds the text so far in one block pass. whisperflow and pilot take longer steps by themselves where the "
    "machine is slower: their words are later then. Models that were not measured are estimated from the sizes of "
    "their matrices."
)

# Width, encoder layers, decoder layers of the published models.
_SHAPES: Mapping[str, tuple[int, int, int]] = {
    "tiny.en": (384, 4, 4),
    "base.en": (512, 6, 6),
    "small.en": (768, 12, 12),
    "distil-small.en": (768, 12, 4),
    "medium.en": (1024, 24, 24),
    "large-v3-turbo": (1280, 32, 4),
    "large-v3": (1280, 32, 32),
}


@dataclass(frozen=True, slots=True)
class LiveEstimate:
    """An estimate of running a recipe live: seconds per round, their share of the step, the shortest possible step; and
    whether the model is `adapted` to the recipe, if that needs it.
    """

    model: str
    recipe: str
    round_s: float
    load: float
    shortest_step_s: float
    measured: bool
    adapted: bool = True

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if not self.adapted:
            return "no adapter"
        if self.load <= COMFORTABLE:
            return "yes"
        return "barely" if self.load <= 1 else "no"


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes that decide the cost of a model."""

    width: int
    encoder_layers: int
    decoder_layers: int
    vocab: int = 51_864

    @classmethod
    def of(cls, dims: "ModelDims") -> "Shape":
        """The shape of a loaded model."""
        return cls(dims.n_audio_state, dims.n_audio_layer, dims.n_text_layer, dims.n_vocab)

    def encoder_flops(self, frames: int) -> float:
        """Multiply-adds twice of a window, all of whose frames attend to each other."""
        return self.block_flops(frames, frames)

    def block_flops(self, frames: int, context: int) -> float:
        """Multiply-adds twice of T new `frames` that attend to H `context` frames, themselves among them:
        L (24 T d^2 + 4 T H d), the convolutions left out.
        """
        return self.encoder_layers * (24.0 * frames * self.width**2 + 4.0 * frames * context * self.width)

    def encoder_weights(self) -> float:
        """Weights that a run of the encoder reads: 12 d^2 per layer."""
        return self.encoder_layers * 12.0 * self.width**2

    def decoder_weights(self) -> float:
        """Weights that one step reads: 14 d^2 per layer, and the vocabulary."""
        return self.decoder_layers * 14.0 * self.width**2 + self.vocab * self.width


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """Facts about the measured checkpoint: whether it is made for short windows, the results of `whispertide tune` for
    an engine of these options, and the files, next to which there may be adapters.
    """

    short: bool = True
    tuned: "Calibration | None" = None
    options: EngineOptions = field(default_factory=EngineOptions)
    checkpoint: "Checkpoint | None" = None

    def is_adapted(self, recipe: "Recipe") -> bool:
        """True if the checkpoint has what a recipe needs; an unknown one has no adapter."""
        framing = recipe.framing
        return not framing.streams if self.checkpoint is None else framing.can_adapt(self.checkpoint)


NOTHING = CheckpointFacts(short=False)


def estimate_live(
    speed: Speed, dims: "ModelDims", recipes: Mapping[str, "Recipe"], known: CheckpointFacts = NOTHING
) -> list[LiveEstimate]:
    """Estimate every recipe, as the checkpoint gets it: for the measured model, with the `known` facts, then for the
    published ones, of which only the adapters in the package are known.
    """
    own = Shape.of(dims)
    shapes = {speed.model: own, **{name: Shape(*sizes) for name, sizes in _SHAPES.items() if name != speed.model}}
    return [
        _estimate(name, _Machine(speed, own, shape), recipe, known if name == speed.model else published_facts(name))
        for recipe in recipes.values()
        for name, shape in shapes.items()
    ]


def published_facts(name: str) -> CheckpointFacts:
    """Facts about a checkpoint of OpenAI's that is not measured: whether the package has an adapter for it."""
    return CheckpointFacts(short=KIND.place(BUNDLED / name).is_file())


def _estimate(name: str, machine: "_Machine", recipe: "Recipe", known: CheckpointFacts) -> LiveEstimate:
    framed = choose_framing(recipe, known.short, lambda: machine.costs, known.tuned, known.options).recipe
    seconds = machine.round_s(framed)
    load, shortest_s = seconds / framed.schedule.step_s, seconds / COMFORTABLE
    return LiveEstimate(
        name,
        recipe.name,
        seconds,
        load,
        shortest_s,
        measured=name == machine.speed.model,
        adapted=known.is_adapted(recipe),
    )


@dataclass(frozen=True, slots=True)
class _Machine:
    """The speed of a model of some shape, scaled from the measured speed of the shape `own`."""

    speed: Speed
    own: Shape
    shape: Shape

    @property
    def reading(self) -> float:
        """The ratio of the weights that a decoder step reads."""
        return self.shape.decoder_weights() / self.own.decoder_weights()

    @property
    def costs(self) -> Costs:
        return Costs(self.encode_s(30.0), self.reading * self.speed.step_1)

    def encode_s(self, padded_s: float) -> float:
        frames = SAMPLE_RATE // FRAME_SAMPLES
        measured_s, base = (self.speed.encode_30s, 30.0) if padded_s > 12 else (self.speed.encode_5s, 5.0)
        return (
            measured_s * self.shape.encoder_flops(int(padded_s * frames)) / self.own.encoder_flops(int(base * frames))
        )

    def round_s(self, recipe: "Recipe") -> float:
        window_s = recipe.usual_window_s
        rows = recipe.search.hypotheses
        step = self.speed.step_1 + (self.speed.step_5 - self.speed.step_1) * (rows - 1) / (_BEAM - 1)
        block_s = TOKENS_PER_S * window_s / _BLOCK * self.speed.block_50
        if recipe.framing.streams:
            new_s = recipe.schedule.step_s
            steps = max(1.0, TOKENS_PER_S * new_s)
            return self.block_s(new_s, window_s) + self.reading * (steps * step + block_s)
        decode_s = self.reading * (TOKENS_PER_S * window_s * step + block_s)
        return self.encode_s(recipe.framing.length_s(min(window_s, 30.0))) + decode_s

    def block_s(self, new_s: float, window_s: float) -> float:
        """Seconds to encode the new part of a stream of `window_s`. So short a run takes no less than reading the
        weights does, at the pace of a decoder step.
        """
        frames = SAMPLE_RATE // FRAME_SAMPLES
        computing = self.shape.block_flops(int(new_s * frames), int(window_s * frames)) / self.own.encoder_flops(
            5 * frames
        )
        reading = self.shape.encoder_weights() / self.own.decoder_weights()
        return max(computing * self.speed.encode_5s, reading * self.speed.step_1)


# --- parity ----------------------------------------------------------------------------------------------------------

_TOKENS = 96  # of the transcript that are compared
_OF_TRANSFORMERS = ("*.safetensors", "pytorch_model*.bin")  # not a folder of CTranslate2
PARITY = (
    "Log-probabilities along the greedy transcript of the bundled recording. Largest error: of any token, relative to "
    "the largest log-probability. Mean error: of the tokens of the transcript, in nats. Same tokens: how often both "
    "would choose the same one."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a comparison: the largest errors, and the least agreement; see `Parity`."""

    largest_error: float
    mean_error: float
    agreement: float


# fp32 engines differ by rounding. 8-bit ones differ most on tokens that nobody would choose, where it does not matter;
# a broken one is off by nats on those that are chosen, and chooses others.
EXACT = Limits(largest_error=1e-3, mean_error=1e-3, agreement=1.0)
QUANTISED = Limits(largest_error=math.inf, mean_error=0.5, agreement=0.9)


@dataclass(frozen=True, slots=True)
class Parity:
    """One comparison of log-probabilities along the same transcript.

    largest_error  largest difference of any log-probability, relative to the largest log-probability there is
    mean_error     mean difference for the tokens of the transcript, in nats
    agreement      share of positions at which both would choose the same token
    """

    what: str
    against: str
    largest_error: float
    mean_error: float
    agreement: float
    limits: Limits

    @property
    def passed(self) -> bool:
        """True within all limits (a figure that is no number is not)."""
        return (
            self.largest_error <= self.limits.largest_error
            and self.mean_error <= self.limits.mean_error
            and self.agreement >= self.limits.agreement
        )


def check_parity(model: "WhisperModel", exact: "WhisperModel", samples: FloatArray, folder: Path) -> list[Parity]:
    """Compare `model` with its own fp32 graphs `exact`, and those with transformers if that is installed.

    samples  up to 30 s of speech; `folder` is where the checkpoint lies, for transformers.
    """
    mel = log_mel(samples[:N_SAMPLES], exact.dims.n_mels, padding=max(0, N_SAMPLES - len(samples)))
    mel = mel[:, : N_SAMPLES // HOP_LENGTH]
    tokens = _transcript(exact, mel)
    truth = log_probabilities(exact, mel, tokens)
    checks = []
    if model.options.precision != "fp32":
        mine = log_probabilities(model, mel, tokens)
        checks.append(compare(f"{model.options.precision} engine", "own fp32", mine, truth, tokens, QUANTISED))
    other = transformers_log_probabilities(folder, mel, tokens)
    if other is not None:
        checks.append(compare("own fp32", "transformers", truth, other, tokens, EXACT))
    return checks


def compare(what: str, against: str, mine: FloatArray, truth: FloatArray, tokens: list[int], limits: Limits) -> Parity:
    """Compare log-probabilities [positions, vocab]; row i is what follows `tokens[i]`."""
    error = np.abs(mine - truth)
    of_text = error[np.arange(len(tokens) - 1), tokens[1:]]
    return Parity(
        what,
        against,
        largest_error=float(error.max() / np.abs(truth).max()),
        mean_error=float(of_text.mean()),
        agreement=float((mine.argmax(axis=-1) == truth.argmax(axis=-1)).mean()),
        limits=limits,
    )


def _transcript(model: "WhisperModel", mel: FloatArray) -> list[int]:
    """The start sequence and a greedy transcript after it."""
    from whispertide.decoding.window import decode_window

    options = DecodeOptions(temperatures=(0.0,), max_tokens=_TOKENS, word_timestamps=False)
    language = "en" if model.tokenizer.is_multilingual else None
    decoded = decode_window(model, model.encode(mel), options, language=language)
    start = model.tokenizer.sot_sequence(language, options.task, options.timestamps)
    return [*start, *decoded.tokens]


def log_probabilities(model: "WhisperModel", mel: FloatArray, tokens: list[int]) -> FloatArray:
    """Compute [positions, vocab] log-probabilities of the next token along `tokens`."""
    from whispertide.decoding.search import DecodeRequest
    from whispertide.model.engine import required

    request = DecodeRequest(np.array([tokens], np.int64), logits_at=tuple(range(len(tokens))), need="logits")
    output = model.decoder(model.encode(mel)).run(request)
    return log_softmax(required(output.logits, "logits")[0].astype(np.float64))


def transformers_log_probabilities(folder: Path, mel: FloatArray, tokens: list[int]) -> FloatArray | None:
    """Compute the same by transformers in fp32; None if it is not installed or cannot read such a checkpoint."""
    weights = any(found for pattern in _OF_TRANSFORMERS for found in folder.glob(pattern))  # none in a file
    if not weights or any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")):
        return None
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    reference = (
        transformers.WhisperForConditionalGeneration.from_pretrained(folder, local_files_only=True).float().eval()
    )
    with torch.no_grad():
        logits = reference(
            input_features=torch.from_numpy(mel[None].copy()), decoder_input_ids=torch.tensor([tokens])
        ).logits
    return log_softmax(logits[0].double().numpy())
