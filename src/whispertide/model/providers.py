"""Execution providers of this machine, its cores, and how many threads a session gets. Knows nothing of Whisper."""

import os
from pathlib import Path

from whispertide.errors import ProviderError
from whispertide.model.installed import OTHER_ENGINES, check_installed
from whispertide.options import EngineOptions, ProviderName

_MOST_AUTOMATIC_THREADS = 4  # beyond this, streaming windows are too short to gain

# In the order in which `auto` prefers them; what an accelerator cannot run falls back to the CPU provider.
PROVIDERS: dict[str, str] = {
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
    return [name for name, full in PROVIDERS.items() if full in installed]


def choose_provider(wanted: ProviderName) -> str:
    """Resolve `auto`; raise `ProviderError` where the wanted provider, or engine, is not installed."""
    if wanted in OTHER_ENGINES:
        check_installed(wanted)
        return wanted
    available = available_providers()
    if wanted == "auto":
        # Every ONNX Runtime has the CPU provider, so there always is one.
        return next(name for name in _AUTOMATIC if name in available)
    if wanted not in available:
        raise ProviderError(
            f"expected an execution provider of this machine ({', '.join(available)}); got {wanted!r}: "
            f"install the package {_PACKAGES.get(wanted, 'onnxruntime')} in place of onnxruntime"
        )
    return wanted


def check_provider(options: EngineOptions) -> str:
    """The provider of ONNX Runtime that computes. Raises `ProviderError` where there is none for `options`."""
    provider = choose_provider(options.provider)
    if provider in OTHER_ENGINES:
        raise ProviderError(f"expected a provider of ONNX Runtime for graphs; got {provider!r}, which has none")
    if options.precision == "fp16" and provider == "cpu":
        raise ProviderError(
            "fp16 needs an accelerator: the CPU provider computes it in fp32; use fp32, int8-weights or int8"
        )
    return provider


def usable_cpus() -> list[int]:
    """The numbers of the logical processors that this process may use, hyper-threads included."""
    # `os.cpu_count` also counts processors that this process may not use.
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def physical_cores() -> int:
    """Cores this process may use, not counting hyper-threads where the system tells them apart."""
    siblings = set()
    for cpu in usable_cpus():
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            siblings.add(topology.read_text())
        except OSError:
            # Not told apart here: then every logical processor counts as a core.
            siblings.add(str(cpu))
    return len(siblings)


def thread_count(options: EngineOptions) -> int:
    """The number of threads that `options` means."""
    return options.threads or min(_MOST_AUTOMATIC_THREADS, physical_cores())
