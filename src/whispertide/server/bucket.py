"""A token bucket: an average rate, and a burst. Pure: the time comes with every call."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Bucket:
    """Holds at most `most` tokens and gets `rate` a second; it is full in the beginning."""

    rate: float
    most: float
    _tokens: float = field(init=False)
    _at: float | None = None

    def __post_init__(self) -> None:
        self._tokens = self.most

    def take(self, tokens: float, now: float) -> bool:
        """Take tokens, on credit if there are too few. Returns whether there were enough."""
        self._fill(now)
        self._tokens -= tokens
        return self._tokens >= 0

    def spend(self, now: float) -> bool:
        """Take a token, if there is one. Returns whether there was."""
        return self.has_one(now) and self.take(1, now)

    def has_one(self, now: float) -> bool:
        """True if there is a token."""
        self._fill(now)
        return self._tokens >= 1

    def debt_s(self, now: float) -> float:
        """Seconds until the tokens that were taken on credit are paid back."""
        self._fill(now)
        return max(0.0, -self._tokens / self.rate)

    def _fill(self, now: float) -> None:
        # The first call has no time before it.
        self._tokens = min(self.most, self._tokens + self.rate * (now - (now if self._at is None else self._at)))
        self._at = now
