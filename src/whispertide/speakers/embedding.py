"""The network that turns a stretch of speech into a vector: near for one voice, far for two.

Ours is CAM++ of 3D-Speaker (Apache-2.0), whose graph is built here from its published weights. `WHISPERTIDE_SPEAKERS`
names another: an ONNX file as WeSpeaker exports them, filter banks [batch, frames, 80] -> vectors [batch, n].
Knows nothing of streams and of who speaks.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Protocol

import numpy as np

from whispertide.checkpoint.cache import cache_path, file_digest
from whispertide.checkpoint.published_file import CAMPPLUS, find_file, require_file
from whispertide.checkpoint.torch_zip import TorchTensor, TorchZip
from whispertide.errors import CheckpointError, CheckpointNotFoundError, GraphError
from whispertide.graphs import campplus
from whispertide.graphs.store import build_once
from whispertide.model.runtime import GraphSession, open_session
from whispertide.options import EngineOptions
from whispertide.speakers.features import BANDS, Window, filter_banks
from whispertide.types import FloatArray

OWN_FILE = "WHISPERTIDE_SPEAKERS"  # the variable with the path of another network
_VERSION = 1  # raise when the graph changes


class VoiceEmbedding(Protocol):
    """Hears whose voice it is. One object serves any number of streams and threads, and has no state."""

    def vector(self, audio: FloatArray) -> FloatArray:
        """A vector of length 1 for audio [n] at 16 kHz, n from 400 to 32,000.

        Raises `GraphError` where it cannot be computed.
        """


@dataclass(frozen=True, slots=True)
class NetworkEmbedding:
    """A graph and the names of its ends. `window` is that of the filter banks."""

    graph: GraphSession
    input: str
    output: str
    window: Window

    def vector(self, audio: FloatArray) -> FloatArray:
        """See `VoiceEmbedding`."""
        features = filter_banks(audio, self.window)[np.newaxis]
        (value,) = self.graph.run([self.output], {self.input: features})
        vector: FloatArray = value.numpy().reshape(-1).astype(np.float32, copy=False)
        length = float(np.linalg.norm(vector))
        if not length > 0 or not np.isfinite(length):
            raise GraphError(f"the graph {self.graph.path.name} gave no vector for {len(audio)} samples")
        return vector / np.float32(length)


def find_network() -> Path | None:
    """Find the network on this machine: the user's own, or the published one; None: there is none."""
    return Path(os.path.expanduser(own)) if (own := os.environ.get(OWN_FILE)) else find_file(CAMPPLUS)


@dataclass(frozen=True, slots=True)
class _OpenedLater:
    """The network at a place, opened for the first stretch that it hears: where that is, nobody waits.

    Hearing raises `CheckpointError` where the file is no such network, and `GraphError` or `DiskSpaceError` where its
    graph cannot be kept.
    """

    place: Path

    def vector(self, audio: FloatArray) -> FloatArray:
        """See `VoiceEmbedding`."""
        return _open(self.place).vector(audio)


def find_embedding() -> VoiceEmbedding:
    """The network of `find_network`, which is opened when it first hears something.

    Raises `CheckpointNotFoundError` where there is none, with what to do.
    """
    place = find_network() or require_file(CAMPPLUS)
    if not place.is_file():
        raise CheckpointNotFoundError(
            f"expected a network that tells voices apart at {place} ({OWN_FILE}); nothing is there"
        )
    return _OpenedLater(place)


@cache
def _open(place: Path) -> NetworkEmbedding:
    """Open the network, once per process; the published one's graph is built at first use."""
    own = bool(os.environ.get(OWN_FILE))
    path = place if own and place.suffix == ".onnx" else _graph_of(place)
    try:
        graph = open_session(path, EngineOptions(provider="cpu", threads=1))
    except GraphError as error:
        raise CheckpointError(
            f"expected a network that tells voices apart; {path} does not load: {error.__cause__}"
        ) from error
    inputs, outputs = graph.session.get_inputs(), graph.session.get_outputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 3 or inputs[0].shape[2] != BANDS or not outputs:
        raise CheckpointError(f"expected a network from filter banks [batch, frames, {BANDS}] to a vector; got {place}")
    return NetworkEmbedding(graph, inputs[0].name, outputs[0].name, "povey" if path != place else "hamming")


def _graph_of(place: Path) -> Path:
    """The graph of CAM++ for the weights at `place`, built now if it is not there yet."""
    path = cache_path("graphs", f"{file_digest(place)[:20]}-{campplus.NAME}-v{_VERSION}", f"{campplus.NAME}.onnx")
    build: Callable[[Path], None] = partial(_build, place)
    build_once(path.parent, path.is_file, build)
    return path


def _build(place: Path, folder: Path) -> None:
    """Read the weights of CAM++, without running any of their file, and write its graph."""
    file = TorchZip(place)
    entries = file.root.items() if isinstance(file.root, dict) else ()
    # counters of training are whole numbers, and of no use
    named = [(name, tensor) for name, tensor in entries if isinstance(tensor, TorchTensor)]
    tensors = {str(name): file.read(tensor) for name, tensor in named if tensor.storage.kind == "FloatStorage"}
    try:
        campplus.build(tensors, folder)
    except KeyError as error:
        raise CheckpointError(f"expected the weights of CAM++; {place} has no tensor {error}") from error
