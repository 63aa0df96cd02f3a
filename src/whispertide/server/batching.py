"""Decoder steps of several sessions in one graph run.

Rounds run in threads of their own and are written as if each had the model to itself; a `BatchedModel` gives them
decoders that wait for each other. A step of one token is the same work for every session and is bound by reading the
weights, so steps that wait at the same time run as rows of one run (`graphs.decoder`: groups of rows, one per window).
Everything else (prompts, alignment, the encoder) fills the machine alone and is only counted, so that no more than
`lanes` graphs run at once.

    Slab      the cache of all rows of one run; each session knows its `Place` in it (`slab`)
    Cohort    sessions that step together, with their windows' keys and values side by side

Whoever comes last leads: it runs the step for all. A session that joins has its cache copied once, one that stays costs
nothing, one that leaves is left out. In fp32 every row is computed as if alone, up to rounding; in int8 the rows of a
run share the scale of their activations (`graphs.quantize`), so results may differ in near-ties.
"""

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from whispertide.api import Transcriber
from whispertide.errors import GraphError
from whispertide.model.cache import KVCache
from whispertide.model.decoder import Decoder, DecoderState
from whispertide.model.encoder import Encoded
from whispertide.model.request import DecodeOutput, DecodeRequest, Head
from whispertide.model.whisper import SharedModel, WhisperModel
from whispertide.server.slab import Place, Slab, one_below_the_other
from whispertide.types import FloatArray

_PATIENCE_S = 0.003  # for a session that stepped along last time and is on its way again
_TOP = ("top_ids", "top_logprobs")
_NAMES = {"top": _TOP, "times": (*_TOP, "time_ids", "time_logprobs", "time_mass")}


class BatchedState:
    """A decoder over one window, like `model.decoder.DecoderState`, that steps along with others."""

    def __init__(self, batcher: "Batcher", decoder: Decoder, encoded: Encoded, heads: tuple[Head, ...]) -> None:
        self.encoded = encoded
        self.heads = heads
        self.place: Place | None = None
        self._batcher = batcher
        self._decoder = decoder
        self._alone: DecoderState | None = decoder.start(encoded, heads)

    @property
    def length(self) -> int:
        """Positions in the cache."""
        if self.place is not None:
            return self.place.length
        assert self._alone is not None
        return self._alone.length

    def fork(self) -> Self:
        """A state that goes its own way from here; nothing is copied."""
        fork = type(self)(self._batcher, self._decoder, self.encoded, self.heads)
        fork.place = self.place
        fork._alone = self._alone.fork() if self._alone is not None else None
        return fork

    def rewind(self, drop: int) -> None:
        """Forget the newest `drop` positions of every row."""
        if self.place is not None:
            self.place = self.place.rewound(drop)
        elif self._alone is not None:
            self._alone.rewind(drop)

    def run(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens of `request` behind the cache, with those of others if they are of the same kind."""
        if request.tokens.shape[1] == 1 and request.need in _NAMES and self.length:
            return self._batcher.step(self, request)
        return self.run_alone(request)

    def run_alone(self, request: DecodeRequest) -> DecodeOutput:
        """Feed them in a run of their own."""
        with self._batcher.lane:
            return self.alone().run(request)

    def alone(self) -> DecoderState:
        """The same decoder with a cache of its own."""
        if self._alone is None:
            import onnxruntime

            place = self.place
            assert place is not None

            def own(tensors: Sequence[Any]) -> tuple[Any, ...]:
                parts = (np.ascontiguousarray(place.read(tensor.numpy())) for tensor in tensors)
                return tuple(onnxruntime.OrtValue.ortvalue_from_numpy(part) for part in parts)

            cache = KVCache(own(place.slab.keys), own(place.slab.values), place.length)
            self._alone = DecoderState(self._decoder, self.encoded, self.heads, cache)
            self.place = None
        return self._alone

    def settle(self, place: Place) -> None:
        """From now on the cache is part of a slab."""
        self.place, self._alone = place, None

    def cached(self, which: str, layer: int, array: Callable[[Any], FloatArray]) -> FloatArray:
        """Its "keys" or "values" of one layer, [rows, heads, length, 64]; `array` gives a tensor's content."""
        if self.place is not None:
            return self.place.read(array(getattr(self.place.slab, which)[layer]))
        assert self._alone is not None
        return array(getattr(self._alone.cache, which)[layer])

    @property
    def cached_rows(self) -> int:
        """Rows in the cache."""
        if self.place is not None:
            return self.place.rows
        assert self._alone is not None
        return int(self._alone.cache.keys[0].shape()[0])


@dataclass(slots=True, eq=False)
class _Job:
    """A step that waits for its run."""

    state: BatchedState
    request: DecodeRequest
    since: float
    output: DecodeOutput | None = None
    error: BaseException | None = None
    taken: bool = False
    done: bool = False


class Batcher:
    """Lets steps that wait run together: at most `most` sessions in one run, at most `lanes` runs at once."""

    def __init__(self, decoder: Decoder, *, most: int, lanes: int) -> None:
        self.decoder = decoder
        self.lane = threading.Semaphore(lanes)
        self.runs = 0
        self.steps = 0
        self._most = most
        self._changed = threading.Condition()
        self._cohorts: dict[tuple[Any, ...], _Cohort] = {}

    def step(self, state: BatchedState, request: DecodeRequest) -> DecodeOutput:
        """Run one step; returns when it is done. Raises `GraphError` if its run fails."""
        if state.length + 1 > self.decoder.dims.n_text_ctx:
            raise GraphError(f"expected at most {self.decoder.dims.n_text_ctx} tokens of text context; got one more")
        key = (len(request.tokens), request.need, request.logits_at, state.heads, state.encoded.frames)
        job = _Job(state, request, time.monotonic())
        with self._changed:
            cohort = self._cohorts.setdefault(key, _Cohort(self, self._most))
            cohort.waiting.append(job)
            self._changed.notify_all()
        while not job.done:
            with self._changed:
                while not job.done and (job.taken or not cohort.ready()):
                    self._changed.wait(None if job.taken or cohort.running else _PATIENCE_S)
                jobs = [] if job.done else cohort.take()
            if jobs:  # not always with our own among them: there may be more than fit into one run
                self._run(cohort, jobs)
        if job.error is not None:
            raise job.error
        assert job.output is not None
        return job.output

    def _run(self, cohort: "_Cohort", jobs: "list[_Job]") -> None:
        try:
            with self.lane:
                cohort.run(jobs)
        except BaseException as error:
            for job in jobs:
                job.error = error if isinstance(error, GraphError) else GraphError(f"a step failed: {error}")
        with self._changed:
            self.runs += 1
            self.steps += len(jobs)
            for job in jobs:
                job.done = True
            cohort.running = False
            self._changed.notify_all()


class _Cohort:
    """Sessions whose steps have the same shape. `members` are those of the last run, by slot."""

    def __init__(self, batcher: Batcher, most: int) -> None:
        self.waiting: list[_Job] = []
        self.running = False
        self._batcher = batcher
        self._most = most
        self._members: list[weakref.ref[BatchedState]] = []
        self._cross: list[tuple[FloatArray, FloatArray]] = []
        self._bias: FloatArray = np.zeros((0,), np.float32)

    # --- under the batcher's lock ------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether a run can start: everybody of the last one is here again, gone, or too slow."""
        if self.running or not self.waiting:
            return False
        if len(self.waiting) >= self._most or time.monotonic() - self.waiting[0].since > _PATIENCE_S:
            return True
        here = {id(job.state) for job in self.waiting}
        return all(id(member) in here for member in self._present())

    def take(self) -> list[_Job]:
        """The jobs of the next run; members of the last one first, because their windows are in place."""
        members = {id(member) for member in self._present()}
        self.waiting.sort(key=lambda job: (id(job.state) not in members, job.since))
        jobs, self.waiting = self.waiting[: self._most], self.waiting[self._most :]
        for job in jobs:
            job.taken = True
        self.running = bool(jobs)
        return jobs

    def _present(self) -> list[BatchedState]:
        return [member for member in (ref() for ref in self._members) if member is not None]

    # --- by one thread at a time -------------------------------------------------------------------------------------

    def run(self, jobs: list[_Job]) -> None:
        """Run the jobs' steps and put the outputs into them."""
        if len(jobs) == 1 and jobs[0].state.place is None:
            self._members = [weakref.ref(jobs[0].state)]
            self._cross = []  # whoever joins next brings both windows
            jobs[0].output = jobs[0].state.alone().run(jobs[0].request)
            return
        by_state = {id(job.state): job for job in jobs}
        order = [by_state[id(state)] for state in self._arranged([job.state for job in jobs])]
        values = self._computed(order)
        self._hand_out(order, values)

    def _arranged(self, states: list[BatchedState]) -> list[BatchedState]:
        """Give every state a slot, moving as few windows as possible; returns them by slot."""
        members: list[BatchedState | None] = [ref() for ref in self._members] if self._cross else []
        wanted = {id(state) for state in states}
        slot = 0
        while slot < len(members):
            member = members[slot]
            if member is not None and id(member) in wanted:
                slot += 1
                continue
            last = members.pop()
            if slot < len(members):
                members[slot] = last
                self._move(len(members), slot)
        kept = [member for member in members if member is not None]
        here = {id(member) for member in kept}
        for state in states:
            if id(state) not in here:
                self._place(state, len(kept))
                kept.append(state)
        self._members = [weakref.ref(state) for state in kept]
        return kept

    def _move(self, source: int, target: int) -> None:
        for keys, values in self._cross:
            keys[target], values[target] = keys[source], values[source]
        self._bias[target] = self._bias[source]

    def _place(self, state: BatchedState, slot: int) -> None:
        encoded = state.encoded
        windows = [
            (keys.numpy(), values.numpy()) for keys, values in zip(encoded.cross_k, encoded.cross_v, strict=True)
        ]
        if not self._cross:
            self._cross = [
                (
                    np.empty((self._most, *keys.shape[1:]), keys.dtype),
                    np.empty((self._most, *values.shape[1:]), values.dtype),
                )
                for keys, values in windows
            ]
            self._bias = np.zeros((self._most, 1, 1, encoded.frames), np.float32)
        for (all_keys, all_values), (keys, values) in zip(self._cross, windows, strict=True):
            all_keys[slot], all_values[slot] = keys[0], values[0]
        self._bias[slot] = 0
        self._bias[slot, ..., encoded.valid_frames :] = self._batcher.decoder.masked_value

    def _computed(self, jobs: list[_Job]) -> dict[str, Any]:
        decoder = self._batcher.decoder
        layers = range(decoder.dims.n_text_layer)
        need, heads = jobs[0].request.need, jobs[0].state.heads
        names = [
            *_NAMES[need],
            *(f"present_k.{i}" for i in layers),
            *(f"present_v.{i}" for i in layers),
            *(f"cross_attention.{i}" for i in sorted({layer for layer, _ in heads})),
        ]
        return dict(zip(names, decoder.graph.run(names, self._inputs(jobs)), strict=True))

    def _inputs(self, jobs: list[_Job]) -> dict[str, Any]:
        decoder, count = self._batcher.decoder, len(jobs)
        rows = len(jobs[0].request.tokens)
        past, places = self._past([job.state for job in jobs])
        parents = np.concatenate([_parents(job.request, place) for job, place in zip(jobs, places, strict=True)])
        width = len(places[0].columns)
        bias = np.zeros((count, rows, 1, 1, width + 1), np.float32)
        for group, place in enumerate(places):
            bias[group, ..., :width][..., ~place.columns] = decoder.masked_value
        lengths = np.repeat([job.state.length for job in jobs], rows)
        wanted = np.array(jobs[0].request.logits_at, np.int64)[None, :, None]
        inputs: dict[str, Any] = {
            "ids": np.concatenate([job.request.tokens for job in jobs]).astype(np.int64),
            "positions": lengths[:, None].astype(np.int64),
            "parents": parents.astype(np.int64),
            "self_bias": bias.reshape(count * rows, 1, 1, width + 1),
            "cross_bias": self._bias[:count],
            "logits_at": np.tile(wanted, (count * rows, 1, 1)),
            "suppress": self._suppress(jobs, rows),
        }
        for i, (keys, values) in enumerate(self._cross):
            inputs[f"past_k.{i}"], inputs[f"past_v.{i}"] = past.keys[i], past.values[i]
            inputs[f"cross_k.{i}"], inputs[f"cross_v.{i}"] = keys[:count], values[:count]
        for job, place in zip(jobs, places, strict=True):
            job.state.settle(place)
        return inputs

    def _past(self, states: list[BatchedState]) -> tuple[Slab, list[Place]]:
        """One slab that has all caches: the one they share, or a new one with each cache flush left."""
        places = [state.place for state in states]
        shared = places[0].slab if places[0] is not None else None
        if shared is not None and all(place is not None and place.slab is shared for place in places):
            return shared, [place for place in places if place is not None]
        width = max(state.length for state in states)
        slab = Slab(*(self._stacked(states, which, width) for which in ("keys", "values")))
        starts = np.cumsum([0, *(state.cached_rows for state in states)])
        return slab, [
            Place(slab, int(start), state.cached_rows, np.arange(width) < state.length)
            for start, state in zip(starts[:-1], states, strict=True)
        ]

    def _stacked(self, states: list[BatchedState], which: str, width: int) -> tuple[Any, ...]:
        """All caches one below the other, each from its first column on; one tensor a layer."""
        tensors = []
        for layer in range(self._batcher.decoder.dims.n_text_layer):
            arrays: dict[int, FloatArray] = {}

            def array(tensor: Any, arrays: dict[int, FloatArray] = arrays) -> FloatArray:
                if id(tensor) not in arrays:
                    arrays[id(tensor)] = tensor.numpy()  # a copy, so one for all that share it
                return arrays[id(tensor)]

            tensors.append(one_below_the_other([state.cached(which, layer, array) for state in states], width))
        return tuple(tensors)

    def _suppress(self, jobs: list[_Job], rows: int) -> FloatArray:
        masks = [job.request.suppress for job in jobs]
        first = masks[0]
        if all(mask is first for mask in masks) and (first is None or first.ndim == 1):
            return self._batcher.decoder.no_suppression if first is None else first[None, None].astype(np.float32)
        nothing = self._batcher.decoder.no_suppression[0]
        spread = [np.broadcast_to(nothing if mask is None else mask, (rows, nothing.shape[-1])) for mask in masks]
        return np.ascontiguousarray(np.concatenate(spread)[:, None], np.float32)

    def _hand_out(self, jobs: list[_Job], values: dict[str, Any]) -> None:
        layers = range(self._batcher.decoder.dims.n_text_layer)
        slab = Slab(tuple(values[f"present_k.{i}"] for i in layers), tuple(values[f"present_v.{i}"] for i in layers))
        rows = len(jobs[0].request.tokens)
        named = {name: values[name].numpy() for name in _NAMES[jobs[0].request.need]}
        attention = {layer: values[f"cross_attention.{layer}"].numpy() for layer, _ in jobs[0].state.heads}
        for group, job in enumerate(jobs):
            state, mine = job.state, slice(group * rows, (group + 1) * rows)
            assert state.place is not None
            state.settle(Place(slab, group * rows, rows, np.append(state.place.columns, True)))
            wanted = {name: value[mine] for name, value in named.items()}
            if "time_mass" in wanted:
                wanted["time_mass"] = wanted["time_mass"][..., 0]
            seen = None
            if state.heads:
                chosen = np.stack([attention[layer][group, head] for layer, head in state.heads])
                seen = chosen.reshape(len(state.heads), rows, 1, -1)[..., : state.encoded.valid_frames]
            job.output = DecodeOutput(**wanted, attention=seen)


def _parents(request: DecodeRequest, place: Place) -> npt.NDArray[Any]:
    own = np.arange(len(request.tokens)) if request.parents is None else np.array(request.parents)
    return own + place.start


class BatchedModel(SharedModel):
    """A model whose decoders step together and whose graph runs take turns; otherwise the model it is made of."""

    def __init__(self, model: WhisperModel, *, most: int, lanes: int) -> None:
        super().__init__(model)
        self.batcher = Batcher(model.decoder_graph, most=most, lanes=lanes)

    def encode(self, mel: FloatArray, **settings: Any) -> Encoded:
        """Encode log-mel [n_mels, 2 * frames] when there is a free lane; see `WhisperModel.encode`."""
        with self.batcher.lane:
            return super().encode(mel, **settings)

    def decoder(self, encoded: Encoded, *, heads: Sequence[Head] = ()) -> BatchedState:
        """A fresh decoder over `encoded` that also returns the cross-attention of `heads`."""
        return BatchedState(self.batcher, self.decoder_graph, encoded, tuple(heads))


def batched(transcriber: Transcriber, *, most: int, lanes: int) -> Transcriber:
    """A transcriber whose sessions step together."""
    model = BatchedModel(transcriber.model, most=most, lanes=lanes)
    return Transcriber(model, hush=transcriber.hush, measure=lambda _: transcriber.encode_s)
