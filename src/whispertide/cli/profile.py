"""`whispertide profile`: which allocation of threads to the encoder and the decoder is best here; `executor=auto` uses
it.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whispertide.cli import completion
from whispertide.cli.arguments import (
    BUNDLED_MODEL,
    ModelChoice,
    PrecisionOption,
    ProviderOption,
    RecipeOption,
    RevisionOption,
    SetOption,
    StreamChoice,
    ThreadsOption,
)
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.options import EngineOptions

if TYPE_CHECKING:
    from whispertide.streaming.allocation import Measured
    from whispertide.streaming.recipe import Recipe


@guarded
def profile(
    model: Annotated[
        str,
        typer.Argument(help="The model to measure; base.en for what `listen` uses.", autocompletion=completion.models),
    ] = BUNDLED_MODEL,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
    recipe: RecipeOption = None,
    changes: SetOption = None,
    precision: PrecisionOption = "int8",
    provider: ProviderOption = "auto",
    threads: ThreadsOption = 0,
    revision: RevisionOption = None,
) -> ExitCode:
    """Measure serial and pipelined execution with every split of the threads. `--executor auto` uses the best."""
    chosen = StreamChoice(recipe, tuple(changes or ())).resolve()
    measured, place = run(ModelChoice(model, revision, EngineOptions(precision, provider, threads)), chosen)
    if as_json:
        typer.echo(json.dumps(to_json(measured, chosen), indent=2))
    else:
        show(measured, f"rounds of {chosen.name} with {model} ({precision})")
    say(f"executor=auto uses the best one from now on, with {chosen.name}; kept in {place}")
    return ExitCode.OK


def run(choice: ModelChoice, recipe: "Recipe") -> "tuple[list[Measured], Path]":
    """Measure, and keep what was found; returns it and where it is. Raises what loading the model raises, `GraphError`
    and `OutputError`; after an interrupt nothing is kept.
    """
    from whispertide.api import Transcriber
    from whispertide.cli.bundled import bundled_audio
    from whispertide.cli.progress import counting
    from whispertide.errors import OutputError
    from whispertide.lab.profile import measure_all
    from whispertide.model.whisper import load_model
    from whispertide.streaming.allocation import remember

    model = load_model(choice.name, choice.engine, revision=choice.revision, announce=say)
    framed = Transcriber(model).framed(recipe)
    with counting("allocations") as progress:
        measured = measure_all(model, framed.recipe, bundled_audio(), progress)
    try:
        return measured, remember(model, recipe.name, measured)
    except OSError as error:
        raise OutputError(
            f"cannot keep the measurement in the cache ({error}): make it writable, or set WHISPERTIDE_CACHE to "
            "another folder"
        ) from error


def to_json(measured: "list[Measured]", recipe: "Recipe") -> dict[str, Any]:
    """All that was measured as plain data, the best first."""
    return {
        "recipe": recipe.name,
        "measured": [
            {"executor": item.allocation.executor, **asdict(item), "delay_s": item.delay_s} for item in measured
        ],
    }


def show(measured: "list[Measured]", title: str) -> None:
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
    console.print(title, style="bold")
    console.print("every: time between results. delay: half of that plus the round. Best first.", style="dim")
    console.print(table)
