"""File types by their first bytes, so that a message can name them."""

from pathlib import Path

SIZE = 4  # bytes that tell
GGML = b"lmgg"  # 0x67676d6c, "ggml" read as a number
ZIP = b"PK\x03\x04"
_KNOWN = {
    GGML: "a ggml file, as whisper.cpp reads it",
    b"GGUF": "a GGUF file, as llama.cpp reads it",
    ZIP: "a zip file, as torch.save writes it",
    b"\x06\x00\x00\x00": "a model.bin of CTranslate2",
    b"\x89HDF": "an HDF5 file",
    b"vers": "a pointer of git LFS, not the file itself",
}


def describe(start: bytes) -> str:
    """The type of a file that begins so."""
    return _KNOWN.get(start[:SIZE], f"bytes {start[:SIZE]!r} at its start")


def is_ggml(path: Path) -> bool:
    """True if a file begins as those of whisper.cpp do; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(SIZE) == GGML
    except OSError:
        return False
