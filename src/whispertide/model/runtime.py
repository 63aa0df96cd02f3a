"""Execution providers and ONNX Runtime sessions. Knows nothing of Whisper.

Threads: a session computes with at most `threads` threads, and they never spin. Spinning saves a little on an idle
machine; with another busy program it more than doubles the time of a run (docs/LOG.md), and captions run next to other
programs.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whispertide.errors import GraphError, ProviderError
from whispertide.model.installed import OTHER_ENGINES, check_installed
from whispertide.options import EngineOptions, ProviderName

_MOST_AUTOMATIC_THREADS = 4  # beyond this, streaming windows are too short to gain

# In the order in which `auto` prefers them; what an accelerator cannot run falls back to the CPU provider.
_PROVIDERS: dict[str, str] = {
    "cuda": "CUDAExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "directml": "DmlExecutionProvider",
    "qnn": "QNNExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "cpu": "CPUExecutionProvider",
}
_AUTOMATIC = ("cuda", "cpu")  # those whose results are the same to rounding and that need no further options
_PACKAGES = {
    "cuda": "onnxruntime-gpu",
    "coreml": "onnxruntime (macOS)",
    "directml": "onnxruntime-directml (Windows)",
    "qnn": "onnxruntime-qnn",
    "openvino": "onnxruntime-openvino",
}


def available_providers() -> list[str]:
    """Our names of the execution providers that the installed ONNX Runtime has."""
    import onnxruntime

    installed = set(onnxruntime.get_available_providers())
    return [name for name, full in _PROVIDERS.items() if full in installed]


def choose_provider(wanted: ProviderName) -> str:
    """Resolve `auto`; raise `ProviderError` where the wanted provider, or engine, is not installed."""
    if wanted in OTHER_ENGINES:
        check_installed(wanted)
        return wanted
    available = available_providers()
    if wanted == "auto":
        return next(name for name in _AUTOMATIC if name in available)
    if wanted not in available:
        raise ProviderError(
            f"expected an execution provider of this machine ({', '.join(available)}); got {wanted!r}: "
            f"install the package {_PACKAGES.get(wanted, 'onnxruntime')} in place of onnxruntime"
        )
    return wanted


def usable_cpus() -> list[int]:
    """The numbers of the logical processors that this process may use, hyper-threads included."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def physical_cores() -> int:
    """Cores this process may use, not counting hyper-threads where the system tells them apart."""
    siblings = set()
    for cpu in usable_cpus():
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            siblings.add(topology.read_text())
        except OSError:
            siblings.add(str(cpu))
    return len(siblings)


def thread_count(options: EngineOptions) -> int:
    """The number of threads that `options` means."""
    return options.threads or min(_MOST_AUTOMATIC_THREADS, physical_cores())


@dataclass(frozen=True, slots=True)
class GraphSession:
    """One loaded graph: named arrays in, named arrays out."""

    session: Any
    path: Path

    def run(self, outputs: Sequence[str], inputs: dict[str, Any]) -> list[Any]:
        """Run with numpy arrays or OrtValues as inputs; returns OrtValues.

        Raises `GraphError` with the graph's name when ONNX Runtime refuses.
        """
        import onnxruntime

        values = {
            name: value if isinstance(value, onnxruntime.OrtValue) else onnxruntime.OrtValue.ortvalue_from_numpy(value)
            for name, value in inputs.items()
        }
        try:
            return list(self.session.run_with_ort_values(list(outputs), values))
        except Exception as error:  # ONNX Runtime's errors share no base class
            raise GraphError(f"the graph {self.path.name} failed: {error}") from error


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

    provider = choose_provider(options.provider)
    if provider in OTHER_ENGINES:
        raise ProviderError(
            f"expected a provider of ONNX Runtime for {path.name}; got {provider!r}, which has no graphs"
        )
    if options.precision == "fp16" and provider == "cpu":
        raise ProviderError(
            "fp16 needs an accelerator: the CPU provider computes it in fp32; use fp32, int8-weights or int8"
        )
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = thread_count(options)
    settings.inter_op_num_threads = 1
    settings.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    settings.log_severity_level = 3
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for name, value in (entries or {}).items():
        settings.add_session_config_entry(name, value)
    # ONNX Runtime refuses a list with the CPU provider where falling back to it is forbidden
    falls_back = provider != "cpu" and (entries or {}).get("session.disable_cpu_ep_fallback") != "1"
    names = [(_PROVIDERS[provider], dict(provider_options or {})), *(["CPUExecutionProvider"] if falls_back else [])]
    try:
        session = onnxruntime.InferenceSession(str(path), settings, providers=names)
    except Exception as error:
        raise GraphError(
            f"cannot load the graph {path} ({error}): remove its folder, and it is built again at the next start"
        ) from error
    return GraphSession(session, path)
