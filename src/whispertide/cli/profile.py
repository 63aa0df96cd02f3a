"""`whispertide profile`: which allocation of threads to the encoder and the decoder is best here; `executor=auto` uses
it.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whispertide.atomic import CHOOSE_CACHE, writing
from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.options import EngineOptions

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel
    from whispertide.recipes.allocation import Measured
    from whispertide.recipes.recipe import Recipe


@guarded
@arguments.group_options
def profile(
    *,
    model: arguments.MeasuredModel = None,
    option: arguments.ModelOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    stream: arguments.RecipeOptions,
    engine: arguments.Engine,
    revision: arguments.Revision = None,
) -> ExitCode:
    """Measure serial and pipelined execution with every split of the threads. `--executor auto` uses the best."""
    recipe = stream.resolve()
    name = arguments.model_argument(model, option)
    loaded, measured = measure_allocations(name, engine, revision, recipe)
    if as_json:
        typer.echo(json.dumps(_to_json(measured, recipe), indent=2))
    else:
        _show(measured, f"rounds of {recipe.name} with {name} ({engine.precision})")
    place = _save(loaded, recipe, measured)
    say(f"executor=auto uses the best one from now on, with {recipe.name}; kept in {place}")
    return ExitCode.OK


def measure_allocations(
    model: str, engine: EngineOptions, revision: str | None, recipe: "Recipe"
) -> "tuple[WhisperModel, list[Measured]]":
    """Measure; returns the model and the results. Raises the errors of loading the model, and `GraphError`."""
    from whispertide.api import Transcriber
    from whispertide.cli.bundled import bundled_audio
    from whispertide.cli.progress import counting
    from whispertide.model.whisper import load_model
    from whispertide.tuning.profile import measure_all

    loaded = load_model(model, engine, revision=revision, announce=say)
    framed = Transcriber(loaded).framed(recipe)
    with counting("allocations") as progress:
        return loaded, measure_all(loaded, framed.recipe, bundled_audio(), progress)


def _save(model: "WhisperModel", recipe: "Recipe", measured: "list[Measured]") -> Path:
    """Save the results; returns the path. Raises `OutputError`."""
    from whispertide.checkpoint.cache import cache_dir
    from whispertide.recipes.allocation import remember

    with writing(cache_dir(), CHOOSE_CACHE):
        return remember(model, recipe.name, measured)


def _to_json(measured: "list[Measured]", recipe: "Recipe") -> dict[str, Any]:
    """Convert all results to plain data, the best first."""
    return {
        "recipe": recipe.name,
        "measured": [
            {"executor": item.allocation.executor, **asdict(item), "delay_s": item.delay_s} for item in measured
        ],
    }


def _show(measured: "list[Measured]", title: str) -> None:
    """Print a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(("executor", "encoder", "decoder", "round", "every", "delay")):
        table.add_column(column, justify="right" if number > 2 else "left", no_wrap=True)
    for item in measured:
        places = item.allocation
        decoder = places.encoder if places.decoder is None else places.decoder
        figures = (f"{figure * 1000:.0f} ms" for figure in (item.round_s, item.period_s, item.delay_s))
        style = "bold" if item is measured[0] else ""
        table.add_row(places.executor, str(places.encoder), str(decoder), *figures, style=style)
    console = Console(highlight=False)
    console.width = max(console.width, 80)  # a narrower table loses figures
    console.print(title, style="bold")
    console.print(
        "every: time between results. delay: half of that plus the duration of a round. Best first.", style="dim"
    )
    console.print(table)
