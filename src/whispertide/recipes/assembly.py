"""Chooses where rounds are computed, and with what (`make_executor`, `Executors`).

`stages.SerialExecutor` runs one after the other on the caller's thread, `pipelined` the two stages of a round on
threads of their own. The plan says how a window is decoded. An executor knows nothing of policies, other rounds or
sessions, so any number of sessions can share it (one call at a time).
"""

from threading import Lock

import numpy as np

from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.truncation import TruncationDetector
from whispertide.methods.pilot.offramp import Hybrid
from whispertide.methods.short.hush import HushWord, suffix_for
from whispertide.model.whisper import WhisperModel
from whispertide.recipes.allocation import Allocation, split_evenly
from whispertide.recipes.recipe import Recipe
from whispertide.streaming.framing import Framing, Hush
from whispertide.streaming.pipelined import PipelinedExecutor
from whispertide.streaming.policy import Executor
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.stages import SerialExecutor

ExecutorKey = tuple[Framing, bool, Hybrid | None]

_MOST = 32  # executors that are kept for further sessions of like settings


class Executors:
    """The executors of one model, each for all sessions of like settings. Any number of threads may ask at once."""

    def __init__(self, model: WhisperModel, hush: HushWord | None) -> None:
        """`hush` as for `make_executor`."""
        self._model = model
        self._hush = hush
        self._opening = Lock()
        self._kept: dict[tuple[ExecutorKey, str, Allocation | None], Executor] = {}

    def get(self, recipe: Recipe, allocation: Allocation | None) -> Executor:
        """The executor of the recipe's rounds. Raises what `make_executor` raises."""
        key = executor_key(recipe), recipe.executor.kind, allocation
        with self._opening:  # what is built for one thread serves the others
            executor = self._kept.pop(key, None)
            if executor is None:
                executor = make_executor(self._model, recipe, hush=self._hush, allocation=allocation)
            self._kept[key] = executor  # the newest is the last
            # A server's clients choose settings; sessions keep their executor, whoever else forgets it.
            if len(self._kept) > _MOST:
                del self._kept[next(iter(self._kept))]
        return executor


def make_executor(
    model: WhisperModel,
    recipe: Recipe,
    hush: HushWord | None = None,
    allocation: Allocation | None = None,
) -> Executor:
    """The executor of `recipe`; recipes of the same `executor_key` may share it.

    A detector, and a `hush` that is None, are loaded from next to the checkpoint where the recipe wants one. Raises
    `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is damaged or a detector another
    model's; `OptionError` where `hush` has another length than the recipe gives.

    `allocation` names where the stages compute (`allocation.allocate` finds it); None: as `model` does, and a pipeline
    shares its threads out evenly. Graphs for other places than the model's are opened now.
    """
    if allocation is None and recipe.executor.overlaps:
        allocation = split_evenly(model.options)
    resources = _resources(model, recipe, hush, allocation)
    if isinstance(recipe.executor, Hybrid):
        from whispertide.methods.pilot.hybrid import hybrid_executor  # with it comes an HTTP client

        return hybrid_executor(SerialExecutor(resources), recipe.executor)
    if allocation is None or allocation.decoder is None:
        return SerialExecutor(resources)
    return PipelinedExecutor(SerialExecutor(resources))


def _resources(
    model: WhisperModel, recipe: Recipe, hush: HushWord | None, allocation: Allocation | None
) -> RoundResources:
    encoder = None
    if allocation is not None:
        encoder, model = _views(model, allocation)
    frame = recipe.framing
    plain = model.checkpoint  # what was learned belongs to it, not to what an adapter makes of it
    encoder, model = (frame.adapted(encoder) if encoder is not None else None), frame.adapted(model)
    suffix = suffix_for(model, frame.hush_s, hush) if isinstance(frame, Hush) else None
    detector = TruncationDetector.of_checkpoint(plain) if _detects(recipe) else None
    return RoundResources(model, frame, suffix, detector, encoder=encoder)


def _views(model: WhisperModel, allocation: Allocation) -> tuple[WhisperModel, WhisperModel]:
    """The model for the encoder's place and for the decoder's; serially that is one."""
    encoder = model.view(allocation.encoder.engine(model.options))
    decoder = encoder if allocation.decoder is None else model.view(allocation.decoder.engine(model.options))
    decoder.decoder(encoder.encode(np.zeros((model.dims.n_mels, 2), np.float32)))  # opens the graphs
    return encoder, decoder


def executor_key(recipe: Recipe) -> ExecutorKey:
    """All of a recipe that an executor depends on."""
    where = recipe.executor
    return recipe.framing, _detects(recipe), where if isinstance(where, Hybrid) else None


def _detects(recipe: Recipe) -> bool:
    return isinstance(recipe.policy, AlignAtt) and recipe.policy.truncate == "detector"
