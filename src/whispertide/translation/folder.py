"""A folder of CTranslate2 as a translator: NLLB, or an Opus-MT model of one pair of languages. All on this machine.

The folder is what `ct2-transformers-converter` writes, with the tokenizer's files next to `model.bin`: `tokenizer.json`
or `sentencepiece.bpe.model` of NLLB, `source.spm` and `target.spm` of Opus-MT. CTranslate2 and sentencepiece come with
the extra `translation`, and are loaded only when such a folder is opened.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from whispertide.checkpoint.languages import LANGUAGES
from whispertide.errors import OptionError
from whispertide.extras import not_installed
from whispertide.translation.flores import FLORES
from whispertide.translation.translator import Request, TranslatorError

_END = "</s>"
_MOST_TOKENS = 512  # of one sentence, which has 400 characters at most
_CONVERT = (
    "ct2-transformers-converter --model facebook/nllb-200-distilled-600M --copy_files tokenizer.json --output_dir {}"
)


class _Tokens(Protocol):
    """Splits a sentence into tokens, and joins them again."""

    def split(self, text: str) -> list[str]: ...

    def join(self, tokens: Sequence[str]) -> str: ...


class FolderTranslator:
    """Runs a folder's model, one request at a time. Satisfies `Translator`."""

    def __init__(self, folder: Path) -> None:
        """Raises `OptionError` for a folder that is none of these, and where a package is missing."""
        if not (folder / "model.bin").is_file():
            raise OptionError(
                f"expected the address of a translator, or a folder of CTranslate2 with model.bin; got {folder}. NLLB "
                f"becomes one by: {_CONVERT.format(folder)}"
            )
        self.folder = folder
        ctranslate2 = _package("ctranslate2")
        self._is_nllb = not (folder / "source.spm").is_file()
        self._source, self._target = _tokenizers(folder)
        try:
            # One thread: captions are computed on the same cores, and come first.
            self._model: Any = ctranslate2.Translator(str(folder), device="auto", inter_threads=1, intra_threads=1)
        except (RuntimeError, ValueError) as error:
            raise OptionError(f"expected a model of CTranslate2 in {folder}; it cannot be loaded: {error}") from error
        self._place = threading.Lock()

    @property
    def name(self) -> str:
        return str(self.folder)

    @property
    def host(self) -> str | None:
        return None

    def check(self, target: str | None) -> None:
        """Raise `OptionError` for a correction, and for a language that NLLB does not know. A folder of Opus-MT does
        not say which its languages are.
        """
        if target is None:
            raise OptionError("expected a language model for --correct, at an endpoint; a folder can only translate")
        if self._is_nllb and target not in FLORES:
            raise OptionError(f"expected a language that NLLB knows; got {LANGUAGES[target]}")

    def translate(self, request: Request) -> str:
        """Translate sentence by sentence. Raises `TranslatorError`."""
        assert request.target is not None  # `check`
        if self._is_nllb and request.source not in FLORES:
            raise TranslatorError(f"{self.name}: expected speech in a language that NLLB knows; got another", "answer")
        with self._place:
            try:
                return " ".join(self._run(request.sentences, request.source or "", request.target))
            except (RuntimeError, ValueError) as error:  # such as no memory on the GPU
                raise TranslatorError(f"{self.name}: {error}", "answer") from error

    def close(self) -> None:
        """The model goes with the object."""

    def _run(self, sentences: Sequence[str], source: str, target: str) -> list[str]:
        prefixes = None
        # Both models were trained with the end of the sentence as a token; NLLB's begins with its language.
        pieces = [[*self._source.split(sentence), _END] for sentence in sentences]
        if self._is_nllb:
            pieces = [[FLORES[source], *tokens] for tokens in pieces]
            prefixes = [[FLORES[target]]] * len(pieces)
        results = self._model.translate_batch(
            pieces, target_prefix=prefixes, beam_size=2, max_input_length=_MOST_TOKENS, max_decoding_length=_MOST_TOKENS
        )
        first = 1 if self._is_nllb else 0  # after the prefix
        return [self._target.join(result.hypotheses[0][first:]).strip() for result in results]


class _SentencePiece:
    """A model of sentencepiece."""

    def __init__(self, file: Path) -> None:
        self._model: Any = _package("sentencepiece").SentencePieceProcessor(model_file=str(file))

    def split(self, text: str) -> list[str]:
        return list(self._model.encode(text, out_type=str))

    def join(self, tokens: Sequence[str]) -> str:
        return str(self._model.decode(list(tokens)))


class _TokenizerFile:
    """A `tokenizer.json`, which the base install can read."""

    def __init__(self, file: Path) -> None:
        from tokenizers import Tokenizer

        try:
            self._model: Any = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises nothing more exact
            raise OptionError(f"expected the tokenizer of a translator; {file} cannot be read: {error}") from error

    def split(self, text: str) -> list[str]:
        return list(self._model.encode(text, add_special_tokens=False).tokens)

    def join(self, tokens: Sequence[str]) -> str:
        return str(self._model.decode([self._model.token_to_id(token) for token in tokens]))


def _tokenizers(folder: Path) -> tuple[_Tokens, _Tokens]:
    """The tokenizers of both sides. Raises `OptionError` where they are missing."""
    if (folder / "source.spm").is_file() and (folder / "target.spm").is_file():
        return _SentencePiece(folder / "source.spm"), _SentencePiece(folder / "target.spm")
    for name, kind in (("tokenizer.json", _TokenizerFile), ("sentencepiece.bpe.model", _SentencePiece)):
        if (folder / name).is_file():
            both = kind(folder / name)
            return both, both
    raise OptionError(
        f"expected tokenizer.json or sentencepiece.bpe.model (NLLB), or source.spm and target.spm (Opus-MT), next to "
        f"model.bin in {folder}; none is there: copy them from where the model is from"
    )


def _package(name: str) -> Any:
    """Import a package of the extra. Raises `OptionError` where it is not installed."""
    try:
        return __import__(name)
    except ImportError as error:
        raise OptionError(not_installed("translation", "a folder of CTranslate2", [name])) from error
