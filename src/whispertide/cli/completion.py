"""Shell completion of option values: recipes and their fields, models, formats.

The modules that know the names are imported when the shell asks. Where nothing here matches, it completes files.
"""

from collections.abc import Callable, Iterable

Complete = Callable[[str], list[str]]


def recipes(incomplete: str) -> list[str]:
    """Complete names of recipes."""
    from whispertide.recipes.catalogue import RECIPES

    return _starting(RECIPES, incomplete)


def settings(incomplete: str) -> list[str]:
    """Complete fields of a recipe, each with its equals sign; after it the values, if they have names."""
    from whispertide.recipes.recipe import every_field

    name, equals, _ = incomplete.partition("=")
    if not equals:
        return _starting((f"{field}=" for field in every_field()), incomplete)
    return _starting((f"{name}={value}" for value in every_field().get(name, ())), incomplete)


def models(incomplete: str) -> list[str]:
    """Complete names of models; a path is left to the shell."""
    from whispertide.checkpoint.names import ALIASES, SHORT_NAMES, bundled_names

    return _starting((*bundled_names(), *SHORT_NAMES, *ALIASES), incomplete)


def formats(incomplete: str) -> list[str]:
    """Complete names of formats."""
    from whispertide.cli.output import FORMATS

    return _starting(FORMATS, incomplete)


def complete_last(complete: Complete) -> Complete:
    """Complete the last of several names separated by commas."""

    def last(incomplete: str) -> list[str]:
        before, comma, name = incomplete.rpartition(",")
        return [before + comma + found for found in complete(name)]

    return last


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
