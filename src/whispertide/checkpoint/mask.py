"""What frames of an encoder hear under a mask of blocks, as WhisperKit names it: dN and cN.

    d750    block-diagonal: blocks of 750 frames of 20 ms, and a frame hears its own block alone
    c250    block-causal: blocks of 250 frames, and a frame hears its own block and all before it

A block is a piece for itself in the convolutions too: at its edges they hear zeros, as at the edges of a window. So a
block of padding is the same whatever was said before it. The matrices are in `lab.training.masks`; to compute with a
mask (`model.masked`) its bounds are enough. (WhisperKit, 2.1.1 and figure 1.)
"""

import re
from dataclasses import dataclass

from whispertide.errors import OptionError
from whispertide.types import N_FRAMES

WINDOW = N_FRAMES // 2  # encoder frames of 30 s


@dataclass(frozen=True, slots=True)
class Mask:
    """Blocks of `block` encoder frames; `causal`: a frame hears the blocks before its own too."""

    block: int
    causal: bool

    @classmethod
    def parse(cls, name: str) -> "Mask":
        """The mask of that name, for windows of 30 s. Raises `OptionError` for a name that is none."""
        known = re.fullmatch("([dc])([1-9][0-9]{0,3})", name)
        if known is None:
            raise OptionError(
                f"expected a mask such as d750, d500, d250 or c250: d (a block hears itself) or c (and the blocks "
                f"before it), and the frames of a block; got {name!r}"
            )
        mask = cls(int(known[2]), known[1] == "c")
        if WINDOW % mask.block:
            raise OptionError(
                f"expected a mask whose blocks fill the window, {WINDOW} frames of 20 ms: 750, 500, 375, 300, 250 and "
                f"the like; got {name}, which leaves {WINDOW % mask.block} frames"
            )
        return mask

    @property
    def columns(self) -> int:
        """Log-mel columns of a block."""
        return 2 * self.block

    def __str__(self) -> str:
        return f"{'c' if self.causal else 'd'}{self.block}"
