"""Which model a client gets, and with what settings, where it leaves something open."""

import pytest

from whispertide.checkpoint.languages import DETECT
from whispertide.errors import OptionError, UnknownLanguageError
from whispertide.options import DecodeOptions
from whispertide.server.defaults import check_usual, choose_model, fill_changes
from whispertide.server.protocols.base import ModelInfo, Settings

MODELS = (
    ModelInfo("base.en"),
    ModelInfo("nordic", ("no", "da"), translates=True),
    ModelInfo("small", ("en", "de", "no"), translates=True),
)
NOTHING = DecodeOptions()


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
    assert fill_changes({"language": None, "prompt": ""}, usual, ("de", "en")) == {"language": "de", "prompt": "Ebbe"}
    assert fill_changes({"language": None}, usual, ("en",)) == {"language": None}
    assert fill_changes({"language": DETECT}, usual, ("de", "en")) == {"language": None}
    for changes in ({"beam": 2}, {"language": "en", "prompt": "Flut"}, {"language": ["de"], "prompt": 5}, {}):
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
