"""A digest of what belongs to a checkpoint."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from whispertide.checkpoint.attachments import Attachment, save
from whispertide_lab.evaluation.attachment_digest import digest_attachments

ATTACHMENT = Attachment({"weight": np.ones(3, np.float32)}, "a" * 64)


def test_the_digest_knows_every_attachment(tmp_path: Path) -> None:
    mine: Any = SimpleNamespace(folder=tmp_path, generation="greedy")
    save(tmp_path / "toy.npz", ATTACHMENT)
    before = digest_attachments(mine)
    assert digest_attachments(mine) == before
    save(tmp_path / "other.npz", ATTACHMENT)
    assert digest_attachments(mine) != before
