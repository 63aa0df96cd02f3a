"""The command line of the laboratory, with a fake transcriber and fake recognisers."""

from pathlib import Path

import pytest

from cli.conftest import loads, run, talk, transcriber
from fake_recognisers import Heard, fake_recognisers

__all__ = ["loads", "run", "talk", "transcriber"]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Heard:
    """What fake recognisers of `bench` were asked, on a fake corpus; the working directory is an empty folder."""
    monkeypatch.chdir(tmp_path)
    return fake_recognisers(monkeypatch)
