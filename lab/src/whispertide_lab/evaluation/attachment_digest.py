"""Digests of what decides the results of a checkpoint besides its weights."""

import hashlib
from pathlib import Path

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.cache import file_digest
from whispertide.checkpoint.short import short_adapter
from whispertide.methods.short.hush import HushWord


def digest_attachments(checkpoint: Checkpoint, *words: HushWord) -> str:
    """Hash all that decides the results of a recipe besides the weights: generation settings and attachments, and hush
    `words` from elsewhere. 12 hexadecimal digits.
    """
    elsewhere = "".join(hashlib.sha256(word.samples.tobytes()).hexdigest() for word in words)
    if (adapter := short_adapter(checkpoint)) is not None:  # it may lie in the cache or in the package
        elsewhere += file_digest(adapter)
    return digest_folder(checkpoint.folder, repr(checkpoint.generation) + elsewhere)


def digest_folder(folder: Path, settings: str = "") -> str:
    """Hash all attachments in a folder, and `settings`. 12 hexadecimal digits."""
    digest = hashlib.sha256(settings.encode())
    for file in sorted(folder.glob("*.npz")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]
