"""Vocabularies of equal files, or of equal texts, are read once in a process.

Most checkpoints of the tests have the tokenizer of nano.en, and to read it takes longer than most tests. To find the
merges of tokens that are listed without them takes longer still.
"""

from functools import cached_property
from typing import Any

from whispertide.checkpoint.vocabulary import TOKENIZER_JSON, Vocabulary

_MOST = 2**24  # bytes; what is longer is read every time


def share_vocabularies() -> None:
    """From now on. What cannot be read is tried again every time."""
    read = Vocabulary.__dict__["_loaded"].func
    known: dict[bytes | tuple[str, ...], Any] = {}

    def content_of(vocabulary: Vocabulary) -> bytes | tuple[str, ...] | None:
        path = vocabulary.folder / TOKENIZER_JSON
        if vocabulary.listed is not None:
            return vocabulary.listed
        return path.read_bytes() if path.is_file() and path.stat().st_size <= _MOST else None

    def loaded(vocabulary: Vocabulary) -> Any:
        content = content_of(vocabulary)
        if content is None:
            return read(vocabulary)
        if content not in known:
            known[content] = read(vocabulary)
        return known[content]

    shared = cached_property(loaded)
    shared.__set_name__(Vocabulary, "_loaded")
    setattr(Vocabulary, "_loaded", shared)  # noqa: B010  (no plain assignment: the type is another)
