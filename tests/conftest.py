"""What holds for all tests: properties that fail on any machine or on none, and a heap that is not searched again."""

import gc
import os

from hypothesis import HealthCheck, settings

# The same examples every time, however long they take: a failure is the change's doing. WHISPERTIDE_EXAMPLES looks for
# new ones (and in the tests that read it, for so many).
settings.register_profile(
    "everywhere",
    max_examples=50,
    derandomize="WHISPERTIDE_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("everywhere")


def pytest_collection_finish() -> None:
    """What was imported stays: the collector need not look at it after every few allocations."""
    gc.collect()
    gc.freeze()
