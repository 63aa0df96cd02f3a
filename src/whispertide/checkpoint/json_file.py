"""JSON files of a checkpoint, none of them larger than a Whisper's."""

import json
from pathlib import Path
from typing import Any

from whispertide.checkpoint.untrusted import regular_bytes, shorten
from whispertide.errors import CheckpointError, CheckpointNotFoundError

_MAX_JSON = 6_000_000  # bytes; the largest file of a Whisper, tokenizer.json, has less


def read_bytes(path: Path) -> bytes:
    """Read a JSON file of a checkpoint. Raises `CheckpointError` for one that is too large, and `OSError`."""
    try:
        return regular_bytes(path, _MAX_JSON)
    except ValueError as error:
        raise CheckpointError(f"{path} belongs to no Whisper: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file.

    Raises `CheckpointNotFoundError` when the file is missing and `CheckpointError` when it is not a JSON object.
    """
    try:
        value = json.loads(read_bytes(path))
    except FileNotFoundError as error:
        raise CheckpointNotFoundError(
            f"expected {path.name} in {path.parent}, but it is not there; download the model again, or name a folder "
            "that holds a whole Hugging Face checkpoint"
        ) from error
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8, or nested too deep to be meant
        raise CheckpointError(
            f"{path} is not valid JSON ({shorten(error)}); it is damaged or truncated: download the model again"
        ) from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"expected a JSON object in {path}; got {type(value).__name__}")
    return value
