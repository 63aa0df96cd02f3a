"""Folders of CTranslate2, with a fake of the package: which tokens it gets, and what is missing is named."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from whispertide.errors import OptionError
from whispertide.translation.flores import FLORES
from whispertide.translation.folder import FolderTranslator
from whispertide.translation.opening import open_translator
from whispertide.translation.translator import Request, TranslatorError

HELLO = Request(("Hello world", "How are you"), "en", "fr")


class FakeModel:
    """Answers with the tokens in capitals, after the prefix."""

    made: list[dict[str, Any]] = []  # noqa: RUF012
    calls: list[dict[str, Any]] = []  # noqa: RUF012
    problem: Exception | None = None

    def __init__(self, folder: str, **settings: Any) -> None:
        if "broken" in folder:
            raise RuntimeError("unsupported model version")
        FakeModel.made.append({"folder": folder, **settings})

    def translate_batch(
        self, source: list[list[str]], target_prefix: list[list[str]] | None = None, **settings: Any
    ) -> list[Any]:
        if FakeModel.problem is not None:
            raise FakeModel.problem
        FakeModel.calls.append({"source": source, "target_prefix": target_prefix, **settings})
        prefixes = target_prefix or [[]] * len(source)
        skipped = 1 if target_prefix else 0
        return [
            SimpleNamespace(hypotheses=[[*prefix, *(token.upper() for token in tokens[skipped:-1])]])
            for tokens, prefix in zip(source, prefixes, strict=True)
        ]


class FakePieces:
    def __init__(self, model_file: str) -> None:
        self.file = Path(model_file)

    def encode(self, text: str, out_type: type) -> list[str]:
        assert out_type is str
        return ["\u2581" + word for word in text.split()]

    def decode(self, tokens: list[str]) -> str:
        return f"{self.file.stem}: " + "".join(tokens).replace("\u2581", " ").strip()


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeModel.made, FakeModel.calls, FakeModel.problem = [], [], None
    monkeypatch.setitem(sys.modules, "ctranslate2", SimpleNamespace(Translator=FakeModel))
    monkeypatch.setitem(sys.modules, "sentencepiece", SimpleNamespace(SentencePieceProcessor=FakePieces))


def folder_with(path: Path, *names: str) -> Path:
    path.mkdir(exist_ok=True)
    for name in ("model.bin", *names):
        (path / name).write_bytes(b"")
    return path


def nllb_with_tokenizer_file(path: Path) -> Path:
    words = ["Hello", "world", "How", "are", "you", "HELLO", "WORLD", "HOW", "ARE", "YOU", "?"]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, "?"))
    tokenizer.pre_tokenizer = Whitespace()
    folder_with(path)
    tokenizer.save(str(path / "tokenizer.json"))
    return path


def test_nllb_gets_the_languages_as_tokens(tmp_path: Path) -> None:
    opened = open_translator(str(nllb_with_tokenizer_file(tmp_path / "nllb")))
    assert opened.translate(HELLO) == "HELLO WORLD HOW ARE YOU"
    (call,) = FakeModel.calls
    assert call["source"] == [
        ["eng_Latn", "Hello", "world", "</s>"],
        ["eng_Latn", "How", "are", "you", "</s>"],
    ]
    assert call["target_prefix"] == [["fra_Latn"]] * 2
    assert opened.host is None
    assert (FakeModel.made[0]["inter_threads"], FakeModel.made[0]["intra_threads"]) == (1, 1)


def test_nllb_with_the_model_of_sentencepiece(tmp_path: Path) -> None:
    opened = FolderTranslator(folder_with(tmp_path / "nllb", "sentencepiece.bpe.model"))
    assert opened.translate(Request(("Hello world",), "en", "de")) == "sentencepiece.bpe: HELLO WORLD"
    assert FakeModel.calls[0]["target_prefix"] == [["deu_Latn"]]


def test_opus_has_a_tokenizer_for_each_side_and_no_languages(tmp_path: Path) -> None:
    opened = FolderTranslator(folder_with(tmp_path / "opus", "source.spm", "target.spm"))
    assert opened.translate(Request(("Hello world",), None, "fr")) == "target: HELLO WORLD"
    (call,) = FakeModel.calls
    assert call["source"] == [["\u2581Hello", "\u2581world", "</s>"]]
    assert call["target_prefix"] is None


def test_what_a_folder_cannot_do_is_refused(tmp_path: Path) -> None:
    opened = FolderTranslator(folder_with(tmp_path / "nllb", "sentencepiece.bpe.model"))
    opened.check("fr")
    with pytest.raises(OptionError, match="a folder can only translate"):
        opened.check(None)
    with pytest.raises(OptionError, match="NLLB knows; got breton"):
        opened.check("br")
    with pytest.raises(TranslatorError, match="NLLB knows") as found:
        opened.translate(Request(("Salve",), "la", "fr"))
    assert found.value.failure == "answer"


def test_a_failure_of_the_library_is_one_of_the_translator(tmp_path: Path) -> None:
    opened = FolderTranslator(folder_with(tmp_path / "opus", "source.spm", "target.spm"))
    FakeModel.problem = RuntimeError("CUDA out of memory")
    with pytest.raises(TranslatorError, match="CUDA out of memory"):
        opened.translate(HELLO)


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"with model\.bin; got .*ct2-transformers-converter"):
        open_translator(str(tmp_path / "nothing"))
    with pytest.raises(OptionError, match=r"expected tokenizer\.json or .*; none is there"):
        open_translator(str(folder_with(tmp_path / "bare")))
    with pytest.raises(OptionError, match="cannot be loaded: unsupported model version"):
        open_translator(str(folder_with(tmp_path / "broken", "sentencepiece.bpe.model")))
    damaged = folder_with(tmp_path / "damaged", "tokenizer.json")
    with pytest.raises(OptionError, match=r"tokenizer\.json cannot be read"):
        open_translator(str(damaged))
    with pytest.raises(OptionError, match="is a folder, which is the model"):
        open_translator(str(damaged), "llm")
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(OptionError, match=r"extra 'translation' .*not installed: sentencepiece; .*\.\[translation\]"):
        open_translator(str(folder_with(tmp_path / "opus", "source.spm", "target.spm")))
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(OptionError, match="not installed: ctranslate2"):
        open_translator(str(damaged))


def test_the_codes_are_those_of_whisper() -> None:
    from whispertide.checkpoint.languages import LANGUAGES

    assert set(LANGUAGES) - set(FLORES) == {"la", "br", "haw"}
    assert set(FLORES) <= set(LANGUAGES)
    assert len(set(FLORES.values())) == len(FLORES)
    assert json.dumps(dict(FLORES)).isascii()
