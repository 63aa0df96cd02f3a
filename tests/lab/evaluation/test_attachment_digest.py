"""A digest of what belongs to a checkpoint."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whispertide.checkpoint import attachments
from whispertide.checkpoint.attachments import Attachment, save
from whispertide_lab.evaluation.attachment_digest import digest_attachments

ATTACHMENT = Attachment({"weight": np.ones(3, np.float32)}, "a" * 64)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of adapters that belong to the tensors, in whatever folder these are."""
    monkeypatch.setattr(attachments, "BUNDLED", tmp_path / "package")
    return tmp_path / "package" / "small"


@pytest.mark.parametrize("name", ["short.npz", "hush-0.5s.npz"])
def test_the_digest_knows_what_lies_in_the_package(name: str, tmp_path: Path, elsewhere: Path) -> None:
    """Another adapter there means other texts: what was measured before it is not theirs."""
    mine: Any = SimpleNamespace(folder=tmp_path, generation="greedy", tensors_hash="a" * 64)
    digests = [digest_attachments(mine)]
    elsewhere.mkdir(parents=True)
    for value in (1.0, 2.0):
        save(elsewhere / name, Attachment({"weight": np.full(3, value, np.float32)}, "a" * 64))
        digests.append(digest_attachments(mine))
    assert len(set(digests)) == 3
    another: Any = SimpleNamespace(folder=tmp_path, generation="greedy", tensors_hash="b" * 64)
    assert digest_attachments(another) == digests[0]


def test_the_digest_knows_every_attachment(tmp_path: Path) -> None:
    mine: Any = SimpleNamespace(folder=tmp_path, generation="greedy", tensors_hash="a" * 64)
    save(tmp_path / "toy.npz", ATTACHMENT)
    before = digest_attachments(mine)
    assert digest_attachments(mine) == before
    save(tmp_path / "other.npz", ATTACHMENT)
    assert digest_attachments(mine) != before
