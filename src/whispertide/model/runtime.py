"""ONNX Runtime: a graph is opened and run, an encoder's run, and windows as runtime tensors.

Threads: a session computes with at most `threads` threads, and they never spin. Spinning saves a little on an idle
machine; with another busy program it more than doubles the time of a run (lab/log), and captions run next to other
programs.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np

from whispertide.checkpoint import ModelDims
from whispertide.errors import GraphError
from whispertide.graphs.contract import masked_value
from whispertide.model.engine import Encoded, check_taps
from whispertide.model.providers import PROVIDERS, check_provider, thread_count
from whispertide.options import EngineOptions
from whispertide.types import FloatArray

log = logging.getLogger("whispertide.runtime")

_KEPT_S = 5.0


@dataclass(frozen=True, slots=True)
class _Run:
    """The shape of a run: the outputs that were wanted, and the shape and type of each input."""

    outputs: tuple[str, ...]
    inputs: Mapping[str, tuple[tuple[int, ...], Any]]


class _SpareMemory:
    """Memory that a graph's runs have used and need no more. ONNX Runtime keeps it for later runs, for good.

    So one wide search, or several side by side, would leave a process larger by a hundred megabytes. Once in
    `_KEPT_S` a run gives back what no run uses at that moment, which takes milliseconds. Where none comes any more,
    `give_back_spare` has the `first` one again.
    """

    def __init__(self) -> None:
        import onnxruntime

        self.first: _Run | None = None
        self._options = onnxruntime.RunOptions()
        self._options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self._last = time.monotonic()
        self._next = self._last + _KEPT_S
        self._kept = False

    def run_options(self, outputs: Sequence[str], inputs: Mapping[str, Any]) -> Any:
        """Of a run that gives memory back, when it is time for one; None: of any other."""
        if self.first is None:
            arrays = {name: value.numpy() for name, value in inputs.items()}
            self.first = _Run(tuple(outputs), {name: (array.shape, array.dtype) for name, array in arrays.items()})
        self._last = time.monotonic()
        self._kept = self._last < self._next
        if self._kept:
            return None
        self._next = self._last + _KEPT_S
        return self._options

    def is_due(self) -> bool:
        """True if runs have left something, and there was none for `_KEPT_S`."""
        return self._kept and time.monotonic() >= self._last + _KEPT_S


_with_spare: "list[ref[GraphSession]]" = []  # those of the processor


def spare_graphs() -> "list[GraphSession]":
    """Graphs that keep memory which they have not used for `_KEPT_S`."""
    alive = filter(None, (each() for each in list(_with_spare)))
    return [one for one in alive if one.spare is not None and one.spare.is_due()]


def give_back_spare() -> None:
    """Give back the memory that `spare_graphs` keep, by a run of each. Raises `GraphError`."""
    for graph in spare_graphs():
        graph.run_as_first()


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class GraphSession:
    """One loaded graph: named arrays in, named arrays out. `spare`: None where its memory is not the processor's."""

    session: Any
    path: Path
    spare: _SpareMemory | None = None

    def __post_init__(self) -> None:
        """Be known to `give_back_spare`."""
        if self.spare is not None:
            _with_spare.append(ref(self, _with_spare.remove))

    def run(self, outputs: Sequence[str], inputs: dict[str, Any]) -> list[Any]:
        """Run with numpy arrays or OrtValues as inputs; returns OrtValues.

        Raises `GraphError` with the graph's name when ONNX Runtime refuses.
        """
        import onnxruntime

        values = {
            name: value if isinstance(value, onnxruntime.OrtValue) else onnxruntime.OrtValue.ortvalue_from_numpy(value)
            for name, value in inputs.items()
        }
        options = self.spare.run_options(outputs, values) if self.spare is not None else None
        try:
            # Runtime tensors go in and come out: with `run` every cache would be copied to numpy and back.
            return list(self.session.run_with_ort_values(list(outputs), values, options))
        except Exception as error:  # ONNX Runtime's errors share no base class
            raise GraphError(f"the graph {self.path.name} failed: {error}") from error

    def run_as_first(self) -> None:
        """With zeros, in the shapes of the first run."""
        if self.spare is not None and (first := self.spare.first) is not None:
            self.run(first.outputs, {name: np.zeros(*about) for name, about in first.inputs.items()})


def open_session(
    path: Path,
    options: EngineOptions,
    *,
    provider_options: Mapping[str, str] | None = None,
    entries: Mapping[str, str] | None = None,
) -> GraphSession:
    """Load a graph file for the provider and threads of `options`.

    `provider_options` are those of the chosen provider and `entries` ONNX Runtime's own session configuration, both by
    the names that its documentation gives them.

    Raises `ProviderError` for a missing provider and `GraphError` for a file that does not load.
    """
    import onnxruntime

    provider = check_provider(options)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = thread_count(options)
    # One node after the other: these graphs are chains, with hardly anything to run side by side.
    settings.inter_op_num_threads = 1
    settings.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # Errors alone.
    settings.log_severity_level = 3
    # Spinning threads slow down the other programs, and those slow down the runs (see above).
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for name, value in (entries or {}).items():
        settings.add_session_config_entry(name, value)
    # ONNX Runtime refuses a list with the CPU provider where falling back to it is forbidden
    falls_back = provider != "cpu" and (entries or {}).get("session.disable_cpu_ep_fallback") != "1"
    names = [(PROVIDERS[provider], dict(provider_options or {})), *(["CPUExecutionProvider"] if falls_back else [])]
    try:
        # No fallback: it would say so on standard output, and compute on the CPU whatever was asked for.
        session = onnxruntime.InferenceSession(str(path), settings, providers=names, enable_fallback=0)
    except Exception as error:
        if options.provider == "auto" and provider != "cpu":  # installed, but of no use here
            log.warning("computing on the CPU: %s", error)
            return open_session(path, replace(options, provider="cpu"), entries=entries)
        # Here, too, the errors share no base class.
        raise GraphError(
            f"cannot load the graph {path} ({error}): remove its folder, and it is built again at the next start"
        ) from error
    return GraphSession(session, path, _SpareMemory() if provider == "cpu" else None)


def in_runtime(encoded: Encoded) -> Encoded:
    """The same window for a decoder of ONNX Runtime, whichever engine encoded it; copied only where it must be."""
    import onnxruntime

    def tensor(values: Any) -> Any:
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(values, np.float32))

    if isinstance(encoded.cross_k[0], onnxruntime.OrtValue):
        return encoded
    return replace(encoded, cross_k=tuple(map(tensor, encoded.cross_k)), cross_v=tuple(map(tensor, encoded.cross_v)))


def padding_bias(frames: int, valid: int, precision: str) -> FloatArray | None:
    """The bias [frames, frames] of self-attention that hides the frames from `valid` on; None where there are none."""
    if valid == frames:
        return None
    bias = np.zeros((frames, frames), np.float32)
    bias[:, valid:] = masked_value(precision)
    return bias


def run_encoder(
    graph: GraphSession,
    inputs: dict[str, Any],
    dims: ModelDims,
    *,
    frames: int,
    valid_frames: int,
    taps: Sequence[int] = (),
) -> Encoded:
    """Run an encoder graph over one window; its last layer's output is copied out only where it is asked for.

    Raises `GraphError` for taps of other layers, which the graphs do not give out.
    """
    check_taps(taps, ())
    layers = range(dims.n_text_layer)
    names = [f"cross_{side}.{i}" for side in "kv" for i in layers]
    values = graph.run([*names, "hidden"] if taps else names, inputs)
    count = len(layers)
    return Encoded(
        cross_k=tuple(values[:count]),
        cross_v=tuple(values[count : 2 * count]),
        frames=frames,
        valid_frames=valid_frames,
        taps=dict.fromkeys(taps, values[-1].numpy()[0].astype(np.float32, copy=False)) if taps else {},
    )
