"""Words, pieces and punctuation, in scripts with spaces and without."""

import pytest

from multilingual_tokenizer import multilingual_tokenizer
from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.tokenizer import Tokenizer
from whispertide.decoding.token_words import TokenKinds


@pytest.fixture(scope="module")
def multilingual(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("multilingual")
    (folder / "tokenizer.json").write_text(multilingual_tokenizer())
    return Tokenizer.from_folder(folder, 51_865)


def one(tokenizer: Tokenizer, text: str) -> int:
    tokens = tokenizer.encode(text)
    assert len(tokens) == 1, f"{text!r} is {len(tokens)} tokens"
    return tokens[0]


def test_english() -> None:
    tokenizer = load_checkpoint("nano.en").tokenizer
    kinds = TokenKinds(tokenizer, "en")
    for word in (" the", " A", " 7", " don"):
        assert kinds.is_content(one(tokenizer, word)), word
    for piece in ("ing", "s", "ed"):
        assert kinds.is_piece(one(tokenizer, piece))
        assert kinds.continues(one(tokenizer, piece))
        assert not kinds.is_content(one(tokenizer, piece))
    for mark in (",", ".", " -", "?!"):
        token = one(tokenizer, mark)
        assert not kinds.is_content(token)
        assert not kinds.is_piece(token)
        assert not kinds.speaks(token)
        assert kinds.continues(token) == (not mark.startswith(" "))
    assert not kinds.is_content(tokenizer.eot)
    assert not kinds.speaks(tokenizer.timestamp_begin)
    assert kinds.continues(one(tokenizer, "20"))  # digits without a space go on with a number


def test_character_scripts_have_no_pieces(multilingual: Tokenizer) -> None:
    token = one(multilingual, "你")
    assert TokenKinds(multilingual, "zh").is_content(token)
    assert not TokenKinds(multilingual, "zh").is_piece(token)
    assert not TokenKinds(multilingual, "zh").continues(token)
    assert TokenKinds(multilingual, "en").is_piece(token)
    assert TokenKinds(multilingual, "ja").is_content(one(multilingual, "の"))
    assert not TokenKinds(multilingual, "zh").is_content(one(multilingual, "。"))


@pytest.mark.parametrize(("language", "word"), [("ka", " გამარჯობა"), ("hi", " नमस्ते")])
def test_a_word_may_begin_with_part_of_a_character(multilingual: Tokenizer, language: str, word: str) -> None:
    kinds = TokenKinds(multilingual, language)
    first, second, *_ = multilingual.encode(word)
    assert kinds.is_content(first)
    assert not kinds.continues(first)
    assert kinds.is_piece(second)
    assert kinds.continues(second)


def test_part_of_a_character_is_a_piece_everywhere(multilingual: Tokenizer) -> None:
    tokens = multilingual.encode("鱻")
    assert len(tokens) > 1
    for language in ("zh", "en"):
        kinds = TokenKinds(multilingual, language)
        assert all(kinds.is_piece(token) and kinds.continues(token) for token in tokens)
        assert all(kinds.speaks(token) for token in tokens)
