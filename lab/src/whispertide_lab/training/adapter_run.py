"""Training low-rank changes of a frozen checkpoint, in epochs.

What is learned from a batch, and from which batches, the kinds of adapters say: `causal` (WhisperRT), `masked`
(WhisperKit) and `short`. Needs torch and peft. Knows nothing of command lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.low_rank import GROUPS, Matrices
from whispertide.errors import OptionError
from whispertide_lab.training.epochs import B, EpochOptions, EpochTrainer, Lessons
from whispertide_lab.training.lora import adapt, adapters
from whispertide_lab.training.network import load_network


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterOptions(EpochOptions):
    """How an adapter is trained; `rank` is that of the changes."""

    rank: int = 32

    def __post_init__(self) -> None:
        EpochOptions.__post_init__(self)
        if self.rank < 1:
            raise OptionError(f"expected rank from 1; got {self.rank}")


class AdapterTrainer(EpochTrainer[B]):
    """The adapter of a frozen checkpoint.

    A kind of adapter says which `groups` of weights change, and its `loss`.
    """

    groups: Sequence[str] = GROUPS

    def __init__(
        self,
        checkpoint: Checkpoint,
        lessons: Lessons[B],
        options: AdapterOptions,
        folder: Path,
        device: str,
    ) -> None:
        self.checkpoint = checkpoint
        self.network = load_network(checkpoint).eval()
        adapt(self.network, options.rank, options.seed, self.groups)
        self.network.to(device)
        parameters = [matrix for pair in adapters(self.network).values() for matrix in pair]
        super().__init__(parameters, lessons, options, folder, device)

    def begin_with(self, matrices: Matrices) -> None:
        """Go on from what was learned before, of this checkpoint or of one of the same shape."""
        self.take([torch.from_numpy(matrix) for name in adapters(self.network) for matrix in matrices[name]])

    def take_nothing(self) -> None:
        """Be the checkpoint as it is."""
        self.take([torch.zeros_like(matrix) for matrix in self.parameters])

    @property
    def matrices(self) -> Matrices:
        """What was learned, as an attachment holds it."""
        return {
            name: (a.detach().cpu().numpy(), b.detach().cpu().numpy())
            for name, (a, b) in adapters(self.network).items()
        }
