"""Tokens known by their texts alone encode as OpenAI's do."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from multilingual_tokenizer import multilingual_tokenizer
from whispertide.checkpoint import Tokenizer
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.checkpoint.ranked_vocabulary import special_tokens, split_special, with_lost_merges
from whispertide.checkpoint.vocabulary import Vocabulary
from whispertide.errors import CheckpointError

NANO = BUNDLED_DIR / "nano.en"


@pytest.fixture(scope="module")
def pair() -> tuple[Tokenizer, Tokenizer]:
    """nano.en's tokenizer, and one that knows no more of it than the bytes of its tokens."""
    known = Tokenizer.from_folder(NANO, 51_864)
    tokens = [known.token_bytes(token) for token in range(known.eot)]
    return known, Tokenizer(Vocabulary.of_bytes(NANO, tokens, 51_864), 51_864)


@pytest.mark.slow
@given(text=st.text(max_size=40))
@example(" the the  the\n\tthe don't 2'000,00 aaaaaaaa -- ... ( ♪ ) été ⁠日本語")
def test_the_same_tokens_from_the_texts_alone(pair: tuple[Tokenizer, Tokenizer], text: str) -> None:
    known, ranked = pair
    assert ranked.encode(text) == known.encode(text)
    assert ranked.decode(ranked.encode(text)) == text


@pytest.mark.parametrize(("size", "languages"), [(51_865, 99), (51_866, 100)])
def test_special_tokens_have_openais_ids(size: int, languages: int) -> None:
    added = json.loads(multilingual_tokenizer(languages))["added_tokens"]
    ids = {item["content"].replace("nocaptions", "nospeech"): item["id"] for item in added}
    assert special_tokens(size) == {text: token for text, token in ids.items() if "." not in text}


def test_the_english_ones() -> None:
    found, known = special_tokens(51_864), Tokenizer.from_folder(NANO, 51_864)
    named = {text: token for text, token in known._vocabulary.special.items() if token < known.timestamp_begin}
    for text, token in named.items():
        assert found[{"<|nocaptions|>": "<|nospeech|>", "<|iw|>": "<|he|>"}.get(text, text)] == token
    assert len(found) == len(named)


@pytest.mark.parametrize("size", [40, 51_863, 51_867, 60_000])
def test_sizes_that_no_whisper_has(size: int) -> None:
    with pytest.raises(CheckpointError, match=f"as OpenAI's models have; got {size}"):
        special_tokens(size)


def test_a_list_of_all_texts_is_split() -> None:
    texts = ["a", "b", "ab", "<|endoftext|>", "<|startoftranscript|>"]
    assert split_special(texts) == ({"<|endoftext|>": 3, "<|startoftranscript|>": 4}, ("a", "b", "ab"))
    assert split_special(["a", "<|"]) == ({}, ("a", "<|"))


def test_merges_that_are_whole_stay_as_they_are() -> None:
    ids, merges = {"a": 0, "b": 1, "ab": 2, "abab": 3}, [("a", "b"), ("ab", "ab")]
    assert with_lost_merges(ids, merges) is merges
    assert with_lost_merges(ids, merges[1:]) == merges


@pytest.mark.slow
def test_the_merge_that_published_tokenizers_lost(tmp_path: Path) -> None:
    """The multilingual tokenizer.json of the hub has every merge but the first one, "Ġ t"."""
    (tmp_path / "tokenizer.json").write_text(multilingual_tokenizer(99))
    original = Tokenizer.from_folder(tmp_path, 51_865)
    assert len(original.encode(" the")) == 1
    published = json.loads(multilingual_tokenizer(99))
    merges = published["model"]["merges"]
    lost = next(merge for merge in merges if "".join(merge).replace(" ", "") == "Ġt")
    published["model"]["merges"] = [merge for merge in merges if merge != lost]
    (tmp_path / "tokenizer.json").write_text(json.dumps(published))
    tokenizer = Tokenizer.from_folder(tmp_path, 51_865)
    for text in (" the", " Take the train to the town.", "Tom, that is two times too tall."):
        assert tokenizer.encode(text) == original.encode(text)


@pytest.mark.parametrize("content", ["{}", "[1, 2]", "[", '["a", null]', "[" * 10_000])
def test_a_damaged_list(content: str, tmp_path: Path) -> None:
    (tmp_path / "vocabulary.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"vocabulary\.json"):
        Vocabulary.read(tmp_path)
