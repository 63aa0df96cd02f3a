"""The files of a tokenizer: every token's text and id, in the formats of GPT-2, Hugging Face and CTranslate2.

What the tokens mean to Whisper is `checkpoint.tokenizer`'s. The special ones are read at once, the megabytes of
ordinary ones when they are first needed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from whispertide.checkpoint.json_file import read_bytes, read_json
from whispertide.checkpoint.ranked_vocabulary import merges_of, special_tokens, split_special, with_lost_merges
from whispertide.checkpoint.untrusted import quote, shorten
from whispertide.errors import CheckpointError, CheckpointNotFoundError

if TYPE_CHECKING:
    from tokenizers import Encoding

TOKENIZER_JSON = "tokenizer.json"
VOCAB_JSON = "vocab.json"
MERGES_TXT = "merges.txt"
ADDED_TOKENS_JSON = "added_tokens.json"
# All texts by id, without merges, as CTranslate2 has them.
LISTED = ("vocabulary.json", "vocabulary.txt")

_MOST_TOKENS = 1_000_000


def _byte_characters() -> dict[int, str]:
    """Map each byte to GPT-2's printable stand-in: itself if it is printable Latin-1, else a letter from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}


_CHARACTER_OF = _byte_characters()
BYTE_OF = {char: byte for byte, char in _CHARACTER_OF.items()}


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of one checkpoint. `special` maps the text of each special token to its id. `listed` are the texts of
    the ordinary ones by id if these are known without their merges; else the files in `folder` have both.

    The properties and `encode` read the ordinary tokens, and raise `CheckpointError` when these are damaged.
    """

    folder: Path
    special: dict[str, int]
    listed: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for text, token in self.special.items():
            if type(token) is not int or not 0 <= token < _MOST_TOKENS:
                raise self._damaged(f"{shorten(text)} has the id {quote(token)}")

    @classmethod
    def read(cls, folder: Path) -> Vocabulary:
        """Read the special tokens of the tokenizer in `folder`.

        Raises `CheckpointNotFoundError` when the folder has no tokenizer, `CheckpointError` when it is damaged.
        """
        if not has_tokenizer(folder):
            raise CheckpointNotFoundError(
                f"expected {TOKENIZER_JSON}, or {VOCAB_JSON} with {MERGES_TXT}, in {folder}; found neither"
            )
        if (folder / TOKENIZER_JSON).is_file():
            return cls(folder, _special_of_tokenizer_json(folder / TOKENIZER_JSON))
        for name in LISTED:
            if (folder / name).is_file():
                return cls(folder, *split_special(_texts_of(folder / name)))
        special = read_json(folder / VOCAB_JSON)
        if (folder / ADDED_TOKENS_JSON).is_file():
            special |= read_json(folder / ADDED_TOKENS_JSON)
        return cls(folder, {text: token for text, token in special.items() if text.startswith("<|")})

    @classmethod
    def of_bytes(cls, place: Path, tokens: Sequence[bytes], vocab_size: int) -> Vocabulary:
        """Make the vocabulary of an OpenAI model from the bytes of the ordinary tokens in `place`, by id; extra ones
        are left out.

        Raises `CheckpointError` for a size of the vocabulary that OpenAI's models do not have, or too few tokens.
        """
        special = special_tokens(vocab_size)
        count = min(special.values())
        # The last one of a multilingual vocabulary is the empty text, which not every file counts.
        if len(tokens) < count - 1:
            raise CheckpointError(f"expected {count} tokens in {place}; it has {len(tokens)}: download it again")
        texts = ("".join(_CHARACTER_OF[byte] for byte in token) for token in tokens[:count])
        return cls(place, special, tuple(texts))

    def _read_model(self) -> tuple[dict[str, int], list[tuple[str, str]]]:
        """Read ordinary tokens with their ids, and the merges in order of priority."""
        if self.listed is not None:
            return {text: token for token, text in enumerate(self.listed)}, merges_of(self.listed)
        path = self.folder / TOKENIZER_JSON
        try:
            if path.is_file():
                model = read_json(path)["model"]
                if model.get("type", "BPE") != "BPE":
                    raise CheckpointError(f"expected a byte-pair tokenizer in {path}; got {quote(model['type'])}")
                return model["vocab"], [_pair(merge) for merge in model["merges"]]
            lines = (self.folder / MERGES_TXT).read_text(encoding="utf-8").splitlines()
            merges = [_pair(line) for line in lines if line and not line.startswith("#version")]
            return read_json(self.folder / VOCAB_JSON), merges
        except CheckpointError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self._damaged(f"{type(error).__name__}: {error}") from error

    @cached_property
    def _loaded(self) -> tuple[Any, dict[int, str]]:
        """Load the encoder, and the text of every ordinary token."""
        # The special tokens stay out of the encoder, so that text which happens to spell one is only text.
        from tokenizers import Tokenizer, models, pre_tokenizers

        vocab, merges = self._read_model()
        try:
            merges = with_lost_merges(vocab, merges)
            encoder = Tokenizer(models.BPE(vocab=vocab, merges=merges))
        except Exception as error:  # the library raises bare Exception for a merge of unknown tokens
            raise self._damaged(error) from error
        # Texts bring their leading space with them, as Whisper's do.
        encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        return encoder, {token: text for text, token in vocab.items()}

    def _damaged(self, reason: str | Exception) -> CheckpointError:
        return CheckpointError(f"the tokenizer in {self.folder} is damaged ({shorten(reason)}): download it again")

    @cached_property
    def special_texts(self) -> dict[int, str]:
        """The text of every special token."""
        return {token: text for text, token in self.special.items()}

    @cached_property
    def texts(self) -> dict[int, str]:
        """The text of every ordinary token, each byte as its stand-in (`BYTE_OF`)."""
        return self._loaded[1]

    def encode(self, text: str) -> list[int]:
        """Encode `text` as token ids; special tokens spelled in it are not recognised."""
        encoding = cast("Encoding", self._loaded[0].encode(text, add_special_tokens=False))
        return list(encoding.ids)


def has_tokenizer(folder: Path) -> bool:
    """True if `folder` holds the files of a tokenizer."""
    if any((folder / name).is_file() for name in (TOKENIZER_JSON, *LISTED)):
        return True
    return (folder / VOCAB_JSON).is_file() and (folder / MERGES_TXT).is_file()


def _texts_of(path: Path) -> list[str]:
    """Parse the texts of all tokens, from a JSON list or one a line. Raises `CheckpointError` for anything else."""
    try:
        content = read_bytes(path).decode()
        # Not `splitlines`, which also splits at characters that a token may have.
        texts = json.loads(content) if path.suffix == ".json" else content.removesuffix("\n").split("\n")
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read ({shorten(error)}): download the model again") from error
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise CheckpointError(f"expected a list of the texts of all tokens in {path}: download the model again")
    return texts


def _pair(merge: Any) -> tuple[str, str]:
    """Parse both spellings of a merge: "a b" (until tokenizers 0.19) and ["a", "b"]."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _special_of_tokenizer_json(path: Path) -> dict[str, int]:
    """Find the added tokens of a `tokenizer.json`, without parsing the megabytes of vocabulary after them."""
    try:
        text = read_bytes(path).decode()  # in text mode the newlines of these megabytes cost more than all the rest
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read ({shorten(error)}): download the model again") from error
    start = text.find('"added_tokens"')
    try:
        # A file that broke off lacks its end, although the part that is read here may be whole.
        if not text.rstrip().endswith("}"):
            raise ValueError("it ends early")
        added, _ = json.JSONDecoder().raw_decode(text, text.index("[", start))
        return {item["content"]: item["id"] for item in added}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is not a tokenizer ({shorten(error)}): it is damaged or truncated; download the model again"
        ) from error
