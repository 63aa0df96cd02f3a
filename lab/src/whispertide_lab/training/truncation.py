"""Training the word-truncation detector of any checkpoint: one linear layer over its frozen encoder (needs torch).

Windows begin at a word and are cut inside a word, right after one, or in a pause. The wanted weight is 1 in the frame
in which a word ends, and 1 in each of the last two frames where the window ends with a whole word (then the integral
passes a whole number in the last frame but one, which is what `attention.truncation` looks for), else 0. Simul-Whisper
trains with the difference in the number of words alone ("quantity loss" of continuous integrate-and-fire), because real
speech has no exact word times; synthetic speech has. Knows nothing of policies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from whispertide.audio.buffer import to_float
from whispertide.errors import CorpusError, OptionError
from whispertide.features import log_mel
from whispertide.methods.attention.truncation import END_FRAMES, TruncationDetector
from whispertide.model.engine import LAST_LAYER
from whispertide.model.whisper import WhisperModel
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, FloatArray
from whispertide_lab.speech.noise import Dice, between
from whispertide_lab.training.lessons import divided
from whispertide_lab.training.shards import Int16Array, Shards, Utterance

Framing = Literal["bare", "pad30", "both"]
Ending = Literal["inside", "after", "pause"]

_INSIDE = (0.2, 0.8)  # of a word's length: cuts that are clear
_AFTER_S = 0.03  # how long after a word a cut still belongs to it although the next one has begun
_PAUSE_S = (0.1, 0.7)
_FEWEST = 20  # utterances
_SHORTEST = 0.3  # seconds of a window


@dataclass(frozen=True, slots=True)
class TruncationOptions:
    """How much is trained on what.

    windows     cuts to train on; a fifth as many more, of other utterances, are for validation
    longest_s   of a window
    framing     how they reach the encoder; "both" in turn, for a detector that serves either
    caution     how much worse it is to take a cut word for whole (it would be shown) than the reverse (a word waits)
    counting    weight of counting words in the loss
    """

    windows: int = 1500
    longest_s: float = 8.0
    framing: Framing = "both"
    caution: float = 2.0
    counting: float = 0.01
    decay: float = 3e-3
    iterations: int = 150
    seed: int = 0

    def __post_init__(self) -> None:
        if self.windows < 20 or self.iterations < 1:
            raise OptionError(f"expected windows >= 20 and iterations >= 1; got {self.windows} and {self.iterations}")
        if not 1.0 <= self.longest_s <= 30.0 or self.caution <= 0 or self.counting < 0 or self.decay < 0:
            raise OptionError(
                "expected longest_s from 1 to 30, caution > 0, counting >= 0 and decay >= 0; got "
                f"{self.longest_s}, {self.caution}, {self.counting} and {self.decay}"
            )
        if self.framing not in ("bare", "pad30", "both"):
            raise OptionError(f"expected framing to be bare, pad30 or both; got {self.framing!r}")


@dataclass(frozen=True, slots=True)
class Cut:
    """A window of speech: float32 [n], where its whole words end (samples), and how it ends itself."""

    samples: FloatArray
    ends: tuple[int, ...]
    ending: Ending

    @property
    def frames(self) -> int:
        """Encoder frames with audio."""
        return len(self.samples) // FRAME_SAMPLES


class Window(NamedTuple):
    """A window as the layer sees it: the encoder's output [frames, width] in half precision, the wanted weights
    [frames], and how it ends.
    """

    hidden: np.ndarray[Any, Any]
    wanted: FloatArray
    ending: Ending


# --- windows ----------------------------------------------------------------------------------------------------------


def cut_window(said: Utterance, longest_s: float, dice: Dice) -> Cut | None:
    """A window of one utterance, at a level of its own; None where nothing of a fair length can be cut."""
    words = said.words or ()
    if len(words) < 2:
        return None
    first = int(dice.randint(len(words) - 1))
    begin = words[first][0]
    within = [word for word in words[first:] if word[1] - begin <= longest_s * SAMPLE_RATE]
    if not within:
        return None
    ending: Ending = ("inside", "inside", "after", "pause")[dice.randint(4)]
    start, end = within[-1] if ending == "pause" else within[int(dice.randint(len(within)))]
    if ending == "inside":
        at = round(start + (end - start) * between(_INSIDE, dice))
    elif ending == "after":
        at = end + int(_AFTER_S * SAMPLE_RATE * dice.random_sample())
    else:
        at = end + int(SAMPLE_RATE * between(_PAUSE_S, dice))
    if ending == "pause" and any(start >= end for start, _ in words[first + len(within) :]):
        return None  # not the last word of the sentence: no pause follows
    if at - begin < _SHORTEST * SAMPLE_RATE:
        return None
    ends = tuple(word_end - begin for _, word_end in within if word_end <= at)
    return Cut(_heard(said.samples, begin, at, dice), ends, ending)


def _heard(samples: Int16Array, begin: int, end: int, dice: Dice) -> FloatArray:
    """Samples begin..end at a random level in faint noise, silence after their end."""
    part = to_float(samples[begin:end])
    part = np.pad(part, (0, end - begin - len(part)))
    peak = max(float(np.abs(part).max()), 1e-4)
    level = 10 ** (-1.2 * dice.random_sample())
    noise = 10 ** (-2.5 - 2.0 * dice.random_sample()) * dice.standard_normal(len(part))
    return np.asarray((part / peak + noise) * 0.9 * level, np.float32)


def wanted_weights(cut: Cut) -> FloatArray:
    """The weights [frames] that the layer should give the frames of a window."""
    weights = np.zeros(cut.frames, np.float32)
    tail = cut.frames - END_FRAMES
    for end in cut.ends:
        if (frame := end // FRAME_SAMPLES) < tail:
            weights[frame] = 1.0
    weights[tail:] = float(cut.ending != "inside")
    return weights


def encode_windows(
    model: WhisperModel, said: Sequence[Utterance], count: int, options: TruncationOptions, seed: int
) -> list[Window]:
    """`count` random windows with the encoder's output of their real frames."""
    dice = np.random.RandomState([options.seed % 2**32, seed])
    made: list[Window] = []
    for _ in range(50 * count):
        cut = cut_window(said[int(dice.randint(len(said)))], options.longest_s, dice)
        if cut is None:
            continue
        mel = log_mel(cut.samples, model.dims.n_mels)
        padded = options.framing == "pad30" or (options.framing == "both" and len(made) % 2 == 1)
        columns = 3000 if padded else mel.shape[1] + mel.shape[1] % 2
        encoded = model.encode(np.pad(mel, [(0, 0), (0, columns - mel.shape[1])]), taps=(LAST_LAYER,))
        hidden = encoded.taps[LAST_LAYER][: cut.frames].astype(np.float16)
        made.append(Window(hidden, wanted_weights(cut), cut.ending))
        if len(made) == count:
            return made
    raise CorpusError(
        f"expected speech with word times from which {count} windows can be cut; got {len(made)}: use longer sentences"
    )


# --- training ---------------------------------------------------------------------------------------------------------


def train_truncation(
    model: WhisperModel,
    said: Shards,
    options: TruncationOptions | None = None,
    announce: Callable[[str], None] | None = None,
) -> TruncationDetector:
    """Train the detector of `model` (which should compute in fp32) on utterances with word times.

    Its `report` says how it does on windows of utterances that were held back, of other speakers where there are
    enough. Raises `CorpusError` where the utterances do not suffice.
    """
    options = options or TruncationOptions()
    tell = announce or (lambda message: None)
    timed = said.having(lambda place: bool(place.entry.get("words")))
    if len(timed) < _FEWEST:
        raise CorpusError(f"expected at least {_FEWEST} utterances with word times; got {len(timed)}")
    kept, held_back = divided(timed)
    tell(f"encoding {options.windows} windows of {len(kept)} utterances")
    windows = encode_windows(model, kept, options.windows, options, seed=1)
    weight, bias = _fit(windows, options, tell)
    check = encode_windows(model, held_back, max(20, options.windows // 5), options, seed=2)
    detector = TruncationDetector(weight, bias, model.checkpoint.tensors_hash)
    report = {"windows": options.windows, "framing": options.framing, **measure(detector, check)}
    return TruncationDetector(weight, bias, model.checkpoint.tensors_hash, report)


def _fit(
    windows: Sequence[Window], options: TruncationOptions, tell: Callable[[str], None]
) -> tuple[FloatArray, float]:
    frames = Frames.of(windows)
    layer = torch.nn.Linear(frames.hidden.shape[1], 1)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.constant_(layer.bias, -1.0)
    # one layer, all windows at once: a quasi-Newton method needs no rate and no schedule, and ends at the optimum
    optimiser = torch.optim.LBFGS(layer.parameters(), max_iter=options.iterations, line_search_fn="strong_wolfe")
    losses: list[float] = []

    def closure() -> float:
        optimiser.zero_grad()
        loss = truncation_loss(layer, frames, options)
        loss.backward()
        losses.append(float(loss.detach()))
        return losses[-1]

    optimiser.step(closure)
    tell(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} after {len(losses)} evaluations")
    weight: FloatArray = layer.weight.detach().numpy()[0].copy()
    return weight, float(layer.bias.detach()[0])


@dataclass(frozen=True, slots=True)
class Frames:
    """All windows as one row of frames.

    hidden  [frames, width]; wanted [frames] is 0 or 1; tail [frames] is 1 in the last frames of each window
    window  [frames] which window each frame belongs to
    words   [windows] how many words end before the tail
    cut     [windows] 1 where a word is cut at the end
    """

    hidden: torch.Tensor
    wanted: torch.Tensor
    tail: torch.Tensor
    window: torch.Tensor
    words: torch.Tensor
    cut: torch.Tensor

    @classmethod
    def of(cls, windows: Sequence[Window]) -> "Frames":
        """Side by side, in single precision."""
        hidden, wanted, endings = zip(*windows, strict=True)
        lengths = [len(weights) for weights in wanted]
        tails = [np.arange(length) >= length - END_FRAMES for length in lengths]
        return cls(
            hidden=torch.from_numpy(np.concatenate(hidden).astype(np.float32)),
            wanted=torch.from_numpy(np.concatenate(wanted)),
            tail=torch.from_numpy(np.concatenate(tails).astype(np.float32)),
            window=torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths)),
            words=torch.tensor([float(weights[:-END_FRAMES].sum()) for weights in wanted]),
            cut=torch.tensor([float(ending == "inside") for ending in endings]),
        )


def truncation_loss(layer: torch.nn.Linear, frames: Frames, options: TruncationOptions) -> torch.Tensor:
    """Cross-entropy of the last frames, a little of that of the others and of the quantity loss, and weight decay.

    The more one layer has to count words, the worse it tells whether the last one is whole (lab/log), so
    `counting` is small.
    """
    scores = layer(frames.hidden)[:, 0]
    by_frame = functional.binary_cross_entropy_with_logits(scores, frames.wanted, reduction="none")
    caution = 1.0 + (options.caution - 1.0) * frames.cut[frames.window]
    tail = (by_frame * caution * frames.tail).sum() / (caution * frames.tail).sum()
    words = frames.words.clamp(min=1.0)
    before = 1.0 - frames.tail
    others = (by_frame * before).sum() / words.sum()  # a mean over words: frames between words are many and easy
    counted = torch.zeros_like(words).index_add(0, frames.window, torch.sigmoid(scores) * before)
    quantity = ((counted - frames.words).abs() / words).mean()
    return tail + options.counting * (others + quantity) + options.decay * (layer.weight**2).sum()


# --- how good it is -----------------------------------------------------------------------------------------------


def measure(detector: TruncationDetector, windows: Sequence[Window]) -> dict[str, float]:
    """Shares of windows at whose end it fires, by how they end, and the mean error in the number of words.

    A good detector fires seldom "inside" and nearly always "after" a word and in a "pause".
    """
    fired: dict[Ending, list[bool]] = {"inside": [], "after": [], "pause": []}
    errors = []
    for hidden, wanted, ending in windows:
        exact = hidden.astype(np.float32)
        fired[ending].append(detector.fires(exact))
        counted = float(detector.weights(exact)[:-END_FRAMES].sum())
        errors.append(abs(counted - float(wanted[:-END_FRAMES].sum())))
    shares = {f"fires_{ending}": round(float(np.mean(seen)), 4) for ending, seen in fired.items() if seen}
    whole = [*fired["after"], *fired["pause"]]
    cut_rate = np.mean(fired["inside"]) if fired["inside"] else 0.0
    balanced = (np.mean(whole) + 1.0 - cut_rate) / 2 if whole else 0.0
    return {**shares, "balanced_accuracy": round(float(balanced), 4), "word_error": round(float(np.mean(errors)), 3)}
