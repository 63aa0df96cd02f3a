"""Threads and providers: how many the encoder and the decoder get, and what was found best here.

`whispertide profile` measures allocations and keeps them in the cache, in one file per model, precision, recipe and
machine (processor, number of cores); `executor=auto` looks there. Knows no audio and no clock.
"""

import hashlib
import json
import platform
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from whispertide.checkpoint.cache import cache_path, read_note, write_note
from whispertide.errors import OptionError
from whispertide.model.providers import physical_cores, thread_count
from whispertide.model.whisper import WhisperModel
from whispertide.options import EngineOptions, Precision, ProviderName
from whispertide.plural import counted
from whispertide.recipes.recipe import Recipe
from whispertide.streaming.executors import Serial

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Placement:
    """The place where a stage computes. `precision` None: as the model; only an engine without graphs has its own."""

    provider: ProviderName
    threads: int
    precision: Precision | None = None

    def engine(self, options: EngineOptions) -> EngineOptions:
        """`options`, at this place."""
        precision = self.precision or options.precision
        return replace(options, provider=self.provider, threads=self.threads, precision=precision)

    def __str__(self) -> str:
        threads = counted(self.threads, "thread")
        return ", ".join((threads, self.provider, *([self.precision] if self.precision else [])))


@dataclass(frozen=True, slots=True)
class Allocation:
    """The places of encoding and decoding rounds. `decoder` None: there too, one after the other."""

    encoder: Placement
    decoder: Placement | None = None

    @property
    def executor(self) -> str:
        """The executor that it is for."""
        return "serial" if self.decoder is None else "pipelined"


@dataclass(frozen=True, slots=True)
class Measured:
    """The times of rounds with an allocation, in seconds.

    round_s   from the beginning of a round to its result
    period_s  from one result to the next
    """

    allocation: Allocation
    round_s: float
    period_s: float

    @property
    def delay_s(self) -> float:
        """From a moment in the audio to the result that takes it in, under best effort: a wait of half a period, then
        a round.
        """
        return self.period_s / 2 + self.round_s


def split_evenly(options: EngineOptions) -> Allocation:
    """A pipeline of as many threads as `options` mean, at least one for each stage; the encoder gets the odd one."""
    threads = max(2, thread_count(options))
    return Allocation(Placement(options.provider, threads - threads // 2), Placement(options.provider, threads // 2))


def allocate(model: WhisperModel, recipe: Recipe) -> tuple[Recipe, Allocation | None]:
    """The recipe with the executor that it comes down to, and where its stages compute (None: as the model does).

    Warns where `executor=auto` finds that nothing was measured: then rounds are serial.
    """
    if recipe.executor.kind in ("serial", "hybrid"):
        return recipe, None
    known = [item.allocation for item in recall(model, recipe.name)]
    if recipe.executor.overlaps:
        pipelines = [allocation for allocation in known if allocation.decoder is not None]
        return recipe, pipelines[0] if pipelines else split_evenly(model.options)
    if not known:
        warnings.warn(
            f"executor=auto: nothing was measured for {model.name} ({model.options.precision}) with {recipe.name} on "
            "this machine, so rounds run one after the other; "
            f"`whispertide profile {model.checkpoint.argument} --recipe {recipe.name}` measures it",
            stacklevel=2,
        )
        return replace(recipe, executor=Serial()), None
    for allocation in known:
        with suppress(OptionError):  # the recipe was changed since into one that cannot be pipelined
            return recipe.replace(executor=allocation.executor), allocation
    return replace(recipe, executor=Serial()), None


def remember(model: WhisperModel, recipe: str, measured: Sequence[Measured]) -> Path:
    """Keep what was measured with the recipe of that name; returns where. Raises `OSError`."""
    key = _key(model, recipe)
    ranked = [asdict(item) for item in sorted(measured, key=lambda item: item.delay_s)]
    path = _file(key)
    write_note(path, key, {"measured": ranked})
    return path


def recall(model: WhisperModel, recipe: str) -> list[Measured]:
    """The measured allocations, best first; none if this model, precision, recipe and machine were never measured."""
    key = _key(model, recipe)
    kept = read_note(_file(key), key)
    try:
        return [] if kept is None else [_read(item) for item in kept["measured"]]
    except (ValueError, KeyError, TypeError):  # damaged: as good as none
        return []


def _read(item: Any) -> Measured:
    places = item["allocation"]
    decoder = places["decoder"] and Placement(**places["decoder"])
    return Measured(
        Allocation(Placement(**places["encoder"]), decoder), float(item["round_s"]), float(item["period_s"])
    )


def _key(model: WhisperModel, recipe: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "content_hash": model.content_hash,
        "precision": model.options.precision,
        "provider": model.options.provider,
        "recipe": recipe,
        "processor": processor(),
        "cores": physical_cores(),
    }


def _file(key: dict[str, Any]) -> Path:
    return cache_path("profiles", f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.json")


def processor() -> str:
    """The processor's name, as far as the system tells."""
    with suppress(OSError):
        if found := re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
            return found[1].strip()
    # On Linux `platform.processor` says little or nothing.
    return platform.processor() or platform.machine()
