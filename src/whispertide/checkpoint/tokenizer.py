"""Whisper's tokens: text to ids and back, special tokens, and the grouping of tokens into words.

Every id is read from the checkpoint's own tokenizer: English-only, multilingual and large-v3 vocabularies number their
special tokens differently. This module does not know about weights, rules or prompts.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from whispertide.checkpoint.dims import MULTILINGUAL_VOCAB
from whispertide.checkpoint.languages import UNSPACED_LANGUAGES, language_code
from whispertide.errors import CheckpointError, CheckpointNotFoundError, OptionError, UnknownLanguageError
from whispertide.options import Task
from whispertide.types import CHUNK_SECONDS, SAMPLE_RATE

if TYPE_CHECKING:
    from tokenizers import Encoding

TIMESTAMP_SAMPLES = SAMPLE_RATE // 50  # a timestamp token counts 20 ms
N_TIMESTAMPS = CHUNK_SECONDS * SAMPLE_RATE // TIMESTAMP_SAMPLES + 1  # 0.00 to 30.00 seconds: 1,501 tokens

_LANGUAGE_TOKEN = re.compile(r"<\|([a-z]{2,3})\|>")
_REPLACEMENT = "\ufffd"

# Marks of annotations and speaker tags, which are written but not spoken. Each is suppressed where it is one token,
# with and without a leading space (openai/whisper, tokenizer.py).
_ANNOTATION_MARKS = (
    *'"#()*+/:;<=>@[\\]^_`{|}~「」『』',
    *("<<", ">>", "<<<", ">>>", "--", "---", "-(", "-[", "('", '("', "((", "))", "(((", ")))", "[[", "]]", "{{", "}}"),
    *("♪♪", "♪♪♪"),
)
# Musical signs may be several tokens; their first one is shared only with other signs of U+2640 to U+267F.
_MUSICAL_SIGNS = "♩♪♫♬♭♮♯"


class Tokenizer:
    """Token ids of one checkpoint. `vocab_size` is the number of logits of its model."""

    def __init__(self, vocabulary: Vocabulary, vocab_size: int) -> None:
        self._vocabulary = vocabulary
        self.vocab_size = vocab_size
        self.eot = self._special("<|endoftext|>")
        self.sot = self._special("<|startoftranscript|>")
        self.translate = self._special("<|translate|>")
        self.transcribe = self._special("<|transcribe|>")
        self.sot_lm = self._special("<|startoflm|>")
        self.sot_prev = self._special("<|startofprev|>")
        self.no_speech = self._special("<|nospeech|>", "<|nocaptions|>")  # the second name is Hugging Face's first
        self.no_timestamps = self._special("<|notimestamps|>")
        # Old tokenizers leave the timestamps out; the model has them after <|notimestamps|> all the same.
        self.timestamp_begin = vocabulary.special.get("<|0.00|>", self.no_timestamps + 1)
        self.is_multilingual = vocab_size >= MULTILINGUAL_VOCAB
        self._check_size()

    @classmethod
    def from_folder(cls, folder: Path, vocab_size: int) -> Tokenizer:
        """The tokenizer whose files are in `folder`, for a model with `vocab_size` logits.

        Raises `CheckpointNotFoundError` when there is none, and `CheckpointError` when it is damaged or belongs to
        another vocabulary.
        """
        return cls(Vocabulary.read(folder), vocab_size)

    def _special(self, *names: str) -> int:
        for name in names:
            if name in self._vocabulary.special:
                return self._vocabulary.special[name]
        raise CheckpointError(
            f"the tokenizer in {self._vocabulary.folder} has no token {names[0]}; expected a Whisper tokenizer"
        )

    def _check_size(self) -> None:
        known = self.timestamp_begin + N_TIMESTAMPS
        # A fine-tuned model may have more tokens than Whisper, never fewer; Whisper's own sizes must agree exactly.
        standard = self.vocab_size <= MULTILINGUAL_VOCAB + 1
        if known > self.vocab_size or (standard and known != self.vocab_size):
            raise CheckpointError(
                f"expected a tokenizer for {self.vocab_size} tokens, as the weights have; the one in "
                f"{self._vocabulary.folder} is for {known}. Put the tokenizer.json of this very model there."
            )

    def check_whole(self) -> None:
        """Raises `CheckpointError` unless every id below the special tokens has a text: one that lacks would never be
        learned, or its words would be spelled in pieces. Takes a tenth of a second.
        """
        # The last ordinary token of a multilingual vocabulary is the empty text, which no merge makes.
        ordinary = range(self.eot - self.is_multilingual)
        if missing := [token for token in ordinary if not self._vocabulary.has_text(token)]:
            raise CheckpointError(
                f"expected a text for each of the {len(ordinary)} tokens before <|endoftext|>; the tokenizer in "
                f"{self._vocabulary.folder} has none for {len(missing)} of them, first id {missing[0]}. Put the "
                "tokenizer.json of this very model there."
            )

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._vocabulary.folder

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of the languages that the model writes."""
        return tuple(self.language_tokens) if self.is_multilingual else ("en",)

    @cached_property
    def language_tokens(self) -> dict[str, int]:
        """Language code -> token id, in the order of the ids; also present, but unused, in English-only models."""
        found = {
            match[1]: token
            for text, token in self._vocabulary.special.items()
            if self.sot < token < self.translate and (match := _LANGUAGE_TOKEN.fullmatch(text))
        }
        return dict(sorted(found.items(), key=lambda item: item[1]))

    @cached_property
    def blank_tokens(self) -> tuple[int, ...]:
        """What may not come first when blanks are suppressed: a space alone, and the end."""
        return (*self.encode(" "), self.eot)

    @cached_property
    def non_speech_tokens(self) -> tuple[int, ...]:
        """Tokens of annotations such as "( SPEAKING FOREIGN LANGUAGE )" and "♪♪♪" (openai/whisper, tokenizer.py).

        Hyphens and quotes are suppressed at the beginning of a word only.
        """
        first = {self.encode(" -")[0], self.encode(" '")[0]}
        for mark in (*_ANNOTATION_MARKS, *_MUSICAL_SIGNS):
            for tokens in (self.encode(mark), self.encode(" " + mark)):
                if len(tokens) == 1 or mark in _MUSICAL_SIGNS:
                    first.add(tokens[0])
        return tuple(sorted(first))

    def language(self, language: str) -> str:
        """The code of a language that this checkpoint can write, from a code or an English name.

        Raises `UnknownLanguageError` when Whisper does not know it, or this checkpoint does not.
        """
        code = language_code(language)
        if not self.is_multilingual and code != "en":
            raise UnknownLanguageError(
                f"this model is English-only and cannot write {code!r}; choose a multilingual model such as 'base'"
            )
        if code not in self.language_tokens:
            raise UnknownLanguageError(
                f"this model has no token for {code!r}; it knows {', '.join(self.language_tokens)}"
            )
        return code

    def sot_sequence(self, language: str | None, task: Task = "transcribe", timestamps: bool = True) -> tuple[int, ...]:
        """The tokens that start a transcript: start, language and task where the model has them, no-timestamps.

        None as `language` is English, as in openai/whisper; a language must be detected before. English-only models
        have neither language nor task. Raises `UnknownLanguageError`, and `OptionError` when an English-only model is
        to translate.
        """
        code = self.language(language or "en")
        if not self.is_multilingual:
            if task == "translate":
                raise OptionError("an English-only model cannot translate; choose a multilingual model such as 'base'")
            start: tuple[int, ...] = (self.sot,)
        else:
            start = (self.sot, self.language_tokens[code], self.translate if task == "translate" else self.transcribe)
        return start if timestamps else (*start, self.no_timestamps)

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`. Special tokens spelled in the text are not recognised: a prompt cannot forge them."""
        return self._vocabulary.encode(text)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of `tokens` without special tokens; bytes that are no whole character become U+FFFD."""
        return self.decode_with_timestamps(token for token in tokens if token < self.eot)

    def decode_with_timestamps(self, tokens: Iterable[int]) -> str:
        """The text of `tokens`, special tokens spelled out: "<|0.00|> Hello<|0.46|>"."""
        # Bytes first, because one character may be spread over several tokens.
        return b"".join(map(self._bytes, tokens)).decode("utf-8", errors="replace")

    def _bytes(self, token: int) -> bytes:
        index = token - self.timestamp_begin
        if 0 <= index < N_TIMESTAMPS:
            return f"<|{index * TIMESTAMP_SAMPLES / SAMPLE_RATE:.2f}|>".encode()
        return self._vocabulary.token_bytes(token)

    def split_to_word_tokens(
        self, tokens: Sequence[int], language: str | None = None
    ) -> tuple[list[str], list[list[int]]]:
        """Words and the tokens of each; together they are `tokens` (openai/whisper, tokenizer.py).

        Languages written without spaces are split wherever the text decodes, others at spaces, punctuation and special
        tokens. Each word keeps its leading space.
        """
        pieces = self._split_at_characters(tokens)
        if self.is_multilingual and language is not None and language_code(language) in UNSPACED_LANGUAGES:
            return [text for text, _ in pieces], [ids for _, ids in pieces]
        words: list[str] = []
        word_tokens: list[list[int]] = []
        for text, ids in pieces:
            # An empty text counts as punctuation here, as it does in the original.
            begins = ids[0] >= self.eot or text.startswith(" ") or text.strip() in string.punctuation
            if begins or not words:
                words.append(text)
                word_tokens.append(ids)
            else:
                words[-1] += text
                word_tokens[-1].extend(ids)
        return words, word_tokens

    def _split_at_characters(self, tokens: Sequence[int]) -> list[tuple[str, list[int]]]:
        """The shortest runs of tokens that decode to whole characters, or to the U+FFFD that the whole text has too."""
        whole = self.decode_with_timestamps(tokens)
        pieces: list[tuple[str, list[int]]] = []
        current: list[int] = []
        offset = 0
        for token in tokens:
            current.append(token)
            text = self.decode_with_timestamps(current)
            broken = text.find(_REPLACEMENT)
            if broken < 0 or whole[offset + broken : offset + broken + 1] == _REPLACEMENT:
                pieces.append((text, current))
                current = []
                offset += len(text)
        if current:  # the original loses these tokens, or fails: broken bytes that decode differently on their own
            rest = whole[offset:]
            if rest or not pieces:
                pieces.append((rest, current))
            else:
                pieces[-1][1].extend(current)
        return pieces


TOKENIZER_JSON = "tokenizer.json"
VOCAB_JSON = "vocab.json"
MERGES_TXT = "merges.txt"
ADDED_TOKENS_JSON = "added_tokens.json"


_MAX_JSON = 8_000_000  # bytes; the largest file of a Whisper, tokenizer.json, has half of that


def read_bytes(path: Path) -> bytes:
    """A JSON file of a checkpoint. Raises `CheckpointError` for one that no checkpoint has, and `OSError`."""
    with path.open("rb") as file:
        content = file.read(_MAX_JSON + 1)
    if len(content) > _MAX_JSON:
        raise CheckpointError(f"expected at most {_MAX_JSON} bytes in {path}; got more: it belongs to no Whisper")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises `CheckpointNotFoundError` when the file is missing and `CheckpointError` when it is not a JSON object.
    """
    try:
        value = json.loads(read_bytes(path))
    except FileNotFoundError as error:
        raise CheckpointNotFoundError(
            f"expected {path.name} in {path.parent}, but it is not there; download the model again, or name a folder "
            "that holds a whole Hugging Face checkpoint"
        ) from error
    except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8, or nested too deep to be meant
        raise CheckpointError(
            f"{path} is not valid JSON ({error}); it is damaged or truncated: download the model again"
        ) from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"expected a JSON object in {path}; got {type(value).__name__}")
    return value


def _byte_characters() -> dict[int, str]:
    """GPT-2's printable stand-in for each byte: itself where it is printable Latin-1, else a letter from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}


_BYTE_OF = {char: byte for byte, char in _byte_characters().items()}


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of one checkpoint. `special` maps the text of each special token to its id."""

    folder: Path
    special: dict[str, int]

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
        special = read_json(folder / VOCAB_JSON)
        if (folder / ADDED_TOKENS_JSON).is_file():
            special |= read_json(folder / ADDED_TOKENS_JSON)
        return cls(folder, {text: token for text, token in special.items() if text.startswith("<|")})

    def _read_model(self) -> tuple[dict[str, int], list[tuple[str, str]]]:
        """Ordinary tokens with their ids, and the merges in order of priority."""
        path = self.folder / TOKENIZER_JSON
        try:
            if path.is_file():
                model = read_json(path)["model"]
                if model.get("type", "BPE") != "BPE":
                    raise CheckpointError(f"expected a byte-pair tokenizer in {path}; got {model['type']!r}")
                return model["vocab"], [_pair(merge) for merge in model["merges"]]
            lines = (self.folder / MERGES_TXT).read_text(encoding="utf-8").splitlines()
            merges = [_pair(line) for line in lines if line and not line.startswith("#version")]
            return read_json(self.folder / VOCAB_JSON), merges
        except CheckpointError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self._damaged(repr(error)) from error

    @cached_property
    def _loaded(self) -> tuple[Any, dict[int, str]]:
        """The encoder, and the text of every ordinary token."""
        # The special tokens stay out of the encoder, so that text which happens to spell one is only text.
        from tokenizers import Tokenizer, models, pre_tokenizers

        vocab, merges = self._read_model()
        try:
            encoder = Tokenizer(models.BPE(vocab=vocab, merges=merges))
        except Exception as error:  # the library raises bare Exception for a merge of unknown tokens
            raise self._damaged(error) from error
        # Texts bring their leading space with them, as Whisper's do.
        encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        return encoder, {token: text for text, token in vocab.items()}

    def _damaged(self, reason: object) -> CheckpointError:
        return CheckpointError(f"the tokenizer in {self.folder} is damaged ({reason}): download it again")

    @cached_property
    def _special_of(self) -> dict[int, str]:
        return {token: text for text, token in self.special.items()}

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; special tokens spelled in it are not recognised."""
        encoding = cast("Encoding", self._loaded[0].encode(text, add_special_tokens=False))
        return list(encoding.ids)

    def has_text(self, token: int) -> bool:
        """Whether an ordinary token has this id."""
        return token in self._loaded[1]

    def token_bytes(self, token: int) -> bytes:
        """The UTF-8 bytes that a token stands for, possibly cut inside a character.

        Raises `CheckpointError` when no token has this id.
        """
        if token in self._special_of:
            return self._special_of[token].encode()
        text = self._loaded[1].get(token)
        if text is None:
            raise CheckpointError(
                f"token id {token} is not in the tokenizer of {self.folder}: the weights and the tokenizer do not match"
            )
        return bytes(_BYTE_OF[char] for char in text)


def has_tokenizer(folder: Path) -> bool:
    """Whether `folder` holds the files of a tokenizer."""
    return (folder / TOKENIZER_JSON).is_file() or ((folder / VOCAB_JSON).is_file() and (folder / MERGES_TXT).is_file())


def _pair(merge: Any) -> tuple[str, str]:
    """Both spellings of a merge: "a b" (until tokenizers 0.19) and ["a", "b"]."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _special_of_tokenizer_json(path: Path) -> dict[str, int]:
    """The added tokens of a `tokenizer.json`, without parsing the megabytes of vocabulary after them."""
    try:
        text = read_bytes(path).decode()  # in text mode the newlines of these megabytes cost more than all the rest
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): download the model again") from error
    start = text.find('"added_tokens"')
    try:
        # A file that broke off lacks its end, although the part that is read here may be whole.
        if not text.rstrip().endswith("}"):
            raise ValueError("it ends early")
        added, _ = json.JSONDecoder().raw_decode(text, text.index("[", start))
        return {item["content"]: item["id"] for item in added}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is not a tokenizer ({error}): it is damaged or truncated; download the model again"
        ) from error
