"""Runs a late-contextualisation network: frames while somebody speaks, their context at the end, the text token by
token (pilot inference, section 4).

What was heard is a value: ingesting more gives another one, so that a pilot can be abandoned, and a stream copied. A
frame depends on the audio up to its end and 12.5 ms more, so frames never change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from whispertide.checkpoint.cache import cache_path
from whispertide.features import raw_columns
from whispertide.graphs.store import build_once
from whispertide.model.runtime import GraphSession, open_session
from whispertide.options import EngineOptions
from whispertide.types import HOP_LENGTH, N_FFT, FloatArray, IntArray
from whispertide.understand.checkpoint import COMMANDS, SAMPLES_PER_FRAME, LateCheckpoint, LateDims, load_late
from whispertide.understand.graphs import CONTEXT, GRAPHS, INGEST, TEXT, VERSION, build

_FLOOR = -7.0  # log10 of power; what is quieter is silence
_NEVER = -1e9  # added to attention to what comes later
FACTOR = SAMPLES_PER_FRAME // HOP_LENGTH  # mel frames in a frame


def scaled(raw: FloatArray) -> FloatArray:
    """Raw log-mel frames as the network gets them: -1.3 in silence, 0 to 1.5 in speech. No frame needs a later one."""
    floored: FloatArray = np.maximum(raw, np.float32(_FLOOR))
    return (floored + np.float32(3.0)) / np.float32(3.0)


def features(samples: FloatArray, n_mels: int) -> FloatArray:
    """[n_mels, 4 t] of a whole recording, 16 kHz [n], with silence up to a whole number of the network's frames."""
    return scaled(raw_columns(samples, n_mels, 0, FACTOR * -(-len(samples) // SAMPLES_PER_FRAME)))


@dataclass(frozen=True, slots=True)
class Ingested:
    """The encoded part of an utterance so far.

    frames  float32 [t, width] of the layers that stream
    kept    what they need of the audio before, by name
    """

    frames: FloatArray
    kept: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True)
class Contextualised:
    """Frames after the attention layers.

    ctc    float32 [t, n_vocab + 1], log probabilities; the blank is the last
    cross  keys and values for the decoder
    """

    ctc: FloatArray
    cross: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True)
class TextState:
    """The decoder's keys and values [rows, heads, n, size] of texts of `length` tokens."""

    length: int
    past: Mapping[str, FloatArray]

    def rows(self, chosen: IntArray) -> "TextState":
        """Of these rows alone, in this order; one can be there more than once."""
        return TextState(self.length, {name: tensor[chosen] for name, tensor in self.past.items()})

    def cut(self, length: int) -> "TextState":
        """After the first `length` tokens."""
        return TextState(length, {name: tensor[:, :, :length] for name, tensor in self.past.items()})


@dataclass(slots=True)
class LateModel:
    """A network that runs; one thread unless `options` says more."""

    checkpoint: LateCheckpoint
    folder: Path
    options: EngineOptions = field(default_factory=lambda: EngineOptions(threads=1, precision="fp32"))
    _sessions: dict[str, GraphSession] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path = COMMANDS, options: EngineOptions | None = None) -> "LateModel":
        """From a folder; without one, the network of the package.

        Raises `CheckpointError` and its kin, `GraphError` and `DiskSpaceError`.
        """
        checkpoint = load_late(path)
        model = cls(checkpoint, _built(checkpoint))
        return replace(model, options=options) if options else model

    @property
    def dims(self) -> LateDims:
        """The network's shape."""
        return self.checkpoint.dims

    def _run(self, graph: str, outputs: list[str], inputs: Mapping[str, FloatArray | IntArray]) -> list[FloatArray]:
        if graph not in self._sessions:
            self._sessions[graph] = open_session(self.folder / f"{graph}.onnx", self.options)
        return [value.numpy() for value in self._sessions[graph].run(outputs, dict(inputs))]

    # --- while somebody speaks ----------------------------------------------------------------------------------------

    def nothing(self) -> Ingested:
        """Before an utterance."""
        dims = self.dims
        kept = {"mel": np.zeros((1, dims.n_mels, 1), np.float32), "half": np.zeros((1, dims.width, 1), np.float32)}
        gate = np.zeros((1, dims.inner // 2, dims.kernel - 1), np.float32)
        kept |= {f"gate.{number}": gate for number in range(dims.streaming_layers)}
        return Ingested(np.zeros((0, dims.width), np.float32), kept)

    def ingest(self, heard: Ingested, samples: FloatArray, *, ended: bool = False) -> Ingested:
        """With the frames that `samples`, all of the utterance so far (16 kHz, [n]), add to what was heard.

        Frames whose audio is not whole yet wait; when the utterance has `ended`, silence follows it.
        """
        # A mel frame looks half a window ahead; after the end silence will do for that.
        before, edge = len(heard.frames), 0 if ended else N_FFT // 2
        count = -(-len(samples) // SAMPLES_PER_FRAME) if ended else (len(samples) - edge) // SAMPLES_PER_FRAME
        if count <= before:
            return heard
        mel = scaled(raw_columns(samples, self.dims.n_mels, FACTOR * before, FACTOR * (count - before)))
        inputs = {"mel": mel[None]} | {f"{name}_before": value for name, value in heard.kept.items()}
        outputs = self._run(INGEST, ["frames", *(f"{name}_after" for name in heard.kept)], inputs)
        frames = np.concatenate([heard.frames, outputs[0][0]])
        return Ingested(frames, dict(zip(heard.kept, outputs[1:], strict=True)))

    # --- at a pilot, and at the end -----------------------------------------------------------------------------------

    def contextualise(self, heard: Ingested) -> Contextualised:
        """Every frame in the context of all others; there must be one."""
        dims, count = self.dims, len(heard.frames)
        inputs = {"frames": heard.frames[None], "positions": positions(count, dims.width)}
        names = [f"cross_{which}.{number}" for number in range(dims.decoding) for which in "kv"]
        ctc, *cross = self._run(CONTEXT, ["ctc", *names], inputs)
        return Contextualised(ctc[0], dict(zip(names, cross, strict=True)))

    # --- the text -----------------------------------------------------------------------------------------------------

    def start(self) -> TextState:
        """One row without any token."""
        dims = self.dims
        empty = np.zeros((1, dims.heads, 0, dims.width // dims.heads), np.float32)
        return TextState(0, {f"{which}.{number}": empty for number in range(dims.decoding) for which in "kv"})

    def score(self, context: Contextualised, state: TextState, tokens: IntArray) -> tuple[FloatArray, TextState]:
        """Log probabilities [rows, n_vocab] of what follows each row's text and its new token in `tokens` [rows]."""
        scores, longer = self._scored(context, state, tokens[:, None])
        return scores[:, 0], longer

    def read(self, context: Contextualised, tokens: IntArray) -> tuple[FloatArray, TextState]:
        """Log probabilities [rows, n, n_vocab] of what follows each of the `tokens` of texts [rows, n], in one run."""
        return self._scored(context, self.start().rows(np.zeros(len(tokens), np.int64)), tokens)

    def _scored(self, context: Contextualised, state: TextState, tokens: IntArray) -> tuple[FloatArray, TextState]:
        """[rows, new, n_vocab] after rows of new `tokens` [rows, new]."""
        new, length = tokens.shape[1], state.length
        # A new token attends to all of the past, to itself, and to nothing after it.
        mask = np.triu(np.full((new, length + new), _NEVER, np.float32), length + 1)
        place = positions(new, self.dims.width, length)
        inputs: dict[str, FloatArray | IntArray] = {"tokens": tokens, "positions": place, "mask": mask, **context.cross}
        inputs |= {f"past_{name}": tensor for name, tensor in state.past.items()}
        scores, *present = self._run(TEXT, ["scores", *(f"present_{name}" for name in state.past)], inputs)
        return scores, TextState(length + new, dict(zip(state.past, present, strict=True)))


def positions(count: int, width: int, first: int = 0) -> FloatArray:
    """Sinusoids [count, width] of the places from `first` on (Vaswani et al. 2017, 3.5)."""
    angles = np.arange(first, first + count, dtype=np.float32)[:, None] * _slowness(width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


@lru_cache
def _slowness(width: int) -> FloatArray:
    slowness: FloatArray = np.exp(np.arange(0, width, 2, dtype=np.float32) * np.float32(-np.log(10_000.0) / width))
    return slowness


def _built(checkpoint: LateCheckpoint) -> Path:
    """The folder of its graphs in the cache; they are built if they are not there."""
    folder = cache_path("graphs", f"late-{VERSION}-{checkpoint.content_hash[:32]}")

    def is_whole() -> bool:
        return all((folder / f"{name}.onnx").is_file() for name in GRAPHS)

    if not is_whole():
        build_once(folder, is_whole, partial(build, checkpoint))
    return folder
