"""Which device trains, and in which precision. Needs torch."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from whispertide.errors import OptionError


def choose_device(name: str) -> str:
    """ "cpu" or "cuda" for what the user asked for; "auto" takes the GPU where there is one.

    On a GPU, float32 products that are left with bfloat16 may use its quicker units, and torch takes one thread of the
    processor. Raises `OptionError` for another name, and where torch finds no GPU.
    """
    there = torch.cuda.is_available()
    if name not in ("auto", "cpu", "cuda"):
        raise OptionError(f"expected the device cpu or cuda; got {name!r}")
    if name == "cuda" and not there:
        raise OptionError("expected a GPU for --device cuda; torch finds none: install a build of torch with CUDA")
    if name == "cpu" or not there:
        return "cpu"
    torch.set_float32_matmul_precision("high")
    # The other processors make batches. Torch's own threads would wait for them at each of its short operations.
    torch.set_num_threads(1)
    return "cuda"


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """torch computes on so many threads; afterwards on as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def has_bfloat16_units(device: str) -> bool:
    """Whether products of bfloat16 are faster there than those of float32: GPUs, CPUs with AMX or AVX-512's bfloat16.

    With the latter they take half of the time. Other CPUs compute them one by one.
    """
    units = torch.cpu.get_capabilities()
    return device == "cuda" or any(units.get(name, False) for name in ("amx_bf16", "avx512_bf16"))


def mixed_precision(device: str, *, enabled: bool) -> AbstractContextManager[object]:
    """Products in bfloat16, sums and weights in float32, or nothing else than float32."""
    if not enabled:
        return nullcontext()
    mixed: AbstractContextManager[object] = torch.autocast(device, torch.bfloat16)
    return mixed


def quicker_precision(device: str) -> AbstractContextManager[object]:
    """Products in bfloat16 where the device has units for them, else in float32."""
    return mixed_precision(device, enabled=has_bfloat16_units(device))
