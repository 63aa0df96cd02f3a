"""How many examples a property is tried on: WHISPERTIDE_EXAMPLES=1000 looks for new ones, which may fail."""

import os

from hypothesis import settings

EXAMPLES = int(os.environ.get("WHISPERTIDE_EXAMPLES", "0"))


def quick(examples: int = 30) -> settings:
    """So many, unless more are wanted."""
    return settings(max_examples=EXAMPLES or examples)
