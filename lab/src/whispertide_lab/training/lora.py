"""Low-rank adapters (LoRA, Hu et al. 2021) on projections of every attention, by the `peft` library.

The rest of the network stays as it is, so that little speech is enough and little memory. Merged before it is written:
what comes out is a plain Whisper. Needs torch and peft.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whispertide.checkpoint.low_rank import GROUPS, adapted_names
from whispertide.errors import OptionError
from whispertide.extras import how_to_install

if TYPE_CHECKING:
    from whispertide_lab.training.network import Whisper

Adapters = dict[str, tuple[Tensor, Tensor]]

ADAPTED = ("q_proj", "v_proj")  # as in the paper (section 7.1) and in peft's example for Whisper


def add_adapters(
    network: "Whisper", rank: int, seed: int, projections: Sequence[str] = ADAPTED, strength: float = 2.0
) -> None:
    """Put adapters of this rank into the network, in place; they alone require a gradient.

    `strength` times what they say is added (the alpha of LoRA, divided by the rank). They begin as nothing: the
    network computes what it did. Raises `OptionError` for a rank below 1, and where peft is not installed.
    """
    if rank < 1:
        raise OptionError(f"expected a rank of at least 1 for the adapters; got {rank}")
    try:
        from peft import LoraConfig, LoraModel
    except ImportError as error:
        raise OptionError(f"expected peft for LoRA; it is not installed: {how_to_install('train')}") from error
    torch.manual_seed(seed)
    config = LoraConfig(r=rank, lora_alpha=round(strength * rank), target_modules=list(projections))
    LoraModel(network, config, "default")


def adapt(network: "Whisper", rank: int, seed: int, groups: Sequence[str] = GROUPS) -> None:
    """Freeze the network and put adapters into these groups of weights, for an attachment (`checkpoint.low_rank`).

    A by Kaiming, B zero, so the network computes what it did. Raises `OptionError`.
    """
    network.requires_grad_(False)
    modules = [name.removesuffix(".weight") for name in adapted_names(network.dims, groups)]
    add_adapters(network, rank, seed, modules, strength=1.0)


def adapters(network: "Whisper") -> Adapters:
    """(A [rank, in], B [out, rank]) by the name of the weight, as an attachment has them; the parameters."""
    return {
        f"{name}.weight": (module.lora_A["default"].weight, module.lora_B["default"].weight)
        for name, module in network.named_modules()
        if hasattr(module, "lora_A")
    }


def merge_adapters(network: "Whisper") -> None:
    """Add what the adapters learned to the weights and take them out, in place."""
    for name, module in list(network.named_modules()):
        if hasattr(module, "lora_A"):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(network.get_submodule(parent), child, module.get_base_layer())
