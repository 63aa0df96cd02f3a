"""The rounds that an executor computes for one session: begun in order, taken in order, given up together or apart.

Knows no policy and nothing of what a round is for: what happens with a result is the session's affair.
"""

from collections.abc import Collection
from typing import Any

from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.policy import Executor
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.stages import Pending, begin
from whispertide.types import FloatArray


class UnderWay:
    """Rounds that were begun and whose results were not taken, the oldest first."""

    def __init__(self) -> None:
        self._rounds: list[Pending] = []

    def __len__(self) -> int:
        return len(self._rounds)

    @property
    def is_ready(self) -> bool:
        """Whether there is a round, and taking the oldest does not wait."""
        return bool(self._rounds) and self._rounds[0].done

    def begin(
        self,
        executor: Executor,
        plan: RoundPlan,
        audio: FloatArray,
        options: DecodeOptions,
        state: EncoderState | None,
    ) -> None:
        """Begin another. `state` is what the encoder carries from the newest result that was taken."""
        after = self._rounds[-1] if self._rounds else None
        self._rounds.append(begin(executor, plan, audio, options, state, after))

    def take(self) -> RoundResult[Any]:
        """Wait for the oldest. Raises what its computation raised; then it is still the oldest."""
        result = self._rounds[0].result()
        del self._rounds[0]
        return result

    def give_up(self, ids: Collection[int] | None = None) -> set[int]:
        """Stop those with these plan ids, or all; returns which there were."""
        given_up = [each for each in self._rounds if ids is None or each.plan.id in ids]
        for each in given_up:
            each.cancel()
        self._rounds = [each for each in self._rounds if not (ids is None or each.plan.id in ids)]
        return {each.plan.id for each in given_up}
