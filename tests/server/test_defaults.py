"""Which model a client gets, and with what settings, where it leaves something open."""

from typing import Any

import pytest

from each_row import each_row
from whispertide.checkpoint.languages import DETECT
from whispertide.errors import OptionError, UnknownLanguageError
from whispertide.options import DecodeOptions
from whispertide.server.defaults import check_usual, choose_model, fill_changes
from whispertide.server.protocols.base import Settings
from whispertide.server.protocols.server_info import ModelInfo

MODELS = (
    ModelInfo("base.en"),
    ModelInfo("nordic", ("no", "da"), translates=True),
    ModelInfo("small", ("en", "de", "no"), translates=True),
)
NOTHING = DecodeOptions()


@each_row(
    ("settings", "model"),
    [
        (Settings(), "base.en"),
        (Settings("whisper-1"), "base.en"),
        (Settings("whisper-1", language="de"), "small"),
        (Settings(language="Norwegian"), "nordic"),
        (Settings(language=DETECT), "base.en"),
        (Settings(task="translate"), "nordic"),
        (Settings(language="de", task="translate"), "small"),
        (Settings("small", language="no"), "small"),
        (Settings("base.en", language="de"), "base.en"),  # which then says that it cannot
        (Settings(language="fr"), "base.en"),
    ],
)
def test_the_model(settings: Settings, model: str) -> None:
    assert choose_model(MODELS, settings, NOTHING)[0].name == model


@each_row(
    ("settings", "usual", "expected"),
    [
        (Settings(), NOTHING, ("base.en", None, "transcribe", "")),
        (Settings(), DecodeOptions(language="de", prompt="Ebbe"), ("small", "de", "transcribe", "Ebbe")),
        (Settings(language="no", prompt="Flut"), DecodeOptions("de", prompt="Ebbe"), ("nordic", "no", None, "Flut")),
        (Settings(language=DETECT), DecodeOptions("de"), ("base.en", None, "transcribe", "")),
        (Settings(), DecodeOptions(task="translate"), ("nordic", None, "translate", "")),
        (Settings(task="transcribe"), DecodeOptions(task="translate"), ("base.en", None, "transcribe", "")),
        # What is usual is no demand: who names this model means English.
        (Settings("base.en"), DecodeOptions("de", task="translate"), ("base.en", None, "transcribe", "")),
        (Settings("base.en", language="en"), DecodeOptions("de"), ("base.en", "en", "transcribe", "")),
    ],
)
def test_what_is_usual(
    settings: Settings, usual: DecodeOptions, expected: tuple[str, str | None, str | None, str]
) -> None:
    model, filled = choose_model(MODELS, settings, usual)
    name, language, task, prompt = expected
    assert (model.name, filled.language, filled.prompt) == (name, language, prompt)
    assert filled.options.task == (task or "transcribe")


def test_other_settings_stay() -> None:
    asked = Settings(recipe="tide", vad=False, intents=True, changes={"beam": 2})
    _, filled = choose_model(MODELS, asked, DecodeOptions("de"))
    assert (filled.recipe, filled.vad, filled.intents, filled.changes) == ("tide", False, True, {"beam": 2})


def test_a_language_that_nobody_knows() -> None:
    with pytest.raises(UnknownLanguageError):
        choose_model(MODELS, Settings(language="klingon"), NOTHING)


def test_changes_of_a_running_session() -> None:
    usual = DecodeOptions("de", prompt="Ebbe")
    any_of: dict[str, Any] = {"languages": ()}  # whatever the session allowed before
    both = fill_changes({"language": None, "prompt": ""}, usual, ("de", "en"))
    assert both == {"language": "de", "prompt": "Ebbe"} | any_of
    assert fill_changes({"language": None}, usual, ("en",)) == {"language": None} | any_of
    assert fill_changes({"language": DETECT}, usual, ("de", "en")) == {"language": None} | any_of
    changes: dict[str, Any]
    for changes in ({"language": "en", "prompt": "Flut"}, {"language": ["de"], "prompt": 5}):
        assert fill_changes(changes, usual, ("de", "en")) == changes | any_of
    for changes in ({"beam": 2}, {}):
        assert fill_changes(changes, usual, ("de", "en")) == changes


@pytest.mark.parametrize(
    ("usual", "told"),
    [
        (DecodeOptions("fr"), "a model that knows the language 'fr'; none of base.en, nordic, small does"),
        (DecodeOptions("fr", task="translate"), "knows the language 'fr' and translates into English; none"),
    ],
)
def test_nobody_can_write_what_is_usual(usual: DecodeOptions, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        check_usual(MODELS, usual)


def test_nobody_translates() -> None:
    with pytest.raises(OptionError, match=r"a model that translates into English; none of base\.en does"):
        check_usual(MODELS[:1], DecodeOptions(task="translate"))


@each_row(
    ("settings", "usual", "model", "languages"),
    [
        (Settings(languages=("de", "en")), NOTHING, "small", ("de", "en")),
        (Settings(languages=("Norwegian", "da")), NOTHING, "nordic", ("no", "da")),
        (Settings(), DecodeOptions(languages=("de", "en")), "small", ("de", "en")),
        (Settings(language=DETECT), DecodeOptions("no", languages=("de", "en")), "small", ("de", "en")),
        # A language that is chosen is not detected; what is usual is no demand.
        (Settings(language="en"), DecodeOptions(languages=("de", "no")), "small", ()),
        (Settings("base.en"), DecodeOptions(languages=("de", "en")), "base.en", ("en",)),
        (Settings(languages=("de", "en")), DecodeOptions("no", languages=("no", "da")), "small", ("de", "en")),
    ],
)
def test_the_languages_that_may_be_detected(
    settings: Settings, usual: DecodeOptions, model: str, languages: tuple[str, ...]
) -> None:
    found, filled = choose_model(MODELS, settings, usual)
    assert (found.name, filled.languages) == (model, languages)


def test_key_terms_are_the_clients_else_the_usual_ones() -> None:
    usual = DecodeOptions(keyterms=("Ebbe",))
    assert choose_model(MODELS, Settings(), usual)[1].options.keyterms == ("Ebbe",)
    assert choose_model(MODELS, Settings(keyterms=("Flut",)), usual)[1].options.keyterms == ("Flut",)
    assert fill_changes({"keyterms": []}, usual, ("en",)) == {"keyterms": ("Ebbe",)}
    assert fill_changes({"keyterms": ["Flut"]}, usual, ("en",)) == {"keyterms": ["Flut"]}


def test_a_list_of_languages_in_a_running_session_wants_them_detected() -> None:
    usual = DecodeOptions(languages=("de", "no"))
    asked = {"languages": ["de", "en"]}
    assert fill_changes(asked, usual, ("de", "en")) == {"languages": ["de", "en"], "language": None}
    assert fill_changes({"languages": []}, usual, ("de", "en")) == {"languages": ("de",)}
    assert fill_changes({"language": "en"}, usual, ("de", "en")) == {"language": "en", "languages": ()}
