"""Decoder steps of several searches in one graph run.

Rounds run in threads of their own and are written as if each had the model to itself; a `BatchedEngine` gives them
decoders that wait for each other. A step of one token is the same work for every search and is bound by reading the
weights, so steps that wait at the same time run as rows of one run (`cohort`, and `graphs.decoder`: groups of rows, one
per window). Everything else (prompts, alignment, the encoder) fills the machine alone and is only counted, so that no
more than `lanes` graphs run at once.

Whoever comes last leads: it runs the step for all. In fp32 every row is computed as if alone, up to rounding; in int8
the rows of a run share the scale of their activations (`graphs.quantize`), so results may differ in near-ties.
"""

import threading
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.generation import Head
from whispertide.errors import GraphError
from whispertide.model.cohort import Cohort, Member
from whispertide.model.decoder import Decoder
from whispertide.model.engine import DecodeOutput, DecodeRequest, Encoded, Engine, check_context
from whispertide.model.onnx_engine import of_onnx_runtime
from whispertide.model.runtime import in_runtime
from whispertide.types import FloatArray

_PATIENCE_S = 0.003  # for a search that stepped along last time and is on its way again


@dataclass(slots=True, eq=False)
class _Job:
    """A step that waits for its run."""

    member: Member
    request: DecodeRequest
    since: float
    output: DecodeOutput | None = None
    error: BaseException | None = None
    taken: bool = False
    done: bool = False


@dataclass(slots=True)
class _Queue:
    """The steps of one shape that wait, and the cohort that runs them."""

    cohort: Cohort
    most: int
    waiting: list[_Job] = field(default_factory=list)
    running: bool = False
    free_since: float = 0.0

    @property
    def is_used(self) -> bool:
        """Whether anybody waits, runs, or may come back."""
        return self.running or bool(self.waiting) or bool(self.cohort.present)

    def ready(self) -> bool:
        """Whether a run can start: everybody of the last one is here again, gone, or too slow."""
        if self.running or not self.waiting:
            return False
        # Whoever came during a run waits for those in it too, or two searches would take turns for ever.
        waits_since = max(self.waiting[0].since, self.free_since)
        if len(self.waiting) >= self.most or time.monotonic() > waits_since + _PATIENCE_S:
            return True
        return {*self.cohort.present} <= {job.member for job in self.waiting}

    def take(self) -> list[_Job]:
        """The jobs of the next run; members of the last one first, because their windows are in place."""
        members = {*self.cohort.present}
        self.waiting.sort(key=lambda job: (job.member not in members, job.since))
        jobs, self.waiting = self.waiting[: self.most], self.waiting[self.most :]
        for job in jobs:
            job.taken = True
        self.running = bool(jobs)
        return jobs


class Batcher:
    """Lets steps that wait run together: at most `most` searches in one run, at most `lanes` runs at once."""

    def __init__(self, decoder: Decoder, *, most: int, lanes: int) -> None:
        self.decoder = decoder
        self.lane = threading.Semaphore(lanes)
        self.runs = 0
        self.steps = 0
        self._most = most
        self._changed = threading.Condition()
        self._queues: dict[tuple[Any, ...], _Queue] = {}

    def step(self, member: Member, request: DecodeRequest) -> DecodeOutput:
        """Run one step; returns when it is done. Raises `GraphError` if its run fails."""
        # Before it joins a run, or its error would be that of all others in it.
        check_context(member.cache.length, 1, self.decoder.dims)
        wanted = (request.need, request.hidden, request.logits_at, member.heads)
        # What one run computes must have one shape: as many rows, the same outputs and heads, windows of one length.
        key = (len(request.tokens), *wanted, member.encoded.frames)
        job = _Job(member, request, time.monotonic())
        with self._changed:
            # A cohort keeps room for as many windows as may run together, also when nobody has such windows any more.
            if key not in self._queues:
                self._queues = {shape: queue for shape, queue in self._queues.items() if queue.is_used}
            queue = self._queues.setdefault(key, _Queue(Cohort(self.decoder, self._most), self._most))
            queue.waiting.append(job)
            # The run that the others wait for may be complete now.
            self._changed.notify_all()
        # Read without the lock: it turns true only once, after the output or the error is in place.
        while not job.done:
            with self._changed:
                while not job.done and (job.taken or not queue.ready()):
                    # A run that ends wakes whoever waits; the end of the patience wakes nobody.
                    self._changed.wait(None if job.taken or queue.running else _PATIENCE_S)
                # Another thread may have run it together with its own while this one waited.
                jobs = [] if job.done else queue.take()
            if jobs:  # not always with our own among them: there may be more than fit into one run
                self._run(queue, jobs)
        if job.error is not None:
            raise job.error
        assert job.output is not None
        return job.output

    def _run(self, queue: _Queue, jobs: list[_Job]) -> None:
        try:
            with self.lane:
                outputs = queue.cohort.run({job.member: job.request for job in jobs})
            for job in jobs:
                job.output = outputs[job.member]
        # Also an interrupt: the threads of the other jobs would wait for ever.
        except BaseException as error:
            for job in jobs:
                job.error = error if isinstance(error, GraphError) else GraphError(f"a step failed: {error}")
        with self._changed:
            self.runs += 1
            self.steps += len(jobs)
            for job in jobs:
                job.done = True
            queue.running = False
            queue.free_since = time.monotonic()
            self._changed.notify_all()


class BatchedEngine:
    """An engine whose decoders step together and whose graph runs take turns; otherwise the one it is made of.

    Raises `ProviderError` for any but ONNX Runtime's.
    """

    def __init__(self, engine: Engine, *, most: int, lanes: int) -> None:
        self.options = engine.options
        self._engine = of_onnx_runtime(engine)
        self.batcher = Batcher(self._engine.decoder, most=most, lanes=lanes)

    def hearing(self, checkpoint: Checkpoint) -> "BatchedEngine":
        """The same with the encoder of `checkpoint`: whichever encoder their windows had, searches step together."""
        other = copy(self)
        other._engine = self._engine.hearing(checkpoint)
        return other

    def encode(self, mel: FloatArray, **settings: Any) -> Encoded:
        """Encode a window when there is a free lane."""
        with self.batcher.lane:
            return self._engine.encode(mel, **settings)

    def start(self, encoded: Encoded, heads: Sequence[Head] = ()) -> "BatchedRun":
        """A fresh decoder over `encoded` that also returns the cross-attention of `heads`."""
        # Of the decoder only its empty cache: the steps go through the batcher.
        cache = self._engine.start(encoded, heads).cache
        return BatchedRun(self.batcher, Member(self.batcher.decoder, in_runtime(encoded), tuple(heads), cache))


class BatchedRun:
    """A decoder over one window that steps along with others. Implements `engine.DecoderRun`."""

    def __init__(self, batcher: Batcher, member: Member) -> None:
        self._batcher = batcher
        self._member = member

    @property
    def length(self) -> int:
        """Positions in the cache."""
        return self._member.cache.length

    def hear(self, encoded: Encoded) -> None:
        """Attend to `encoded` from now on; the cache stays. To the others that is one who leaves and one who joins."""
        self._member = replace(self._member, encoded=in_runtime(encoded))

    def rewind(self, drop: int, keep: Sequence[int] = ()) -> None:
        """Forget the newest `drop` positions of every row, but those at the places `keep` among them."""
        self._member.cache = self._member.cache.rewound(self.length - drop, keep)

    def run(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens of `request` after the cache, with those of others if they are of the same kind."""
        # Only steps of a token gain by company: they are bound by reading the weights.
        if request.tokens.shape[1] == 1 and request.need != "logits" and self.length:
            return self._batcher.step(self._member, request)
        with self._batcher.lane:
            return self._member.run_alone(request)
