"""The speed of a model on this machine: the encoder, decoder steps and a block pass, timed.

Knows nothing of recipes.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from whispertide.model.engine import DecodeRequest, Encoded
from whispertide.model.providers import choose_provider, thread_count
from whispertide.model.whisper import WhisperModel
from whispertide.recipes.short_windows import Costs
from whispertide.types import N_FRAMES

_REPEATS = 7
BUSY = 2.0  # a spread that only other work on the machine explains
BEAM = 5
BLOCK = 50  # tokens of the block pass that finds word times
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


def measure_speed(model: WhisperModel) -> Speed:
    """Time the encoder for 30 s and 5 s, decoder steps with 1 and 5 rows, and a block of 50 tokens."""
    mel = np.zeros((model.dims.n_mels, N_FRAMES), np.float32)
    short = mel[:, : N_FRAMES // 6]
    encoded = model.encode(short)
    pieces = {
        "encode_30s": _time(lambda: model.encode(mel)),
        "encode_5s": _time(lambda: model.encode(short)),
        "step_1": _time(_feed(model, encoded, rows=1, length=_WARM_CACHE)),
        "step_5": _time(_feed(model, encoded, rows=BEAM, length=_WARM_CACHE)),
        "block_50": _time(lambda: _feed(model, encoded, rows=1, length=BLOCK)),
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


def _feed(model: WhisperModel, encoded: Encoded, *, rows: int, length: int) -> Callable[[], object]:
    """Feed `length` tokens to `rows` rows of a fresh decoder; returns a function that feeds one more to each."""
    decoder = model.decoder(encoded)
    tokens = np.full((rows, length), _FILLER, np.int64)
    # All rows come from the one row of an empty cache.
    decoder.run(DecodeRequest(tokens, logits_at=(length - 1,), parents=(0,) * rows))
    return lambda: decoder.run(DecodeRequest(tokens[:, :1], logits_at=(0,)))
