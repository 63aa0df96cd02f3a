"""Training low-rank changes of a frozen checkpoint, in epochs.

What is learned from a batch, and from which batches, the kinds of adapters say: `causal` (WhisperRT) and `masked`
(WhisperKit). Needs torch and peft. Knows nothing of command lines.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.low_rank import GROUPS, Matrices
from whispertide.errors import OptionError
from whispertide.lab.training.epochs import B, Batches, EpochOptions, EpochTrainer
from whispertide.lab.training.lora import adapt, adapters
from whispertide.lab.training.network import load_network
from whispertide.lab.training.shards import Shards, read_licences
from whispertide.lab.training.small_run import HELD_BACK


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterOptions(EpochOptions):
    """How an adapter is trained.

    rank         of the changes
    content_hash of the checkpoint, so that a run does not go on with another
    """

    rank: int = 32
    content_hash: str = ""

    def __post_init__(self) -> None:
        EpochOptions.__post_init__(self)
        if self.rank < 1:
            raise OptionError(f"expected rank from 1; got {self.rank}")


class AdapterTrainer(EpochTrainer[B]):
    """The adapter of a frozen checkpoint.

    A kind of adapter says which `groups` of attentions change, and its `loss`.
    """

    groups: Sequence[str] = tuple(GROUPS)

    def __init__(
        self,
        checkpoint: Checkpoint,
        batches: Batches[B],
        held_out: Sequence[B],
        options: AdapterOptions,
        folder: Path,
        device: str = "cpu",
        data: Mapping[str, Any] | None = None,
    ) -> None:
        self.data, self.checkpoint, where = dict(data or {}), checkpoint, torch.device(device)
        self.network = load_network(checkpoint).eval()
        adapt(self.network, options.rank, options.seed, self.groups)
        self.network.to(where)
        parameters = [matrix for pair in adapters(self.network).values() for matrix in pair]
        super().__init__(parameters, batches, held_out, options, folder, where)

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

    def report(self, measured: Mapping[str, Any]) -> dict[str, Any]:
        """What goes next to the matrices: what was `measured`, and what it was made from."""
        options = {name: value for name, value in asdict(self.settings).items() if name != "content_hash"}
        hours = round(self.heard_s / 3600, 2)
        return {**measured, "updates": self.step, "hours_heard": hours, "data": self.data, "options": options}


def divided(usable: Shards) -> tuple[Shards, Shards]:
    """What is trained on, and what is held back for validation."""
    trained = Shards(tuple(place for number, place in enumerate(usable.places) if number % HELD_BACK))
    return trained, Shards(usable.places[::HELD_BACK])


def described(speech: Shards) -> dict[str, Any]:
    """How much speech this is, and under which licences its folders are."""
    licences = Counter[str]()
    for folder in dict.fromkeys(place.file.parent for place in speech.places):
        licences.update(dict(read_licences(folder)))
    return {"utterances": len(speech), "hours": round(speech.seconds / 3600, 2), "licences": dict(licences)}
