"""An offramp that is trained: how likely a text has more errors than it may, from what its decode was like.

    bilstm  a small recurrent network over the probabilities of the tokens: a few unlikely ones in a row mean something
            else than the same number here and there
    cnn     a small convolutional network over what the encoder gives out, before there is a text
    linear  one linear layer over the mean of that: an exit of DeeBERT (arXiv 2004.12993) after the last layer, a
            baseline

Source: pilot inference (arXiv 2311.17065), 5 and 7.4. Each belongs to one checkpoint and lies next to it. Numpy alone;
training is `training.offramp`'s business. No recipe has them, because they gain nothing over perplexity; `Asking` asks
them of a pilot's text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, get_args

import numpy as np

from whispertide.checkpoint import Checkpoint, attachments
from whispertide.checkpoint.attachments import Arrays, Attachment, Kind, Shapes
from whispertide.decoding.search import Guard
from whispertide.features import Features
from whispertide.methods.pilot.pilot import HeardUtterance, Pilot, Scores
from whispertide.model.engine import LAST_LAYER, EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import Framing
from whispertide.streaming.resources import EncodedWindow, RoundResources
from whispertide.streaming.round import Opened, RoundPlan, RoundResult
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import FloatArray

Trained = Literal["bilstm", "cnn", "linear"]

KIND = Kind("a trained offramp", "offramp-{variant}.npz", "whispertide train offramp {model}")
TRAINED = get_args(Trained)
HIDDEN = 16  # of the recurrent network, in each direction
CHANNELS = (32, 32)  # of the convolutions
KERNEL, STRIDE = 5, 4
DENSE = 16
_LEAST = -10.0  # log-probability; what is less likely is no more of a sign
_SHORTEST = 40  # frames; the states of a shorter window are followed by zeros


class OffloadModel(Protocol):
    """What tells how likely the text of a decode is not good enough."""

    @property
    def hears(self) -> bool:
        """Whether it goes by what the encoder gives out."""

    def offload_probability(self, logprobs: Sequence[float], states: FloatArray | None) -> float:
        """The probability, 0 to 1, that the text is not good enough.

        `logprobs` are those of its tokens, `states` [frames, width] the encoder's output; None where it does not hear.
        """


class _Tapped(RoundResources):
    """Resources that also give out what the encoder's last layer does."""

    def open(
        self,
        features: Features,
        frames: int,
        state: EncoderState | None,
        taps: Sequence[int] = (),
        frame: Framing | None = None,
        *,
        began: float,
    ) -> EncodedWindow:
        """Encode the first `frames` mel frames of a round."""
        return super().open(features, frames, state, (*taps, LAST_LAYER), frame, began=began)


@dataclass(frozen=True, slots=True)
class Asking(SerialExecutor):
    """Asks `offload` about the text of every pilot."""

    offload: OffloadModel

    @classmethod
    def of(cls, resources: RoundResources, offload: OffloadModel) -> Self:
        """With these resources, which give out what `offload` hears."""
        given = {item.name: getattr(resources, item.name) for item in fields(resources) if item.init}
        return cls(_Tapped(**given) if offload.hears else resources, offload)

    def decode(
        self, plan: RoundPlan, opened: Opened | None, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult[Any]:
        """The second stage of `run`."""
        result = SerialExecutor.decode(self, plan, opened, options, guards)
        heard = result.heard
        # A text without scores is one that nobody believed: what was heard was silence.
        if opened is None or not isinstance(plan.hearing, Pilot) or not isinstance(heard, HeardUtterance):
            return result
        if heard.scores != Scores():
            states = opened.encoded.taps.get(LAST_LAYER)
            valid = None if states is None else states[: opened.encoded.valid_frames]
            self.offload.offload_probability(heard.scores.logprobs, valid)
        return result


@dataclass(frozen=True, slots=True)
class TrainedOfframp:
    """One of the three, of one checkpoint. Satisfies `OffloadModel`.

    arrays         its weights (`shapes_of`)
    content_hash   of the checkpoint whose decodes it was trained on
    report         what training measured of it
    """

    kind: Trained
    arrays: Arrays
    content_hash: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    by_states: ClassVar[frozenset[Trained]] = frozenset({"cnn", "linear"})

    @property
    def hears(self) -> bool:
        """Whether it goes by what the encoder gives out."""
        return self.kind in self.by_states

    def offload_probability(self, logprobs: Sequence[float], states: FloatArray | None) -> float:
        """See `OffloadModel`."""
        if not self.hears:
            return _sigmoid(_recurrent(self.arrays, signs(logprobs)))
        if states is None:
            raise ValueError("expected the output of the encoder; got none")
        classify = _linear if self.kind == "linear" else _convolved
        return _sigmoid(classify(self.arrays, padded(states)))

    def save(self, folder: Path) -> Path:
        """Write it as a `.npz` into a folder, usually the checkpoint's; returns which. Raises OSError."""
        path = KIND.place(folder, self.kind)
        attachments.save(path, Attachment(self.arrays, self.content_hash, self.report))
        return path

    @classmethod
    def load(cls, path: Path, kind: Trained, *, width: int, content_hash: str) -> Self:
        """Read one of a checkpoint of this encoder width and hash.

        Raises `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is damaged or belongs to
        another checkpoint.
        """
        found = attachments.load(KIND, path, shapes_of(kind, width), content_hash)
        return cls(kind, found.arrays, found.content_hash, found.report)

    @classmethod
    def of_checkpoint(cls, checkpoint: Checkpoint, kind: Trained) -> Self:
        """The one next to the checkpoint. Raises as `load` does."""
        path = attachments.find(checkpoint, KIND, kind, instead="perplexity")
        return cls.load(path, kind, width=checkpoint.dims.n_audio_state, content_hash=checkpoint.content_hash)


def trained_in(folder: Path) -> tuple[Trained, ...]:
    """The kinds that lie in a folder."""
    return tuple(kind for kind in TRAINED if KIND.place(folder, kind).is_file())


def shapes_of(kind: Trained, width: int) -> Shapes:
    """The weights, as torch names and lays them out; `width` is the encoder's."""
    if kind == "bilstm":
        directions = ("", "_reverse")
        layer: Shapes = {
            name: shape
            for end in directions
            for name, shape in (
                (f"weight_ih_l0{end}", (4 * HIDDEN, 2)),
                (f"weight_hh_l0{end}", (4 * HIDDEN, HIDDEN)),
                (f"bias_ih_l0{end}", (4 * HIDDEN,)),
                (f"bias_hh_l0{end}", (4 * HIDDEN,)),
            )
        }
        return {**layer, "out.weight": (1, 2 * HIDDEN), "out.bias": (1,)}
    if kind == "linear":
        return {"out.weight": (1, width), "out.bias": (1,)}
    first, second = CHANNELS
    return {
        "first.weight": (first, width, KERNEL),
        "first.bias": (first,),
        "second.weight": (second, first, KERNEL),
        "second.bias": (second,),
        "dense.weight": (DENSE, second),
        "dense.bias": (DENSE,),
        "out.weight": (1, DENSE),
        "out.bias": (1,),
    }


def signs(logprobs: Sequence[float]) -> FloatArray:
    """[tokens, 2] probability and log-probability of each token; one sure token for a text without any."""
    values = np.maximum(np.asarray(logprobs or (0.0,), np.float32), np.float32(_LEAST))
    # Divided, so that it is about as large as the probability next to it.
    return np.stack([np.exp(values), values / np.float32(-_LEAST)], axis=-1)


def padded(states: FloatArray) -> FloatArray:
    """[frames, width], with zeros up to as many frames as the convolutions need."""
    return np.pad(states, [(0, max(0, _SHORTEST - len(states))), (0, 0)])


def _sigmoid(value: float) -> float:
    # Far beyond 60 `exp` would overflow, and the answer is 0 or 1 long before.
    return float(1.0 / (1.0 + np.exp(-np.clip(value, -60.0, 60.0))))


def _recurrent(weights: Arrays, inputs: FloatArray) -> float:
    """The last state of each direction, and one linear layer (Hochreiter and Schmidhuber 1997, as torch has it)."""
    last = [_lstm(weights, inputs, ""), _lstm(weights, inputs[::-1], "_reverse")]
    return float((weights["out.weight"] @ np.concatenate(last) + weights["out.bias"])[0])


def _lstm(weights: Arrays, inputs: FloatArray, direction: str) -> FloatArray:
    driven = inputs @ weights[f"weight_ih_l0{direction}"].T
    # Torch keeps two biases, although only their sum counts.
    driven = driven + weights[f"bias_ih_l0{direction}"] + weights[f"bias_hh_l0{direction}"]
    hidden = np.zeros(HIDDEN, np.float32)
    cell = np.zeros(HIDDEN, np.float32)
    for row in driven:
        # In torch's order of the gates.
        enter, forget, new, out = np.split(row + weights[f"weight_hh_l0{direction}"] @ hidden, 4)
        cell = _open(forget) * cell + _open(enter) * np.tanh(new)
        hidden = _open(out) * np.tanh(cell)
    return hidden


def _open(gate: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-gate)), np.float32)


def _linear(weights: Arrays, states: FloatArray) -> float:
    """One linear layer over the mean of all frames."""
    return float((weights["out.weight"] @ states.mean(0) + weights["out.bias"])[0])


def _convolved(weights: Arrays, states: FloatArray) -> float:
    """Two convolutions, the mean over time, two linear layers."""
    frames = states.T
    for name in ("first", "second"):
        # No padding: as many frames as there are whole kernels, as torch has it without padding.
        windows = np.lib.stride_tricks.sliding_window_view(frames, KERNEL, axis=1)[:, ::STRIDE]
        mixed = np.einsum("ctk,ock->ot", windows, weights[f"{name}.weight"], optimize=True)
        frames = np.asarray(np.maximum(mixed + weights[f"{name}.bias"][:, None], 0), np.float32)
    dense = np.maximum(weights["dense.weight"] @ frames.mean(1) + weights["dense.bias"], 0)
    return float((weights["out.weight"] @ dense + weights["out.bias"])[0])
