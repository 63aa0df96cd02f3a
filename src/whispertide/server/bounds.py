"""Limits on the settings that clients may ask for, because other sessions would pay: unbounded memory, minutes of work.

The engine trusts its caller; a server trusts no client. Impossible values are refused by the engine itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from whispertide.checkpoint.languages import language_choice
from whispertide.errors import OptionError
from whispertide.recipes.recipe import Recipe

MOST_PROMPT = 10_000  # characters; Whisper reads the last few hundred
_MOST_TEMPERATURES = 10
# What needs graphs of its own, which are built when it is first asked for; of the last two every other value does.
_BUILT: Mapping[str, tuple[object, ...]] = {
    "framing": ("masked", "blocks"),
    "masked": (True,),
}
_BUILT_FOR = ("mask", "trained")
_MOST: Mapping[str, float] = {"beam": 8, "rescue_beam": 8, "best_of": 16, "patience": 4, "max_tokens": 448}


def check_prompt(prompt: object) -> None:
    """Raises `OptionError` for a prompt that is no text or much longer than any use."""
    if not isinstance(prompt, str):
        raise OptionError(f"expected prompt to be text; got {type(prompt).__name__}")
    if len(prompt) > MOST_PROMPT:
        raise OptionError(f"expected a prompt of at most {MOST_PROMPT} characters; got {len(prompt)}")


def check_changes(changes: Mapping[str, Any], recipe: Recipe, languages: Sequence[str] = ()) -> None:
    """Raises `OptionError` for changes of `recipe` or of the decode options that are more than a client may ask for.

    `languages` are those that can be chosen; empty: this is not checked.
    """
    started_with = recipe.settings()
    for key, value in changes.items():
        name = key.rpartition(".")[2]  # a field may come with its axis: "search.beam"
        _check_built(name, value, started_with)
        if name not in _MOST:
            continue
        # Whoever started the server may have wanted more.
        most = max(_MOST[name], started_with.get(name, 0))
        # Written with `not`, so that nan is refused as well.
        if not isinstance(value, int | float) or not value <= most:
            raise OptionError(f"expected {name} of at most {most:g} on a server; got something else")
    if not isinstance(temperatures := changes.get("temperatures", ()), list | tuple) or (
        len(temperatures) > _MOST_TEMPERATURES
    ):
        raise OptionError(f"expected a list of at most {_MOST_TEMPERATURES} temperatures; got something else")
    if "suppress_tokens" in changes:
        raise OptionError("expected no change of suppress_tokens; the server's recipe sets them for the model")
    if "prompt" in changes:
        check_prompt(changes["prompt"])
    _check_language(changes.get("language"), languages)


def _check_built(name: str, value: object, started_with: Mapping[str, Any]) -> None:
    """Raises `OptionError` for a choice, or a setting of one, that needs graphs of its own."""
    # Both: it is asked for, and it is not what the server was started with.
    if (name in _BUILT_FOR or value in _BUILT.get(name, ())) and value != started_with.get(name):
        raise OptionError(
            f"expected no {name}={str(value)[:40]}: it needs graphs that are built, which takes minutes. Start the "
            "server with a recipe that uses it"
        )


def check_executor(recipe: Recipe) -> None:
    """Raises `OptionError` for a recipe whose rounds need workers of their own: here all sessions share the workers."""
    if recipe.executor.kind != "serial":
        raise OptionError(
            f"expected executor=serial on a server; got executor={recipe.executor.kind}. The server's workers already "
            "compute rounds of different sessions side by side"
        )


def _check_language(language: object, languages: Sequence[str]) -> None:
    if language is None or not languages:
        return
    if not isinstance(language, str) or language_choice(language) not in (None, *languages):
        raise OptionError(f"expected a language among {', '.join(languages)}; got another")
