"""Estimates of the recipes that run live on this machine, from the measured speed of one model.

Other models are scaled by the sizes of their matrices. Measures nothing itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from whispertide.checkpoint import Checkpoint, ModelDims
from whispertide.checkpoint.attachments import BUNDLED
from whispertide.checkpoint.short import KIND, shipped_merged
from whispertide.options import DEFAULT_MODEL, DEFAULT_RECIPE, EngineOptions
from whispertide.recipes.calibration import Calibration, shipped_for
from whispertide.recipes.recipe import Recipe
from whispertide.recipes.short_windows import COMFORTABLE, TOKENS_PER_S, Costs, choose_framing
from whispertide.streaming.framing import AutoFraming
from whispertide.tuning.speed import BEAM, BLOCK, Speed
from whispertide.tuning.tune import choose_step
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE

RULE = (
    f"A round encodes its window, runs one decoder step per token ({TOKENS_PER_S:g} tokens per second of the longest "
    f"window, at the recipe's beam), and one block pass for word times. It runs live if it takes at most "
    f"{COMFORTABLE:.0%} of the step (load), which is the one that the recipe has with that model here; `shortest` is "
    "the shortest that would do. whisperrt encodes only new audio and feeds the text so far in one block "
    'pass. It needs a causal adapter (`whispertide train causal`); "no adapter" marks a model without one, and the '
    "figures are those with one. whisperflow and pilot take longer steps by themselves on a slower machine, with later "
    "words. Models that were not measured are estimated from the sizes of their matrices, and as if never tuned."
)

# Width, encoder layers, decoder layers of the published models, first of the one that commands take by default.
_SHAPES: Mapping[str, tuple[int, int, int]] = {
    DEFAULT_MODEL: (512, 6, 6),
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
    """An estimate of running a recipe live: seconds per round, the step that the recipe has with this model here, the
    share of it, the shortest possible step; whether the model is `adapted` to the recipe, if that needs it, and whether
    `tune_helps`: it would choose a longer step, with which the recipe runs live.
    """

    model: str
    recipe: str
    round_s: float
    step_s: float
    load: float
    shortest_step_s: float
    measured: bool
    adapted: bool = True
    tune_helps: bool = False

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
    def of(cls, dims: ModelDims) -> "Shape":
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
    """Facts about the measured checkpoint: whether it is made for short windows, its calibration for an engine of these
    options, the files, next to which there may be adapters, and the frames of merged padding that its own one knows.
    """

    short: bool = True
    tuned: Calibration | None = None
    options: EngineOptions = field(default_factory=EngineOptions)
    checkpoint: Checkpoint | None = None
    merged: int = 0

    def is_adapted(self, recipe: Recipe) -> bool:
        """True if the checkpoint has what a recipe needs; an unknown one has no adapter."""
        framing = recipe.framing
        return not framing.streams if self.checkpoint is None else framing.can_adapt(self.checkpoint)

    def may_be_timed(self, recipe: Recipe, round_s: float) -> bool:
        """True if `whispertide tune`, which times tide alone, was not run here, and has a step for such rounds."""
        if recipe.name != DEFAULT_RECIPE or not isinstance(recipe.framing, AutoFraming):
            return False
        timed = self.tuned is not None and self.tuned.timed(recipe, self.options) is not None
        return not timed and round_s <= COMFORTABLE * choose_step(round_s)


NOTHING = CheckpointFacts(short=False)


def estimate_live(
    speed: Speed, dims: ModelDims, recipes: Mapping[str, Recipe], known: CheckpointFacts = NOTHING
) -> list[LiveEstimate]:
    """Estimate every recipe, as the checkpoint gets it: the default recipe first, and of each the measured model, with
    the `known` facts, then the published ones, of which only the adapters in the package are known.
    """
    own = Shape.of(dims)
    shapes = {speed.model: own, **{name: Shape(*sizes) for name, sizes in _SHAPES.items() if name != speed.model}}
    facts = {name: known if name == speed.model else published_facts(name) for name in shapes}
    return [
        _estimate(name, _Machine(speed, own, shape), recipe, facts[name])
        for recipe in sorted(recipes.values(), key=lambda recipe: recipe.name != DEFAULT_RECIPE)
        for name, shape in shapes.items()
    ]


def published_facts(name: str) -> CheckpointFacts:
    """Facts about a checkpoint of OpenAI's that is not measured: what the package has for it."""
    return CheckpointFacts(KIND.place(BUNDLED / name).is_file(), shipped_for(name), merged=shipped_merged(name))


def _estimate(name: str, machine: "_Machine", recipe: Recipe, known: CheckpointFacts) -> LiveEstimate:
    framed = choose_framing(
        recipe, known.short, lambda: machine.costs, known.tuned, known.options, lambda: known.merged
    ).recipe
    seconds, step_s = machine.round_s(framed), framed.schedule.step_s
    return LiveEstimate(
        name,
        recipe.name,
        seconds,
        step_s,
        load=seconds / step_s,
        shortest_step_s=seconds / COMFORTABLE,
        measured=name == machine.speed.model,
        adapted=known.is_adapted(recipe),
        tune_helps=seconds > COMFORTABLE * step_s and known.may_be_timed(recipe, seconds),
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

    def round_s(self, recipe: Recipe) -> float:
        window_s = recipe.usual_window_s
        rows = recipe.search.hypotheses
        step = self.speed.step_1 + (self.speed.step_5 - self.speed.step_1) * (rows - 1) / (BEAM - 1)
        block_s = TOKENS_PER_S * window_s / BLOCK * self.speed.block_50
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
