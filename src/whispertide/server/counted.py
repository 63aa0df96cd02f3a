"""Count by name what is open at this moment."""

import contextlib
from collections import Counter
from collections.abc import Iterator


@contextlib.contextmanager
def counted(counter: Counter[str], name: str) -> Iterator[None]:
    """One more meanwhile. Names of which there is none are forgotten."""
    counter[name] += 1
    try:
        yield
    finally:
        counter[name] -= 1
        if not counter[name]:
            del counter[name]
