"""Digests of what decides the results of a checkpoint besides its weights."""

import hashlib
from pathlib import Path

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.attachments import iter_elsewhere
from whispertide.checkpoint.cache import file_digest
from whispertide.methods.short.hush import HushWord


def digest_attachments(checkpoint: Checkpoint, *words: HushWord) -> str:
    """Hash all that decides the results of a recipe besides the weights: generation settings and attachments, and hush
    `words` from elsewhere. 12 hexadecimal digits.
    """
    elsewhere = "".join(hashlib.sha256(word.samples.tobytes()).hexdigest() for word in words)
    elsewhere += "".join(map(file_digest, iter_elsewhere(checkpoint)))
    return digest_folder(checkpoint.folder, repr(checkpoint.generation) + elsewhere)


def digest_folder(folder: Path, settings: str = "") -> str:
    """Hash all attachments in a folder, and `settings`. 12 hexadecimal digits."""
    digest = hashlib.sha256(settings.encode())
    for file in sorted(folder.glob("*.npz")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]
