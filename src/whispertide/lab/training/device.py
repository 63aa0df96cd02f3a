"""Which device trains. Needs torch."""

import torch

from whispertide.errors import OptionError


def choose_device(name: str) -> str:
    """ "cpu" or "cuda" for what the user asked for; "auto" takes the GPU where there is one.

    On a GPU, float32 products that are left with bfloat16 may use its quicker units. Raises `OptionError` for another
    name, and where torch finds no GPU.
    """
    there = torch.cuda.is_available()
    if name not in ("auto", "cpu", "cuda"):
        raise OptionError(f"expected the device cpu or cuda; got {name!r}")
    if name == "cuda" and not there:
        raise OptionError("expected a GPU for --device cuda; torch finds none: install a build of torch with CUDA")
    if name == "cpu" or not there:
        return "cpu"
    torch.set_float32_matmul_precision("high")
    return "cuda"
