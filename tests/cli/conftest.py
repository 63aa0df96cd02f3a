"""A command line with a fake transcriber."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from command_line import Loads, Run, write_wav
from fake_transcriber import FakeTranscriber
from whispertide import api
from whispertide.cli.main import app


@pytest.fixture
def transcriber() -> FakeTranscriber:
    """What `api.load` gives in tests that use `run`; change it before."""
    return FakeTranscriber()


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch, transcriber: FakeTranscriber) -> Loads:
    """How often, and how, a model was loaded."""
    calls: Loads = []

    def load(model: str = "base.en", **settings: object) -> FakeTranscriber:
        calls.append((model, settings))
        return transcriber

    monkeypatch.setattr(api, "load", load)
    return calls


@pytest.fixture
def run(loads: object) -> Iterator[Run]:
    """Run the command line with the fake transcriber. `serve` logs to a standard error that ends with it."""

    def invoke(*arguments: object, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(app, [str(item) for item in arguments], input=stdin)

    everything = logging.getLogger()
    before = everything.handlers, everything.level
    yield invoke
    everything.handlers, level = before
    everything.setLevel(level)


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Three seconds: word0 to word5."""
    return write_wav(tmp_path / "talk.wav", 3)
