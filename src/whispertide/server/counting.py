"""Count by name what is open at this moment."""

import contextlib
from collections import Counter
from collections.abc import Iterator


@contextlib.contextmanager
def counting(counter: Counter[str], name: str) -> Iterator[None]:
    """Count a name for the length of a block. A name whose count is 0 is removed."""
    counter[name] += 1
    try:
        yield
    finally:
        counter[name] -= 1
        if not counter[name]:
            del counter[name]
