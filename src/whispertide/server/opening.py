"""The start of a session: the server's description for clients, and sessions as their settings choose them.

Functions over models, recipes and sessions; they know of no hub.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from whispertide.api import Transcriber
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import ABOUT, RECIPES, get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.server.bounds import check_changes, check_executor, check_prompt
from whispertide.server.intents import Intents
from whispertide.server.live import LiveSession
from whispertide.server.options import ServerOptions
from whispertide.server.outbox import Outbox
from whispertide.server.protocols import base
from whispertide.server.protocols.server_info import ModelInfo, RecipeInfo, ServerInfo
from whispertide.server.translations import Translations
from whispertide.speakers.embedding import find_network
from whispertide.streaming.smart_turn import find_smart_turn
from whispertide.understand.model import LateModel
from whispertide.understand.understanding import Understanding


def server_info(
    models: Mapping[str, Transcriber],
    usual: Recipe,
    options: ServerOptions,
    *,
    version: str = "",
    intents: tuple[str, ...] = (),
    translations: Translations | None = None,
) -> ServerInfo:
    """The description of the server, with the recipe for clients that name none."""
    return ServerInfo(
        models=tuple(
            ModelInfo(name, model.tokenizer.languages, model.caution, model.dims.is_multilingual)
            for name, model in models.items()
        ),
        recipes=tuple(RecipeInfo(name, ABOUT.get(name, "")) for name in _offered_recipes(usual, models)),
        recipe=usual.name,
        version=version,
        limit_s=options.limits.session_s,
        intents=intents,
        language=options.text.language,
        task=options.text.task,
        hears_turns=find_smart_turn() is not None,
        translations=translations.languages if translations else (),
        corrects=translations is not None and translations.corrects,
        hears_speakers=find_network() is not None,
    )


def _offered_recipes(usual: Recipe, models: Mapping[str, Transcriber]) -> list[str]:
    """The default recipe, and those that every model can run."""
    able = [name for name, recipe in RECIPES.items() if all(model.can_stream(recipe) for model in models.values())]
    return list(dict.fromkeys((usual.name, *able)))


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds sessions of what the server has: models, the recipe for clients that name none, a network for intents,
    what can be translated; `wake` steps a session whose translations have come.
    """

    models: Mapping[str, Transcriber]
    recipe: Recipe
    options: ServerOptions
    understands: LateModel | None
    translations: Translations
    wake: Callable[[LiveSession], None]

    def build(
        self,
        identity: str,
        owner: str,
        model: str,
        settings: base.Settings,
        protocol: str,
        recipe: Recipe | None = None,
    ) -> LiveSession:
        """Make a session that is not listed yet; with `recipe` the settings do not choose another.

        Raises `WhispertideError` or `TypeError` for settings that cannot be.
        """
        chosen, options = choose_recipe(settings, self.recipe)
        session = self.models[model].session(recipe or chosen, options=options, vad=settings.vad, live=True)
        limits, languages = self.options.limits, self.models[model].tokenizer.languages
        outbox = Outbox(limit=limits.unacked)
        live = LiveSession(
            identity, owner, model, session, options, protocol, outbox, languages=languages, limit_s=limits.session_s
        )
        if settings.intents and self.understands is not None:
            live.intents = Intents(Understanding(self.understands))
        live.translation = self.translations.of(settings, options, languages, partial(self.wake, live))
        return live


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
