"""Whisper's tokens: text to ids and back, special tokens, and the grouping of tokens into words.

Every id is read from the checkpoint's own tokenizer: English-only, multilingual and large-v3 vocabularies number their
special tokens differently. This module does not know about weights, rules or prompts.

`token_kinds` tells what a token is: the beginning of a word, a piece of one, punctuation. Languages written without
spaces have no pieces of words: there every character counts by itself (NPUsper's rule for Chinese, here for all such
scripts). A token that is only part of a character is a piece everywhere, unless it begins with a space where words do.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path

from whispertide.checkpoint.dims import MULTILINGUAL_VOCAB
from whispertide.checkpoint.languages import UNSPACED_LANGUAGES, language_code
from whispertide.checkpoint.untrusted import quote
from whispertide.checkpoint.vocabulary import BYTE_OF, Vocabulary
from whispertide.errors import CheckpointError, OptionError, UnknownLanguageError
from whispertide.options import Task
from whispertide.punctuation import AFTER_WORDS
from whispertide.types import CHUNK_SECONDS, SAMPLE_RATE

TIMESTAMP_SAMPLES = SAMPLE_RATE // 50  # a timestamp token counts 20 ms
N_TIMESTAMPS = CHUNK_SECONDS * SAMPLE_RATE // TIMESTAMP_SAMPLES + 1  # 0.00 to 30.00 seconds: 1,501 tokens

_LANGUAGE_TOKEN = re.compile(r"<\|([a-z]{2,3})\|>")
REPLACEMENT = "\ufffd"  # what bytes that are no character decode to
_LONGEST_MARK = 2  # characters of a token that is punctuation

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
        """Read the tokenizer in `folder`, for a model with `vocab_size` logits.

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
        known, added = self.added_tokens.start, max(self._vocabulary.special.values()) + 1
        # A fine-tuned model may have more tokens than Whisper, never fewer; Whisper's own sizes must agree exactly, and
        # an English-only model with more would count as multilingual.
        agrees = self.vocab_size in (known, added) or self.vocab_size > MULTILINGUAL_VOCAB + 1
        is_english = known < MULTILINGUAL_VOCAB <= self.vocab_size
        if known > self.vocab_size or not agrees or is_english:
            raise CheckpointError(
                f"expected a tokenizer for {self.vocab_size} tokens, as the weights have; the one in "
                f"{self._vocabulary.folder} is for {known}. Put the tokenizer.json of this very model there."
            )

    def check_whole(self) -> None:
        """Raises `CheckpointError` unless every id below the special tokens has a text: one without would never be
        learned, or its words would be spelled in pieces. Takes a tenth of a second.
        """
        # The last ordinary token of a multilingual vocabulary is the empty text, which no merge makes.
        ordinary = range(self.eot - self.is_multilingual)
        if missing := [token for token in ordinary if token not in self._vocabulary.texts]:
            raise CheckpointError(
                f"expected a text for each of the {len(ordinary)} tokens before <|endoftext|>; the tokenizer in "
                f"{self._vocabulary.folder} has none for {len(missing)} of them, first id {missing[0]}. Put the "
                "tokenizer.json of this very model there."
            )

    @property
    def folder(self) -> Path:
        return self._vocabulary.folder

    @property
    def added_tokens(self) -> range:
        """What a fine-tuned model has after Whisper's own tokens, the last of which are the timestamps."""
        return range(self.timestamp_begin + N_TIMESTAMPS, self.vocab_size)

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of the languages that the model writes."""
        return tuple(self.language_tokens) if self.is_multilingual else ("en",)

    @cached_property
    def language_tokens(self) -> dict[str, int]:
        """Map language codes to token ids, ordered by id; also present, but unused, in English-only models."""
        found = {
            match[1]: token
            for text, token in self._vocabulary.special.items()
            if self.sot < token < self.translate and (match := _LANGUAGE_TOKEN.fullmatch(text))
        }
        return dict(sorted(found.items(), key=lambda item: item[1]))

    @cached_property
    def blank_tokens(self) -> tuple[int, ...]:
        """The tokens that may not come first when blanks are suppressed: a space alone, and the end."""
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
        """Find the code of a language that this checkpoint knows, from a code or an English name.

        Raises `UnknownLanguageError` when Whisper does not know it, or this checkpoint does not.
        """
        code = language_code(language)
        if not self.is_multilingual and code != "en":
            raise UnknownLanguageError(
                f"this model is English-only and cannot write {code!r}; choose a multilingual model such as 'base'"
            )
        if code not in self.language_tokens:
            raise UnknownLanguageError(
                f"this model has no token for {code!r}; it has {', '.join(self.language_tokens)}"
            )
        return code

    def sot_sequence(self, language: str | None, task: Task = "transcribe", timestamps: bool = True) -> tuple[int, ...]:
        """The tokens that start a transcript: start, language and task if the model has them, no-timestamps.

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
        """Encode `text` as token ids. Special tokens spelled in the text are not recognised: a prompt cannot forge
        them.
        """
        return self._vocabulary.encode(text)

    def decode(self, tokens: Iterable[int]) -> str:
        """Decode `tokens` without special tokens; bytes that are no complete character become U+FFFD."""
        return self.decode_with_timestamps(token for token in tokens if token < self.eot)

    def decode_with_timestamps(self, tokens: Iterable[int]) -> str:
        """Decode `tokens` with special tokens spelled out: "<|0.00|> Hello<|0.46|>"."""
        # Bytes first, because one character may be spread over several tokens.
        return b"".join(map(self.token_bytes, tokens)).decode("utf-8", errors="replace")

    def token_bytes(self, token: int) -> bytes:
        """The UTF-8 bytes that a token stands for, possibly cut inside a character.

        Raises `CheckpointError` when no token has this id.
        """
        index = token - self.timestamp_begin
        if 0 <= index < N_TIMESTAMPS:
            return f"<|{index * TIMESTAMP_SAMPLES / SAMPLE_RATE:.2f}|>".encode()
        if (special := self._vocabulary.special_texts.get(token)) is not None:
            return special.encode()
        text = self._vocabulary.texts.get(token)
        if text is None:
            raise CheckpointError(
                f"token id {token} is not in the tokenizer of {self.folder}: the weights and the tokenizer do not match"
            )
        try:
            return bytes(BYTE_OF[char] for char in text)
        except KeyError:
            raise CheckpointError(
                f"token id {token} of the tokenizer in {self.folder} is spelled {quote(text)}, which are not bytes: "
                "it is damaged; download it again"
            ) from None

    def split_to_word_tokens(
        self, tokens: Sequence[int], language: str | None = None
    ) -> tuple[list[str], list[list[int]]]:
        """Split `tokens` into words and the tokens of each (openai/whisper, tokenizer.py).

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
        """Split into the shortest runs of tokens that decode to complete characters, or to the U+FFFD that the whole
        text has too.
        """
        whole = self.decode_with_timestamps(tokens)
        pieces: list[tuple[str, list[int]]] = []
        current: list[int] = []
        offset = 0
        for token in tokens:
            current.append(token)
            text = self.decode_with_timestamps(current)
            broken = text.find(REPLACEMENT)
            if broken < 0 or whole[offset + broken : offset + broken + 1] == REPLACEMENT:
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


@dataclass(frozen=True, slots=True)
class TokenKind:
    """What a token is, in one language.

    is_special  end of text, timestamps and the like: nothing else is true of these
    is_mark     one or two characters after an optional space, none of them a letter or digit (or no character at all)
    is_content  begins something spoken: no mark, no part of a character, and in a language with spaces no letters
                without one in front
    closes      nothing but marks that stand after a word: ends of sentences and clauses, closing quotes and brackets
    continues   belongs to the word before it: a piece, digits without a space, closing punctuation
    speaks      has a letter or digit, or part of one
    """

    is_special: bool = False
    is_mark: bool = False
    is_content: bool = False
    closes: bool = False
    continues: bool = False
    speaks: bool = False


KindOf = Callable[[int], TokenKind]  # of a token of one vocabulary, in one language


def token_kinds(tokenizer: Tokenizer, language: str | None = None) -> KindOf:
    """Tells the kinds of a vocabulary's tokens in one language (a code; None is English). Each is found out once."""
    return lru_cache(maxsize=4096)(partial(_kind, tokenizer, language not in UNSPACED_LANGUAGES))


def _kind(tokenizer: Tokenizer, spaced: bool, token: int) -> TokenKind:
    if token >= tokenizer.eot:
        return TokenKind(is_special=True)
    text = tokenizer.decode([token])
    says = any(map(speaks, text))
    is_mark = not says and len(text.removeprefix(" ")) <= _LONGEST_MARK
    begins = spaced and text.startswith(" ")
    is_piece = not begins and (REPLACEMENT in text or (spaced and any(map(str.isalpha, text))))
    return TokenKind(
        is_mark=is_mark,
        is_content=not (is_mark or is_piece),
        closes=text != "" and not text.strip(AFTER_WORDS),
        continues=not begins if spaced else REPLACEMENT in text,
        speaks=says,
    )


def speaks(character: str) -> bool:
    """True if a character is a letter or digit, or a broken one, which may be."""
    return character.isalnum() or character == REPLACEMENT
