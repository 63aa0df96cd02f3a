"""Vocabularies of equal files are read once in a process.

Most checkpoints of the tests have the tokenizer of nano.en, and to read it takes longer than most tests.
"""

from functools import cached_property
from typing import Any

from whispertide.checkpoint.vocabulary import TOKENIZER_JSON, Vocabulary

_MOST = 2**24  # bytes; what is longer is read every time


def share_vocabularies() -> None:
    """From now on. What cannot be read is tried again every time."""
    read = Vocabulary.__dict__["_loaded"].func
    known: dict[bytes, Any] = {}

    def loaded(vocabulary: Vocabulary) -> Any:
        path = vocabulary.folder / TOKENIZER_JSON
        if not path.is_file() or path.stat().st_size > _MOST:
            return read(vocabulary)
        content = path.read_bytes()
        if content not in known:
            known[content] = read(vocabulary)
        return known[content]

    shared = cached_property(loaded)
    shared.__set_name__(Vocabulary, "_loaded")
    setattr(Vocabulary, "_loaded", shared)  # noqa: B010  (no plain assignment: the type is another)
