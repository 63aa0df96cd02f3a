import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from whispertide.checkpoint import Tokenizer
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.checkpoint.tokenizer import token_kinds
from whispertide.errors import CheckpointError, OptionError, UnknownLanguageError

NANO = BUNDLED_DIR / "nano.en"

TEXTS = [
    "",
    " ",
    "  two  spaces ",
    " Hello, world! It's 3.14 o'clock (or so): \"fine\".",
    " naïve café — Zürich’s “quotes” …",
    "\n\ttabs\r\nand newlines",
    " 今日は天気がいいですね。東京に行きます",
    " สวัสดีชาวโลก ",
    " ສະບາຍດີ ဟယ်လို 你好，世界",
    " Привет, мир! שלום עולם مرحبا بالعالم",
    " 👩‍👩‍👧‍👦 emoji 🏳️‍🌈 and 𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    " ♪♪ [MUSIC] (laughs) >> JOHN: hi -- bye",
    "<|endoftext|> is <|0.00|> only text <|en|>",
    "a" * 300,
    " don't we'll they've I'm you're he'd",
]


@pytest.fixture(scope="module")
def english() -> Tokenizer:
    return Tokenizer.from_folder(NANO, 51_864)


@pytest.fixture(scope="module")
def multilingual(multilingual_folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(multilingual_folder, 51_865)


@pytest.fixture(scope="module")
def v3(v3_folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(v3_folder, 51_866)


@pytest.fixture(scope="module", params=["english", "multilingual", "v3"])
def pair(request: pytest.FixtureRequest, openai_tokenizer: Callable[..., Any]) -> tuple[Tokenizer, Any]:
    """Our tokenizer and openai-whisper's of the same vocabulary."""
    languages = 100 if request.param == "v3" else 99
    reference = openai_tokenizer(request.param != "english", num_languages=languages)
    return request.getfixturevalue(request.param), reference


@pytest.mark.slow
def test_special_tokens_are_those_of_openai(pair: tuple[Tokenizer, Any]) -> None:
    ours, reference = pair
    for name in ("eot", "sot", "sot_prev", "sot_lm", "no_speech", "no_timestamps", "timestamp_begin"):
        assert getattr(ours, name) == getattr(reference, name), name
    assert (ours.transcribe, ours.translate) == (reference.transcribe, reference.translate)
    assert tuple(ours.language_tokens.values()) == tuple(sorted(reference.all_language_tokens))
    assert [reference.to_language_token(code) for code in ours.language_tokens] == list(ours.language_tokens.values())


@pytest.mark.slow
def test_non_speech_and_blank_tokens_are_those_of_openai(pair: tuple[Tokenizer, Any]) -> None:
    ours, reference = pair
    assert ours.non_speech_tokens == reference.non_speech_tokens
    assert ours.blank_tokens == (*reference.encode(" "), reference.eot)


@pytest.mark.slow
def test_encoding_is_that_of_openai(pair: tuple[Tokenizer, Any]) -> None:
    ours, reference = pair
    for text in TEXTS:
        tokens = ours.encode(text)
        assert tokens == reference.encode(text, disallowed_special=()), text
        assert ours.decode(tokens) == text


@pytest.mark.slow
def test_any_text_survives_and_encodes_as_openai_does(pair: tuple[Tokenizer, Any]) -> None:
    ours, reference = pair

    @given(st.text())
    def check(text: str) -> None:
        tokens = ours.encode(text)
        assert tokens == reference.encode(text, disallowed_special=())
        assert ours.decode(tokens) == text

    check()


@pytest.mark.slow
def test_any_tokens_decode_as_openai_does(pair: tuple[Tokenizer, Any]) -> None:
    """Random tokens are full of broken UTF-8."""
    ours, reference = pair

    @given(st.lists(st.integers(0, ours.vocab_size - 1), max_size=12))
    def check(tokens: list[int]) -> None:
        assert ours.decode_with_timestamps(tokens) == reference.decode_with_timestamps(tokens)
        assert ours.decode(tokens) == reference.decode([token for token in tokens if token < reference.eot])

    check()


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "de", "zh", "ja", "th", "lo", "my", "yue"])
def test_words_are_those_of_openai(v3: Tokenizer, openai_tokenizer: Callable[..., Any], language: str) -> None:
    reference = openai_tokenizer(True, num_languages=100, language=language)
    for text in TEXTS:
        tokens = [v3.timestamp_begin, *v3.encode(text), v3.timestamp_begin + 50, v3.eot]
        assert v3.split_to_word_tokens(tokens, language) == reference.split_to_word_tokens(tokens), text


@pytest.mark.slow
def test_words_of_any_text_are_those_of_openai(pair: tuple[Tokenizer, Any]) -> None:
    ours, reference = pair

    @given(st.text())
    def check(text: str) -> None:
        tokens = [*ours.encode(text), ours.eot]
        words, word_tokens = ours.split_to_word_tokens(tokens)
        assert (words, word_tokens) == reference.split_to_word_tokens(tokens)
        assert "".join(words) == text + "<|endoftext|>"

    check()


@pytest.mark.slow
def test_words_of_any_tokens_lose_none(multilingual: Tokenizer, openai_tokenizer: Callable[..., Any]) -> None:
    """Where openai-whisper can split broken bytes, we split them alike; where it fails or loses tokens, we do not."""
    reference = openai_tokenizer(True, language="ja")

    @quick(50)
    @given(st.lists(st.one_of(st.integers(0, 255), st.integers(0, 50_256)), max_size=12))
    def check(tokens: list[int]) -> None:
        words, word_tokens = multilingual.split_to_word_tokens(tokens, "ja")
        assert [token for word in word_tokens for token in word] == tokens
        assert len(words) == len(word_tokens)
        try:
            expected = reference.split_to_word_tokens(tokens)
        except IndexError:
            return
        if [token for word in expected[1] for token in word] == tokens:
            assert (words, word_tokens) == expected

    check()


def test_a_character_cut_at_the_end(english: Tokenizer) -> None:
    tokens = english.encode(" hi 愛")
    assert english.decode(tokens[:-1]) == " hi \ufffd"
    words, word_tokens = english.split_to_word_tokens(tokens[:-1])
    assert "".join(words) == " hi \ufffd"
    assert [token for word in word_tokens for token in word] == tokens[:-1]


def test_english_only_ignores_a_language_when_it_splits(english: Tokenizer) -> None:
    tokens = english.encode(" two words")
    assert english.split_to_word_tokens(tokens, "ja")[0] == [" two", " words"]


def test_decode_leaves_out_every_special_token(multilingual: Tokenizer) -> None:
    tokens = [*multilingual.sot_sequence("de"), multilingual.timestamp_begin, *multilingual.encode(" Hallo")]
    tokens += [multilingual.timestamp_begin + 46, multilingual.eot]
    assert multilingual.decode(tokens) == " Hallo"
    assert (
        multilingual.decode_with_timestamps(tokens)
        == "<|startoftranscript|><|de|><|transcribe|><|0.00|> Hallo<|0.92|><|endoftext|>"
    )


def test_start_sequences(english: Tokenizer, multilingual: Tokenizer, v3: Tokenizer) -> None:
    assert english.sot_sequence(None, "transcribe", True) == (50257,)
    assert english.sot_sequence("english", "transcribe", False) == (50257, 50362)
    assert multilingual.sot_sequence(None, "transcribe", True) == (50258, 50259, 50359)
    assert multilingual.sot_sequence("German", "translate", False) == (50258, 50261, 50358, 50363)
    assert v3.sot_sequence("yue", "transcribe", False) == (50258, 50358, 50360, 50364)


def test_languages_that_a_model_does_not_have(english: Tokenizer, multilingual: Tokenizer) -> None:
    with pytest.raises(UnknownLanguageError, match="English-only"):
        english.sot_sequence("de", "transcribe", True)
    with pytest.raises(UnknownLanguageError, match="no token for 'yue'"):
        multilingual.sot_sequence("yue", "transcribe", True)
    with pytest.raises(UnknownLanguageError, match="klingon"):
        multilingual.sot_sequence("klingon", "transcribe", True)
    with pytest.raises(OptionError, match="cannot translate"):
        english.sot_sequence("en", "translate", True)


def test_v3_has_a_hundred_languages(v3: Tokenizer, multilingual: Tokenizer) -> None:
    assert len(v3.language_tokens) == 100
    assert v3.language_tokens["yue"] == 50358
    assert len(multilingual.language_tokens) == 99
    assert "yue" not in multilingual.language_tokens
    assert multilingual.languages == tuple(multilingual.language_tokens)


@pytest.mark.slow
def test_vocab_and_merges_make_the_same_tokenizer(english: Tokenizer, tmp_path: Path) -> None:
    for name in ("vocab.json", "merges.txt", "added_tokens.json"):
        shutil.copy(NANO / name, tmp_path)
    other = Tokenizer.from_folder(tmp_path, 51_864)
    assert other.language_tokens == english.language_tokens
    assert english.languages == ("en",)
    for text in TEXTS:
        assert other.encode(text) == english.encode(text)
        assert other.decode(english.encode(text)) == text
    assert other.non_speech_tokens == english.non_speech_tokens


@pytest.mark.slow
def test_a_tokenizer_without_timestamps(english: Tokenizer, tmp_path: Path) -> None:
    content = json.loads((NANO / "tokenizer.json").read_text())
    content["added_tokens"] = [item for item in content["added_tokens"] if item["id"] < english.timestamp_begin]
    content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]  # the older spelling
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    old = Tokenizer.from_folder(tmp_path, 51_864)
    assert old.timestamp_begin == english.timestamp_begin
    tokens = [old.timestamp_begin, *old.encode(TEXTS[3]), old.timestamp_begin + 1500]
    assert tokens[1:-1] == english.encode(TEXTS[3])
    assert old.decode_with_timestamps(tokens) == f"<|0.00|>{TEXTS[3]}<|30.00|>"


@pytest.mark.parametrize("vocab_size", [51_865, 51_866, 51_863, 51_872])
def test_a_tokenizer_of_another_vocabulary(vocab_size: int) -> None:
    with pytest.raises(CheckpointError, match=f"tokenizer for {vocab_size} tokens.*is for 51864"):
        Tokenizer.from_folder(NANO, vocab_size)


def test_a_fine_tuned_model_with_more_tokens(multilingual_folder: Path) -> None:
    tokenizer = Tokenizer.from_folder(multilingual_folder, 51_870)
    assert tokenizer.is_multilingual
    assert list(tokenizer.added_tokens) == [51_865, 51_866, 51_867, 51_868, 51_869]


def test_a_fine_tuned_model_with_one_token_more(multilingual_folder: Path, tmp_path: Path) -> None:
    """It is as large as large-v3 then, whose tokens have other numbers."""
    with pytest.raises(CheckpointError, match=r"tokenizer for 51866 tokens.*is for 51865"):
        Tokenizer.from_folder(multilingual_folder, 51_866)
    content = json.loads((multilingual_folder / "tokenizer.json").read_text())
    content["added_tokens"].append({"id": 51_865, "content": "<|laughter|>", "special": True})
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = Tokenizer.from_folder(tmp_path, 51_866)
    assert (tokenizer.no_speech, tokenizer.timestamp_begin, list(tokenizer.added_tokens)) == (50_362, 50_364, [51_865])


def test_whisper_vocabularies_are_whole(english: Tokenizer, multilingual: Tokenizer, v3: Tokenizer) -> None:
    for tokenizer in (english, multilingual, v3):
        tokenizer.check_whole()


def test_unknown_token_ids(english: Tokenizer) -> None:
    with pytest.raises(CheckpointError, match="token id 99999 is not in the tokenizer"):
        english.decode_with_timestamps([99_999])


def test_a_tokenizer_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"added_tokens": [{"id": 0, "content": "[PAD]"}]}')
    with pytest.raises(CheckpointError, match=r"no token <\|endoftext\|>"):
        Tokenizer.from_folder(tmp_path, 51_864)


# --- kinds of tokens -------------------------------------------------------------------------------------------------


def one(tokenizer: Tokenizer, text: str) -> int:
    tokens = tokenizer.encode(text)
    assert len(tokens) == 1, f"{text!r} is {len(tokens)} tokens"
    return tokens[0]


def test_kinds_of_english_tokens(english: Tokenizer) -> None:
    tokenizer, kind_of = english, token_kinds(english, "en")
    for word in (" the", " A", " 7", " don"):
        assert kind_of(one(tokenizer, word)).is_content, word
    for piece in ("ing", "s", "ed"):
        assert kind_of(one(tokenizer, piece)).continues
        assert not kind_of(one(tokenizer, piece)).is_content
    for mark in (",", ".", " -", "?!"):
        token = one(tokenizer, mark)
        assert not kind_of(token).is_content
        assert not kind_of(token).speaks
        assert kind_of(token).continues == (not mark.startswith(" "))
    assert not kind_of(tokenizer.eot).is_content
    assert not kind_of(tokenizer.timestamp_begin).speaks
    assert kind_of(one(tokenizer, "20")).continues  # digits without a space go on with a number


def test_character_scripts_have_no_pieces(multilingual: Tokenizer) -> None:
    token = one(multilingual, "你")
    assert token_kinds(multilingual, "zh")(token).is_content
    assert not token_kinds(multilingual, "zh")(token).continues
    assert not token_kinds(multilingual, "en")(token).is_content
    assert token_kinds(multilingual, "ja")(one(multilingual, "の")).is_content
    assert not token_kinds(multilingual, "zh")(one(multilingual, "。")).is_content


@pytest.mark.parametrize(("language", "word"), [("ka", " გამარჯობა"), ("hi", " नमस्ते")])
def test_a_word_may_begin_with_part_of_a_character(multilingual: Tokenizer, language: str, word: str) -> None:
    kind_of = token_kinds(multilingual, language)
    first, second, *_ = multilingual.encode(word)
    assert kind_of(first).is_content
    assert not kind_of(first).continues
    assert not kind_of(second).is_content
    assert kind_of(second).continues


def test_part_of_a_character_is_a_piece_everywhere(multilingual: Tokenizer) -> None:
    tokens = multilingual.encode("鱻")
    assert len(tokens) > 1
    for language in ("zh", "en"):
        kind_of = token_kinds(multilingual, language)
        assert all(not kind_of(token).is_content and kind_of(token).continues for token in tokens)
        assert all(kind_of(token).speaks for token in tokens)
