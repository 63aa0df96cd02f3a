"""The server as its clients are told of it: what it can do, and its defaults. Values only."""

from dataclasses import dataclass

from whispertide.options import Task


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model that is served. `languages` are ISO codes; an English model has only "en". `caution` is a warning of
    its maker, or "". `translates`: it can translate into English.
    """

    name: str
    languages: tuple[str, ...] = ("en",)
    caution: str = ""
    translates: bool = False


@dataclass(frozen=True, slots=True)
class RecipeInfo:
    """One recipe that clients may ask for, with a line about it, or ""."""

    name: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The server's models and recipes. `recipe`, `language` (None = detect it), `task` and the first model that can do
    both are the defaults. `limit_s` is the longest session, `intents` all that can be recognized; empty without a model
    of intents. `hears_turns`: it has a network that hears whether a speaker is done; `hears_speakers`: one that tells
    voices apart. `translations` are the languages into which sentences can be translated, and `corrects`: they can be
    corrected.
    """

    models: tuple[ModelInfo, ...]
    recipes: tuple[RecipeInfo, ...]
    recipe: str
    version: str = ""
    limit_s: float = 0.0
    intents: tuple[str, ...] = ()
    language: str | None = None
    task: Task = "transcribe"
    hears_turns: bool = False
    translations: tuple[str, ...] = ()
    corrects: bool = False
    hears_speakers: bool = False
