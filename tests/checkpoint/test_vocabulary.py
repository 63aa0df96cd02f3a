import json
import shutil
from pathlib import Path

import pytest

from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.checkpoint.vocabulary import Vocabulary, has_tokenizer
from whispertide.errors import CheckpointError, CheckpointNotFoundError

NANO = BUNDLED_DIR / "nano.en"


@pytest.mark.slow
def test_vocab_and_merges_are_the_same_vocabulary(tmp_path: Path) -> None:
    whole = Vocabulary.read(NANO)
    shutil.copy(NANO / "vocab.json", tmp_path)
    assert not has_tokenizer(tmp_path)
    for name in ("merges.txt", "added_tokens.json"):
        shutil.copy(NANO / name, tmp_path)
    assert has_tokenizer(tmp_path)
    parts = Vocabulary.read(tmp_path)
    assert parts.special.items() <= whole.special.items()
    assert parts.encode(" naïve <|0.00|>") == whole.encode(" naïve <|0.00|>")
    assert {token: parts.texts[token] for token in range(50_256)} == {
        token: whole.texts[token] for token in range(50_256)
    }


def test_special_tokens_are_known_before_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"added_tokens": [{"id": 7, "content": "<|en|>"}]}')
    vocabulary = Vocabulary.read(tmp_path)
    assert (vocabulary.special, vocabulary.special_texts) == ({"<|en|>": 7}, {7: "<|en|>"})
    with pytest.raises(CheckpointError, match="damaged"):
        vocabulary.texts  # noqa: B018  (it is read when it is asked for)


def test_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"expected tokenizer.json, or vocab.json with merges.txt"):
        Vocabulary.read(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"added_tokens": [{"id": 1}]}',
        b"\xff\xfe not text",
        (NANO / "tokenizer.json").read_bytes()[:200_000],
        (NANO / "tokenizer.json").read_bytes()[:-5],
    ],
    ids=["empty", "no tokens", "no content", "no text", "truncated", "slightly truncated"],
)
def test_a_damaged_tokenizer(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"damaged or truncated|cannot be read"):
        Vocabulary.read(tmp_path)


@pytest.mark.parametrize(
    "model", [{"type": "Unigram"}, {}, {"vocab": {}, "merges": [["a", "b"]]}, {"vocab": {"a": 0}, "merges": ["a"]}]
)
def test_a_damaged_vocabulary_shows_when_text_is_encoded(tmp_path: Path, model: dict[str, object]) -> None:
    content = json.loads((NANO / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": content["added_tokens"], "model": model}))
    vocabulary = Vocabulary.read(tmp_path)
    with pytest.raises(CheckpointError, match=r"byte-pair|damaged"):
        vocabulary.encode("a")
