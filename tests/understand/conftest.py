"""What the tests of understanding share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from small_late import late_model, small_late
from whispertide.understand.model import LateModel
from whispertide_lab.training.latecontext.folder import save_late


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late") / "model"
    save_late(small_late(), folder)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[LateModel]:
    with late_model(folder) as opened:
        yield opened
