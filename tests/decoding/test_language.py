from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scripted_decoder import SIZE, SOT, ScriptedDecoder
from whispertide.decoding.language import choose_language, detect_language
from whispertide.errors import UnknownLanguageError
from whispertide.types import FloatArray

LANGUAGES = {"en": 3, "de": 5, "fr": 6}


def hears(seen: tuple[int, ...]) -> FloatArray:
    assert seen == (SOT,)
    logits = np.zeros(SIZE, np.float32)
    logits[[3, 5, 6]] = np.log([1.0, 3.0, 1.0])
    logits[9] = 50.0  # no language: must not count
    return logits


def known(language: str) -> str:
    if language not in LANGUAGES:
        raise UnknownLanguageError(language)
    return language


def model(multilingual: bool = True) -> Any:
    tokenizer = SimpleNamespace(is_multilingual=multilingual, sot=SOT, language_tokens=LANGUAGES, language=known)
    return SimpleNamespace(name="fake", tokenizer=tokenizer, decoder=lambda encoded: ScriptedDecoder(hears))


ENCODED: Any = None


def test_the_likeliest_language_token_wins_and_only_languages_share_the_probability() -> None:
    found = detect_language(model(), ENCODED)
    assert found.language == "de"
    assert found.probability == pytest.approx(0.6, rel=1e-5)


def test_an_english_only_model_cannot_detect() -> None:
    with pytest.raises(UnknownLanguageError, match="only English"):
        detect_language(model(multilingual=False), ENCODED)


def test_the_language_asked_for_is_taken_without_listening() -> None:
    assert choose_language(model(), lambda: ENCODED, "fr").language == "fr"
    with pytest.raises(UnknownLanguageError):
        choose_language(model(), lambda: ENCODED, "xx")


def test_without_a_wish_it_is_detected_or_english() -> None:
    assert choose_language(model(), lambda: ENCODED, None).language == "de"
    assert choose_language(model(multilingual=False), lambda: ENCODED, None).language == "en"


def test_only_the_languages_of_a_list_share_the_probability() -> None:
    assert detect_language(model(), ENCODED, ("en", "fr")).language == "en"
    found = detect_language(model(), ENCODED, ("fr", "de"))
    assert (found.language, set(found.shares)) == ("de", {"de", "fr"})
    assert found.probability == pytest.approx(0.75, rel=1e-5)
    assert choose_language(model(), lambda: ENCODED, None, ("fr",)).language == "fr"
