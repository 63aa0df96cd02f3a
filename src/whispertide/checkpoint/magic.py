"""What a file is, by its first bytes: so that a message can call it by its name."""

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


def described(start: bytes) -> str:
    """What a file that begins so is."""
    return _KNOWN.get(start[:SIZE], f"bytes {start[:SIZE]!r} at its start")


def is_ggml(path: Path) -> bool:
    """Whether a file begins as those of whisper.cpp do; False where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(SIZE) == GGML
    except OSError:
        return False
