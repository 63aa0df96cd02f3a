"""The start of a session: the server's description for clients, and the recipe and options that settings choose.

Functions over models, recipes and sessions; they know of no hub.
"""

from collections.abc import Mapping

from whispertide.api import Transcriber
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import ABOUT, RECIPES, get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.server.bounds import check_changes, check_executor, check_prompt
from whispertide.server.live import LiveSession
from whispertide.server.options import ServerOptions
from whispertide.server.protocols import base
from whispertide.speakers.embedding import find_network
from whispertide.streaming.smart_turn import find_smart_turn


def server_info(
    models: Mapping[str, Transcriber],
    usual: Recipe,
    options: ServerOptions,
    *,
    version: str = "",
    intents: tuple[str, ...] = (),
) -> base.ServerInfo:
    """The description of the server, with the recipe for clients that name none."""
    return base.ServerInfo(
        models=tuple(
            base.ModelInfo(name, model.tokenizer.languages, model.caution, model.dims.is_multilingual)
            for name, model in models.items()
        ),
        recipes=tuple(base.RecipeInfo(name, ABOUT.get(name, "")) for name in _offered_recipes(usual, models)),
        recipe=usual.name,
        version=version,
        limit_s=options.limits.session_s,
        intents=intents,
        language=options.text.language,
        task=options.text.task,
        hears_turns=find_smart_turn() is not None,
        hears_speakers=find_network() is not None,
    )


def _offered_recipes(usual: Recipe, models: Mapping[str, Transcriber]) -> list[str]:
    """The default recipe, and those that every model can run."""
    able = [name for name, recipe in RECIPES.items() if all(model.can_stream(recipe) for model in models.values())]
    return list(dict.fromkeys((usual.name, *able)))


def choose_recipe(settings: base.Settings, usual: Recipe) -> tuple[Recipe, DecodeOptions]:
    """Choose the recipe and the options by a client's settings.

    Raises `WhispertideError` or `TypeError` for settings that cannot be.
    """
    name = settings.recipe
    recipe = usual if name is None or name == usual.name else get_recipe(name)
    check_prompt(settings.prompt)
    check_changes(settings.changes, recipe)
    recipe = recipe.replace(**{key: value for key, value in settings.changes.items() if key != "name"})
    check_executor(recipe)
    return recipe, settings.options


def started_message(live: LiveSession, *, resumed: bool) -> base.Started:
    """The message for the client of a session that begins or goes on."""
    return base.Started(
        session=live.id,
        model=live.model,
        recipe=live.asked_recipe.name,
        language=live.asked_options.language,
        received=live.safe,
        seq=live.outbox.next_seq,
        resumed=resumed,
    )
