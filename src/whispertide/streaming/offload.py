"""Whether the text of a decode is good enough: a question that a trained offramp answers (`methods.pilot`)."""

from collections.abc import Sequence
from typing import Protocol

from whispertide.types import FloatArray


class OffloadModel(Protocol):
    """What tells how likely the text of a decode is not good enough."""

    @property
    def hears(self) -> bool:
        """Whether it goes by what the encoder gives out."""

    def offload_probability(self, logprobs: Sequence[float], states: FloatArray | None) -> float:
        """The probability, 0 to 1, that the text is not good enough.

        `logprobs` are those of its tokens, `states` [frames, width] the encoder's output (of a network for commands
        what its layers that stream give out); None where it does not hear.
        """
