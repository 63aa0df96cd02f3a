"""What holds for all tests: properties that fail on any machine or on none, a heap that is not searched again, an
interrupt that interrupts, and vocabularies that are read once.
"""

import gc
import os
import signal
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from shared_vocabulary import share_vocabularies
from whispertide.streaming import calibration

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


def pytest_configure() -> None:
    """A shell that starts the tests in the background has them ignore Ctrl-C, and so would all that they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    share_vocabularies()


def pytest_collection_finish() -> None:
    """What was imported stays: the collector need not look at it after every few allocations."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def untuned(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What somebody has tuned on this machine counts in no test."""
    monkeypatch.setattr(calibration, "cache_dir", cache(lambda: tmp_path_factory.mktemp("tuned")))
