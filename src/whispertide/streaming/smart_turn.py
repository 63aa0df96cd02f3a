"""Smart Turn v3 (Daily; BSD-2-Clause): the encoder of a small Whisper that says whether a speaker is done.

It hears the last 8 s of a turn as Whisper's log-mel [80, 800], with silence before a shorter one and the whole of it
brought to mean 0 and variance 1 first, as it was trained (pipecat, smart_turn/local_smart_turn_v3.py); its graph has
the sigmoid in it. It was trained on 23 languages, on turns that end in about 0.2 s of silence. Knows nothing of gates.
"""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from whispertide.checkpoint.published_file import SMART_TURN, find_file, require_file
from whispertide.errors import CheckpointError, CheckpointNotFoundError, GraphError
from whispertide.features import log_mel
from whispertide.model.runtime import GraphSession, open_session
from whispertide.options import EngineOptions
from whispertide.types import FloatArray, to_samples

OWN_FILE = "WHISPERTIDE_SMART_TURN"  # the variable with the path of another file of the same shape
_INPUT = "input_features"
_LEAST_VARIANCE = 1e-7


@dataclass(frozen=True, slots=True)
class SmartTurn:
    """The network, which any number of sessions share; `load_smart_turn` opens it."""

    graph: GraphSession
    output: str
    longest: ClassVar[int] = to_samples(8)

    def probability(self, audio: FloatArray) -> float:
        """The probability that nobody speaks on after `audio` [n] at 16 kHz; of more than 8 s the last ones count."""
        (value,) = self.graph.run([self.output], {_INPUT: features(audio)})
        return float(value.numpy().reshape(-1)[0])


def features(audio: FloatArray) -> FloatArray:
    """The input of the network for audio [n] at 16 kHz: log-mel [1, 80, 800] of its last 8 s."""
    longest = SmartTurn.longest
    heard = np.zeros(longest, np.float32)
    last = audio[-longest:]
    heard[longest - len(last) :] = last
    heard = (heard - heard.mean()) / np.sqrt(heard.var() + np.float32(_LEAST_VARIANCE))
    return log_mel(heard.astype(np.float32, copy=False))[np.newaxis]


def find_smart_turn() -> Path | None:
    """Find the file on this machine: the user's own, or the published one; None: there is none."""
    return Path(os.path.expanduser(own)) if (own := os.environ.get(OWN_FILE)) else find_file(SMART_TURN)


def load_smart_turn() -> SmartTurn:
    """Open the network that `find_smart_turn` finds, once per process.

    Raises `CheckpointNotFoundError` where there is none, with what to do, and `CheckpointError` where the file is no
    Smart Turn v3.
    """
    place = find_smart_turn() or require_file(SMART_TURN)
    if not place.is_file():
        raise CheckpointNotFoundError(f"expected a file of Smart Turn v3 at {place} ({OWN_FILE}); nothing is there")
    return _open(place)


@cache
def _open(place: Path) -> SmartTurn:
    try:
        graph = open_session(place, EngineOptions(provider="cpu", threads=1))
    except GraphError as error:
        raise CheckpointError(f"expected a graph of Smart Turn v3; {place} does not load: {error.__cause__}") from error
    inputs, outputs = graph.session.get_inputs(), graph.session.get_outputs()
    if [one.name for one in inputs] != [_INPUT] or inputs[0].shape[1:] != [80, 800] or len(outputs) != 1:
        raise CheckpointError(f"expected a graph of Smart Turn v3, {_INPUT} [1, 80, 800] to one number; got {place}")
    return SmartTurn(graph, outputs[0].name)
