"""Searches that step together: their windows' keys and values side by side, their caches in one slab.

Who joins has its cache copied once, who stays costs nothing, who leaves is left out. Knows no threads: a cohort runs in
one at a time (`batched`).
"""

import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whispertide.checkpoint.generation import Head
from whispertide.model.decoder import Decoder, DecoderState, KVCache, Rows, SlabRows, one_below_the_other
from whispertide.model.engine import DecodeOutput, DecodeRequest, Encoded
from whispertide.types import FloatArray


# Compared by identity, because members are keys of dictionaries and their caches are arrays.
@dataclass(eq=False)
class Member:
    """A decoder over one window, whose cache is its own or has a place in a slab."""

    decoder: Decoder
    encoded: Encoded
    heads: tuple[Head, ...]
    cache: KVCache | SlabRows

    def run_alone(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens of `request` in a run of their own."""
        # The graph runs over whole rows of a cache, and those of a slab may belong to other searches.
        cache = self.cache.copied() if isinstance(self.cache, SlabRows) else self.cache
        state = DecoderState(self.decoder, self.encoded, self.heads, cache)
        output = state.run(request)
        self.cache = state.cache
        return output


class Cohort:
    """Members whose steps have the same shape; those of the last run have a slot each."""

    def __init__(self, decoder: Decoder, most: int) -> None:
        self._decoder = decoder
        self._most = most
        # Weak: a search that was given up must not live on because its window has a slot.
        self._members: list[weakref.ref[Member]] = []
        self._cross: list[tuple[FloatArray, FloatArray]] = []
        self._bias: FloatArray = np.zeros((0,), np.float32)

    @property
    def present(self) -> list[Member]:
        """Those of the last run who are not gone."""
        return [member for member in (ref() for ref in self._members) if member is not None]

    def run(self, steps: Mapping[Member, DecodeRequest]) -> dict[Member, DecodeOutput]:
        """One step of each, in one run of the graph; what each found."""
        first, request = next(iter(steps.items()))
        # A search by itself needs no slab: nothing has to be copied.
        if len(steps) == 1 and isinstance(first.cache, KVCache):
            self._members = [weakref.ref(first)]
            self._cross = []  # whoever joins next brings both windows
            return {first: first.run_alone(request)}
        members = self._arranged(steps)
        return self._step(members, [steps[member] for member in members])

    # --- windows ------------------------------------------------------------------------------------------------------

    def _arranged(self, wanted: Collection[Member]) -> list[Member]:
        """Give every member a slot, moving as few windows as possible; returns them by slot."""
        # Without windows in place, as after a run alone, everybody has to be placed.
        members: list[Member | None] = [ref() for ref in self._members] if self._cross else []
        slot = 0
        while slot < len(members):
            member = members[slot]
            if member is not None and member in wanted:
                slot += 1
                continue
            # The last window fills the gap: a run takes the first so many slots, without holes.
            last = members.pop()
            if slot < len(members):
                members[slot] = last
                self._move(len(members), slot)
        kept = [member for member in members if member is not None]
        for member in wanted:
            if member not in kept:
                self._place(member.encoded, len(kept))
                kept.append(member)
        self._members = [weakref.ref(member) for member in kept]
        return kept

    def _move(self, source: int, target: int) -> None:
        for keys, values in self._cross:
            keys[target], values[target] = keys[source], values[source]
        self._bias[target] = self._bias[source]

    def _place(self, encoded: Encoded, slot: int) -> None:
        windows = [
            (keys.numpy(), values.numpy()) for keys, values in zip(encoded.cross_k, encoded.cross_v, strict=True)
        ]
        if not self._cross:
            # Room for as many as may ever run together, made once.
            self._cross = [(self._room(keys), self._room(values)) for keys, values in windows]
            self._bias = np.zeros((self._most, 1, 1, encoded.frames), np.float32)
        for (all_keys, all_values), (keys, values) in zip(self._cross, windows, strict=True):
            all_keys[slot], all_values[slot] = keys[0], values[0]
        self._bias[slot] = self._decoder.padding_bias(encoded)[0]

    def _room(self, tensor: FloatArray) -> FloatArray:
        return np.empty((self._most, *tensor.shape[1:]), tensor.dtype)

    # --- steps --------------------------------------------------------------------------------------------------------

    def _step(self, members: list[Member], requests: list[DecodeRequest]) -> dict[Member, DecodeOutput]:
        count, rows = len(members), len(requests[0].tokens)
        places = self._places(members)
        width = len(places[0].columns)
        # One column more, for the token that is fed now.
        bias = np.zeros((count, rows, 1, 1, width + 1), np.float32)
        for group, place in enumerate(places):
            # Columns of the slab that hold nothing of this search are hidden from it.
            bias[group, ..., :width][..., ~place.columns] = self._decoder.masked_value
        parents = [row for pair in zip(requests, places, strict=True) for row in _parents(*pair)]
        fed = Rows(
            tokens=np.concatenate([request.tokens for request in requests]),
            # Not the slab's width: its columns may hold nothing of this search, and they do not count as positions.
            first=np.repeat([place.length for place in places], rows)[:, None],
            self_bias=bias.reshape(count * rows, 1, 1, width + 1),
            cross_bias=self._bias[:count],
            suppress=self._suppression(requests, rows),
            # Only the rows of those who step now: this is also how the rows of others leave the slab.
            cache=places[0].slab.of(parents),
            cross_keys=[keys[:count] for keys, _ in self._cross],
            cross_values=[values[:count] for _, values in self._cross],
        )
        heads = members[0].heads
        found = self._decoder.run(fed, requests[0], heads)
        for group, (member, place) in enumerate(zip(members, places, strict=True)):
            # The token that was fed lies in the last column, however short the search's own cache is.
            member.cache = SlabRows(found.cache, group * rows, rows, np.append(place.columns, True))
        return {
            member: found.output(request, heads, member.encoded, group=group)
            for group, (member, request) in enumerate(zip(members, requests, strict=True))
        }

    def _places(self, members: list[Member]) -> list[SlabRows]:
        """Where each cache lies in the slab they share, or in a new one with each cache flush left."""
        caches = [member.cache for member in members]
        places = [cache for cache in caches if isinstance(cache, SlabRows)]
        if len(places) == len(caches) and all(place.slab is places[0].slab for place in places):
            return places
        width = max(cache.length for cache in caches)
        slab = KVCache(self._stacked(caches, "keys", width), self._stacked(caches, "values", width), width)
        starts = np.cumsum([0, *(cache.rows for cache in caches)])
        return [
            SlabRows(slab, int(start), cache.rows, np.arange(width) < cache.length)
            for start, cache in zip(starts[:-1], caches, strict=True)
        ]

    def _stacked(self, caches: Sequence[KVCache | SlabRows], which: str, width: int) -> tuple[Any, ...]:
        """All caches one below the other, each from its first column on; one tensor a layer."""
        import onnxruntime

        tensors = []
        for layer in range(self._decoder.dims.n_text_layer):
            arrays: dict[int, FloatArray] = {}

            parts = []
            for cache in caches:
                whole = cache.slab if isinstance(cache, SlabRows) else cache
                if id(whole) not in arrays:
                    arrays[id(whole)] = getattr(whole, which)[layer].numpy()  # one for all that share it
                array = arrays[id(whole)]
                parts.append(cache.read(array) if isinstance(cache, SlabRows) else array)
            tensors.append(onnxruntime.OrtValue.ortvalue_from_numpy(one_below_the_other(parts, width)))
        return tuple(tensors)

    def _suppression(self, requests: list[DecodeRequest], rows: int) -> FloatArray:
        first = requests[0].suppress
        if all(request.suppress is first for request in requests) and (first is None or first.ndim == 1):
            return self._decoder.suppression(requests[0])
        spread = [self._decoder.suppression(request) for request in requests]
        return np.concatenate([np.broadcast_to(mask, (rows, *mask.shape[1:])) for mask in spread])


def _parents(request: DecodeRequest, place: SlabRows) -> list[int]:
    own = range(len(request.tokens)) if request.parents is None else request.parents
    return [place.start + row for row in own]
