"""`whispertide doctor`: what this machine has, how fast it is, what it can run live, and whether a model is right."""

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.errors import AudioError
from whispertide.formats.numbers import json_numbers
from whispertide.options import DEFAULT_RECIPE, EngineOptions
from whispertide.plural import counted

if TYPE_CHECKING:
    from rich.table import Table

    from whispertide.recipes.short_windows import Framed
    from whispertide.tuning.live_estimate import LiveEstimate
    from whispertide.tuning.parity import Parity
    from whispertide.tuning.speed import Speed

_TUNE = "`whispertide tune MODEL` would choose a longer step for tide, with which it runs live with {}."
_PACKAGES = ("whispertide", "onnxruntime", "numpy", "av", "soxr", "tokenizers", "huggingface_hub", "sounddevice")


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine's system, packages and devices."""

    system: str
    python: str
    cores: int
    providers: list[str]
    packages: dict[str, str]
    microphones: list[str]
    microphone_problem: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All results of the doctor; `framed` is the default recipe as the model gets it."""

    machine: Machine
    speed: "Speed"
    framed: "Framed"
    live: "list[LiveEstimate]" = field(default_factory=list)
    parity: "list[Parity]" = field(default_factory=list)

    @property
    def healthy(self) -> bool:
        """True if the model computes the expected results."""
        return all(check.passed for check in self.parity)


@guarded
@arguments.group_options
def doctor(
    *,
    model: arguments.MeasuredModel = None,
    option: arguments.ModelOption = None,
    as_json: arguments.AsJson = False,
    engine: arguments.Engine,
    revision: arguments.Revision = None,
) -> ExitCode:
    """Check this machine and a model: providers, microphone, speed, live recipes, and the engine against fp32."""
    found = diagnose(arguments.model_argument(model, option), engine, revision)
    if as_json:
        typer.echo(json.dumps(_to_json(found), indent=2))
    else:
        _show(found)
    return ExitCode.OK if found.healthy else ExitCode.FAILURE


def diagnose(name: str, engine: EngineOptions, revision: str | None = None) -> Diagnosis:
    """Run all checks. Raises the errors of loading the model."""
    from whispertide.api import Transcriber
    from whispertide.checkpoint import hub
    from whispertide.cli.bundled import bundled_audio
    from whispertide.model.whisper import load_model
    from whispertide.recipes.calibration import load_tuned
    from whispertide.recipes.catalogue import RECIPES, get_recipe
    from whispertide.tuning.live_estimate import CheckpointFacts, estimate_live
    from whispertide.tuning.parity import check_parity
    from whispertide.tuning.speed import measure_speed

    machine = look_at_machine()
    model = load_tuned(name, engine, revision=revision, announce=say)  # as `listen` does
    say(f"measuring {model.name} ...")
    speed = measure_speed(model)
    transcriber = Transcriber(model, measure=lambda _: speed.costs)
    known = CheckpointFacts(
        model.knows_short, transcriber.known_best, model.options, model.checkpoint, model.short_merged
    )
    framed = transcriber.framed(get_recipe(DEFAULT_RECIPE))
    live = estimate_live(speed, model.dims, RECIPES, known)
    say(f"comparing {model.name} with its own fp32 graphs ...")
    exact = model
    if engine.precision != "fp32":
        exact = load_model(name, replace(engine, precision="fp32"), revision=revision, announce=say)
    parity = check_parity(model, exact, bundled_audio(), Path(hub.resolve(name, revision)))
    return Diagnosis(machine, speed, framed, live, parity)


def look_at_machine() -> Machine:
    """Read versions, providers and microphones."""
    from whispertide.audio import mic
    from whispertide.model.installed import OTHER_ENGINES, is_installed
    from whispertide.model.providers import available_providers, physical_cores

    microphones, problem = [], ""
    try:
        microphones = [f"{item.name} ({item.sample_rate} Hz)" for item in mic.list_devices()]
    except AudioError as error:
        problem = str(error)
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        cores=physical_cores(),
        providers=[*available_providers(), *filter(is_installed, OTHER_ENGINES)],
        packages={name: found for name in _PACKAGES if (found := _version(name))},
        microphones=microphones,
        microphone_problem=problem or ("" if microphones else "none found"),
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _to_json(found: Diagnosis) -> dict[str, Any]:
    """Convert to plain data, with the verdicts."""
    return {
        "machine": asdict(found.machine),
        "speed": asdict(found.speed),
        "framing": {
            "recipe": found.framed.recipe.name,
            "name": found.framed.recipe.framing.kind,
            "why": found.framed.why,
            "step_s": found.framed.recipe.schedule.step_s,
        },
        "live": [{**asdict(item), "verdict": item.verdict} for item in found.live],
        "parity": [_parity_json(item) for item in found.parity],
        "healthy": found.healthy,
    }


def _parity_json(item: "Parity") -> dict[str, Any]:
    return {**json_numbers(asdict(item)), "limits": json_numbers(asdict(item.limits)), "passed": item.passed}


def _show(found: Diagnosis) -> None:
    """Print tables."""
    from rich.console import Console

    from whispertide.tuning.live_estimate import RULE
    from whispertide.tuning.parity import PARITY
    from whispertide.tuning.speed import BUSY

    console, speed = Console(highlight=False), found.speed
    console.width = max(console.width, 80)  # a narrower terminal breaks lines; a narrower table loses verdicts
    engine = f"{speed.precision}, {speed.provider}, {counted(speed.threads, 'thread')}"
    busy = "The machine was busy. Measure again when it is idle." if speed.spread > BUSY else ""
    live = _live_rows(found.live)
    for title, explanation, rows in (
        ("machine", "", _machine_rows(found.machine)),
        (f"speed of {speed.model} ({engine})", busy, _speed_rows(speed)),
        (f"framing of {found.framed.recipe.name}", found.framed.why, ()),
        ("what runs live (* measured, others estimated)", RULE, live),
        ("parity", PARITY, _parity_rows(found.parity)),
    ):
        console.print(title, style="bold")
        if explanation:
            console.print(explanation, style="dim")
        if rows:
            console.print(_table(*rows))
        if rows is live and (helped := [item.model for item in found.live if item.tune_helps]):
            console.print(_TUNE.format(", ".join(helped)), style="dim")
        console.print()


def _table(header: Sequence[str], *rows: Sequence[str]) -> "Table":
    """Make a table without lines; a row without a first cell explains the one before it. Without headings texts may
    wrap.
    """
    from rich.table import Table

    titled = any(header)
    table = Table(box=None, pad_edge=False, show_header=titled)
    for number, column in enumerate(header):
        table.add_column(column, justify="right" if number and titled else "left", no_wrap=titled or not number)
    for row in rows:
        table.add_row(*row, style="" if row[0] else "dim")
    return table


def _machine_rows(machine: Machine) -> list[Sequence[str]]:
    return [
        ("", ""),
        ("system", f"{machine.system}, {counted(machine.cores, 'core')}, Python {machine.python}"),
        ("providers", ", ".join(machine.providers)),
        ("packages", ", ".join(f"{name} {found}" for name, found in machine.packages.items())),
        ("microphones", "; ".join(machine.microphones) or machine.microphone_problem),
    ]


def _speed_rows(speed: "Speed") -> list[Sequence[str]]:
    measured = {
        "encode 30 s": speed.encode_30s,
        "encode 5 s": speed.encode_5s,
        "decoder step, greedy": speed.step_1,
        "decoder step, 5 beams": speed.step_5,
        "block of 50 tokens": speed.block_50,
    }
    return [("", "ms"), *((label, f"{secs * 1000:.1f}") for label, secs in measured.items())]


def _live_rows(estimates: "list[LiveEstimate]") -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("model", "recipe", "round", "step", "load", "live", "shortest")]
    for item in estimates:
        name = f"{item.model} *" if item.measured else item.model
        round_, step, shortest = _seconds(item.round_s), f"{item.step_s:g} s", _seconds(item.shortest_step_s)
        rows.append((name, item.recipe, round_, step, f"{item.load:.0%}", item.verdict, shortest))
    return rows


def _seconds(value: float) -> str:
    """Hundredths only below 10 s, so that the table fits a terminal."""
    return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s"


def _parity_rows(checks: "list[Parity]") -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("", "against", "largest error", "mean error", "same tokens", "")]
    for item in checks:
        figures = (f"{item.largest_error:.1e}", f"{item.mean_error:.1e}", f"{item.agreement:.1%}")
        rows.append((item.what, item.against, *figures, "passed" if item.passed else "FAILED"))
        limits = item.limits
        largest = f"{limits.largest_error:.1e}" if math.isfinite(limits.largest_error) else "any"
        rows.append(("", "needed", largest, f"{limits.mean_error:.1e}", f"{limits.agreement:.1%}", ""))
    return rows
