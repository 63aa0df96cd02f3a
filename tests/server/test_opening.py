"""What is told before and when a session begins, and what a client's settings choose."""

from dataclasses import replace
from typing import Any

import pytest

from served import KnowingModel, multilingual
from whispertide.errors import OptionError
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import RECIPES, get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.server.hub import Hub
from whispertide.server.opening import choose_recipe, server_info, started_message
from whispertide.server.options import Limits, ServerOptions
from whispertide.server.protocols.base import Settings
from whispertide.streaming.framing import Hush

USUAL = get_recipe("whisper-streaming")


def told(recipe: Recipe = USUAL, **more: Any) -> Any:
    models: dict[str, Any] = {
        "base.en": KnowingModel(caution="weak"),
        "small": multilingual(KnowingModel(), "en", "de"),
    }
    options = ServerOptions(text=DecodeOptions(language="de", task="translate"), limits=Limits(session_s=60))
    return server_info(models, recipe, options, **more)


def test_what_is_served_is_told() -> None:
    info = told(version="1.2", intents=("stop",))
    assert [(one.name, one.languages, one.caution) for one in info.models] == [
        ("base.en", ("en",), "weak"),
        ("small", ("en", "de"), ""),
    ]
    assert (info.recipe, info.version, info.limit_s, info.intents) == (USUAL.name, "1.2", 60, ("stop",))
    assert (info.language, info.task) == ("de", "translate")


def test_recipes_are_offered_that_every_model_can_stream_the_usual_one_first() -> None:
    mine = replace(USUAL, name="mine", framing=Hush())  # whoever started the server knows why
    names = [one.name for one in told(mine).recipes]
    able = [name for name, recipe in RECIPES.items() if recipe.framing.kind != "hush"]
    assert names == ["mine", *able]
    assert [one.name for one in told().recipes].count(USUAL.name) == 1


def test_a_client_that_asks_for_no_recipe_gets_the_usual_one() -> None:
    mine = replace(USUAL, name="mine")
    assert choose_recipe(Settings(), mine)[0] == choose_recipe(Settings(recipe="mine"), mine)[0] == mine
    assert choose_recipe(Settings(recipe="tide"), mine)[0] == RECIPES["tide"]
    recipe, options = choose_recipe(Settings(changes={"vad_pause_s": 0.7, "name": "other"}, prompt="Ebbe"), mine)
    assert (recipe.name, recipe.schedule.vad_pause_s, options.prompt) == ("mine", 0.7, "Ebbe")


@pytest.mark.parametrize(
    "settings",
    [
        Settings(recipe="no such"),
        Settings(prompt="x" * 10_001),
        Settings(changes={"beam": 100}),
        Settings(changes={"executor": "pipelined"}),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: Settings) -> None:
    with pytest.raises(OptionError):
        choose_recipe(settings, USUAL)


def test_a_session_that_goes_on_tells_how_far_it_is() -> None:
    model: Any = KnowingModel()
    hub = Hub({"nano.en": model}, USUAL, ServerOptions())
    live, _ = hub.open(Settings(language="en"), "", "native")
    live.safe = 320
    found = started_message(live, resumed=True)
    assert (found.session, found.model, found.recipe, found.language) == (live.id, "nano.en", USUAL.name, "en")
    assert (found.received, found.seq, found.resumed) == (320, 0, True)
