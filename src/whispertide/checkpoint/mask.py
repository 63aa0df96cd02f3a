"""Attention masks of blocks for an encoder, as WhisperKit names them: dN and cN.

    d750    block-diagonal: blocks of 750 frames of 20 ms, and a frame attends to its own block alone
    c250    block-causal: blocks of 250 frames, and a frame attends to its own block and all before it

A block is a piece for itself in the convolutions too: at its edges they see zeros, as at the edges of a window. So a
block of padding is the same whatever comes before it. The matrices are in the laboratory's `training.masks`; to
compute with a mask (`model.masked`) its bounds are enough. (WhisperKit, 2.1.1 and figure 1.)
"""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from whispertide.errors import OptionError
from whispertide.types import N_FRAMES

WINDOW = N_FRAMES // 2  # encoder frames of 30 s

MaskName = Literal[  # blocks of 2 s or more that fill the window
    "d750", "d500", "d375", "d300", "d250", "d150", "d125", "d100",
    "c750", "c500", "c375", "c300", "c250", "c150", "c125", "c100",
    "d1500",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mask:
    """Blocks of `block` encoder frames; `causal`: a frame attends to the blocks before its own too."""

    block: int
    causal: bool

    @classmethod
    def parse(cls, name: str) -> "Mask":
        """Parse the name of a mask, for windows of 30 s. Raises `OptionError` for any other text."""
        known = re.fullmatch("([dc])([0-9]{1,4})", name)
        if name not in get_args(MaskName) or known is None:
            block = int(known[2]) if known else 0
            over = f", whose blocks leave {WINDOW % block} of {WINDOW} frames" if block and WINDOW % block else ""
            raise OptionError(f"expected a mask, one of {', '.join(get_args(MaskName))}; got {name!r}{over}")
        return cls(int(known[2]), known[1] == "c")

    @property
    def columns(self) -> int:
        """Log-mel columns of a block."""
        return 2 * self.block

    def __str__(self) -> str:
        return f"{'c' if self.causal else 'd'}{self.block}"
