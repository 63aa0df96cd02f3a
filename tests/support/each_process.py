"""A plug-in for each process that runs tests: properties that fail on any machine or on none, vocabularies, graphs
and command lines that are made once, and nothing that somebody has tuned.
"""

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer.testing
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from typer.main import get_command

from few_examples import EXAMPLES
from shared_graphs import share_graphs
from shared_vocabulary import share_vocabularies
from whispertide.checkpoint import cache as checkpoint_cache
from whispertide.recipes import calibration

# The same examples every time, however long they take: a failure is the change's doing. WHISPERTIDE_EXAMPLES looks for
# new ones, so many where a test names no number of its own.
settings.register_profile(
    "everywhere",
    max_examples=EXAMPLES or 15,
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("everywhere")
# Some values are constants of whichever modules the process has loaded, so the examples depended on the tests before.
if not EXAMPLES:
    setattr(providers, "_get_local_constants", Constants)  # noqa: B010  (not exported, says mypy)


def pytest_configure() -> None:
    """What takes long to make is made once."""
    share_vocabularies()
    share_graphs()
    # a command line is built of 40 functions' signatures; its runner would do so for every command
    setattr(typer.testing, "_get_command", cache(get_command))  # noqa: B010  (not exported, says mypy)


@pytest.fixture(autouse=True)
def untuned(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What somebody has tuned on this machine counts in no test."""
    folder = cache(lambda: tmp_path_factory.mktemp("tuned"))
    monkeypatch.setattr(calibration, "cache_path", lambda *parts: folder().joinpath(*parts))


@pytest.fixture
def spare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where things are kept that the cache cannot take; made by the first of them."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    forgotten = (checkpoint_cache.spare_dir, checkpoint_cache._tell)
    for each in forgotten:
        each.cache_clear()
    yield checkpoint_cache.spare_dir()
    for each in forgotten:
        each.cache_clear()
