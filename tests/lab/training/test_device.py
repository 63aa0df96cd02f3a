from typing import Any

import pytest
import torch

from whispertide_lab.training.device import choose_device, has_bfloat16_units, mixed_precision, on_threads

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("there", "units"),
    [
        ({"amx_bf16": True}, True),
        ({"amx_bf16": False, "avx512_bf16": True}, True),
        ({"avx512_bf16": False}, False),
        ({}, False),
    ],
)
def test_which_cpus_have_units(monkeypatch: pytest.MonkeyPatch, there: dict[str, bool], units: bool) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: there)
    assert has_bfloat16_units("cpu") == units
    assert has_bfloat16_units("cuda")


@pytest.mark.parametrize(("enabled", "kind"), [(True, torch.bfloat16), (False, torch.float32)])
def test_products_alone_are_mixed(enabled: bool, kind: Any) -> None:
    weights = torch.ones(4, 4, requires_grad=True)
    with mixed_precision("cpu", enabled=enabled):
        product = weights @ weights
    product.float().sum().backward()
    assert product.dtype == kind
    assert weights.grad is not None
    assert weights.grad.dtype == torch.float32


@pytest.mark.parametrize(("gpu", "device", "threads"), [(True, "cuda", [1]), (False, "cpu", [])])
def test_a_gpu_leaves_the_processors_to_what_makes_batches(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, device: str, threads: list[int]
) -> None:
    asked: list[int] = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr("torch.set_float32_matmul_precision", lambda _: None)
    monkeypatch.setattr("torch.set_num_threads", asked.append)
    assert choose_device("auto") == device
    assert asked == threads


def test_threads_are_as_many_as_before() -> None:
    before = torch.get_num_threads()
    with on_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
