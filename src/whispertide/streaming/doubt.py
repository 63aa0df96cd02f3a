"""Words that one round should not confirm yet: with little audio after it the decoder guesses (docs/LOG.md).

Shared by the policies that can wait. Knows nothing of rounds.
"""


def waits(probability: float, at: int, end: int, *, below: float, settle: int) -> bool:
    """Whether a word that is spoken up to sample `at` may still change with more audio than up to `end`.

    It may where it is less probable than `below` (0: none is) and lies in the last `settle` samples.
    """
    return probability < below and at > end - settle
