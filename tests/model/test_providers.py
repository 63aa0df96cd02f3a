"""Providers and cores of other machines, by what ONNX Runtime and the system say there."""

import os
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from whispertide.errors import ProviderError
from whispertide.graphs.contract import ENCODER
from whispertide.model import providers
from whispertide.model.providers import available_providers, check_provider, choose_provider, thread_count
from whispertide.model.runtime import open_session
from whispertide.options import EngineOptions

# What `get_available_providers` gives, in its order
MAC = ["CoreMLExecutionProvider", "AzureExecutionProvider", "CPUExecutionProvider"]
WINDOWS = ["DmlExecutionProvider", "CPUExecutionProvider"]
WITH_A_GPU = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("machine", "ours", "automatic"),
    [(MAC, ["coreml", "cpu"], "cpu"), (WINDOWS, ["directml", "cpu"], "cpu"), (WITH_A_GPU, ["cuda", "cpu"], "cuda")],
    ids=["macOS", "Windows", "a GPU of NVIDIA"],
)
def test_an_accelerator_is_there_by_name_and_cuda_alone_is_taken_unasked(
    machine: list[str], ours: list[str], automatic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: machine)
    assert available_providers() == ours
    assert choose_provider("auto") == automatic
    assert choose_provider(ours[0]) == ours[0]  # type: ignore[arg-type]
    assert check_provider(EngineOptions("fp16", ours[0])) == ours[0]  # type: ignore[arg-type]


def test_what_another_machine_has_is_an_error_that_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: WINDOWS)
    with pytest.raises(
        ProviderError, match=r"\(directml, cpu\); got 'coreml': install the package onnxruntime \(macOS"
    ):
        choose_provider("coreml")


def test_what_coreml_cannot_run_the_processor_does(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: MAC)
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, providers, **__: opened.append(providers))
    open_session(Path(ENCODER.file), EngineOptions(provider="coreml"))
    assert opened == [[("CoreMLExecutionProvider", {}), "CPUExecutionProvider"]]


@pytest.mark.parametrize(("processors", "threads"), [(2, 2), (10, 4), (None, 1)])
def test_threads_where_the_system_tells_no_cores_apart(
    processors: int | None, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS and Windows know neither which processors a process may use nor Linux's /sys."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(providers, "Path", lambda _: tmp_path / "nothing")
    assert thread_count(EngineOptions()) == threads
