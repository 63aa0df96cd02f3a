"""Make every picture of the docs: `make pictures` (some minutes; what is measured already is not measured again).

docs/live.svg, docs/live.png    the live view in the middle of the demo, by the bundled weights as they are today
lab/docs/benchmarks/recipes-*   the recipes by the same weights, on the free clock: the same on every machine
*.png, *.pdf of both docs       all plots, drawn from the numbers (*.csv) next to them
"""

import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from resvg_py import svg_to_bytes
from rich.console import Console
from rich.terminal_theme import MONOKAI

from whispertide import api
from whispertide.cli.bundled import bundled_files
from whispertide.cli.demo import plain
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.live import LiveView
from whispertide.cli.meter import Meter
from whispertide.cli.pump import Pump, Watcher, at_live_pace
from whispertide.cli.source import Source
from whispertide.options import BUNDLED_MODEL, DEFAULT_RECIPE, EngineOptions
from whispertide.recipes.catalogue import RECIPES, get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.session_state import Transcript
from whispertide.tuning.drawing import Drawing, scatter
from whispertide.types import FloatArray, join_words, to_samples
from whispertide_lab.evaluation import plots, publish
from whispertide_lab.evaluation.grid import Setup, grid
from whispertide_lab.evaluation.plots import read
from whispertide_lab.evaluation.runner import Runner
from whispertide_lab.evaluation.watch import Watch

LAB_DOCS = Path(__file__).parent
ROOT = LAB_DOCS.parents[1]
DOCS = ROOT / "docs"
WIDTH, HEIGHT = 80, 24  # of the terminal
FROM_S = 16.0  # the picture is of a moment after so much audio, where ...
WORDS = 1  # ... the guess has at least so many words, and all of them turn out to be right
EXCERPT_S = 120.0  # of talks
ZOOM = 2  # pixels of the PNG for one of the SVG


def live_view(pace: Callable[[Iterable[FloatArray]], Iterable[FloatArray]], recipe: Recipe) -> str:
    """The live view of the demo as SVG, at the first moment that is good to look at. Raises `RuntimeError`: none is."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, height=HEIGHT, force_terminal=True, highlight=False)
    transcriber = api.load(BUNDLED_MODEL)
    with bundled_files() as (recording, transcript):
        source = Source(str(recording))
        view = LiveView(console, Meter(live=True), transcriber.name, recipe.name, source.probe())
        play(view, transcriber, recipe, pace(source.blocks()), plain(transcript.read_text(encoding="utf-8")))
    finished, rows = view.frame()
    console.print("$ whispertide demo", style="bold")
    for row in (*finished, *rows, ""):  # an empty one, because the picture cuts the letters of the last
        console.print(row)
    svg = console.export_svg(title="whispertide demo", theme=MONOKAI)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # fonts that it would fetch from elsewhere
    return re.sub("Fira Code, monospace|arial", "monospace", svg)


def play(
    view: LiveView, transcriber: api.Transcriber, recipe: Recipe, blocks: Iterable[FloatArray], spoken: str
) -> None:
    """Feed the recording until the view shows what the picture is to be of."""
    session = transcriber.session(recipe)
    transcriber.warm_up()
    try:
        Pump(session, view.meter, (view, Looking(session, spoken))).run(blocks, Interrupts())
    except FoundError:
        return
    raise RuntimeError("expected a moment with a guess that turns out to be right; there was none")


class FoundError(Exception):
    """Ends a run: this is the moment of the picture."""


@dataclass(slots=True)
class Looking(Watcher):
    """Raises `FoundError` at the first moment that is good to look at."""

    session: Session
    spoken: str

    def tick(self, meter: Meter) -> None:
        """Look at the transcript after a block."""
        meter.cpu_percent()
        if self.session.received > to_samples(FROM_S) and is_right(self.session.transcript, self.spoken):
            raise FoundError


def is_right(transcript: Transcript, spoken: str) -> bool:
    """Whether there is a guess of some length, and the speaker goes on so."""
    known, guess = (plain(join_words(list(words))) for words in (transcript.words, transcript.hypothesis))
    return len(guess.split()) >= WORDS and f"{known[-20:]} {guess} " in spoken


def rastered(svg: str) -> bytes:
    """As PNG, in the font that comes with matplotlib."""
    fonts = Path(mpl.get_data_path()) / "fonts" / "ttf"
    files = [str(fonts / f"DejaVuSansMono{style}.ttf") for style in ("", "-Bold", "-Oblique")]
    return svg_to_bytes(svg, skip_system_fonts=True, font_files=files, monospace_family="DejaVu Sans Mono", zoom=ZOOM)


def recipes(folder: Path) -> publish.Part:
    """Every recipe at its own step, computing counted as instant: tables and plots. Results are kept in `folder`."""
    setup = Setup("free", excerpt_s=EXCERPT_S, engine=EngineOptions("int8", "cpu", 1), models=(BUNDLED_MODEL,))
    runner = Runner(folder, setup, Watch())
    cells = [runner.run(wanted) for wanted in grid(tuple(RECIPES), (BUNDLED_MODEL,), ("talks",), (), ())]
    return publish.streaming_part("The recipes", "", cells, "recipes")


def drawn(numbers: Path) -> Drawing:
    """The plot of a file of numbers, whose name says of what kind it is."""
    if numbers.stem == "delays":
        title, x_label, items = plots.read_bars(numbers)
        return plots.bars(items, x_label=x_label, title=title)
    about, curves, levels = read(numbers)
    if numbers.stem == "memory":
        return plots.over_time(curves, zero=False, **about)
    if numbers.stem.endswith("trade-off"):
        return scatter(curves, levels=levels, **about)
    return plots.front(*curves, **about) if numbers.stem == "search" else plots.shares(curves, **about)


def main() -> None:
    """Draw and save everything."""
    svg = live_view(at_live_pace, get_recipe(DEFAULT_RECIPE))
    (DOCS / "live.svg").write_text(svg, encoding="utf-8")
    (DOCS / "live.png").write_bytes(rastered(svg))
    part = recipes(ROOT / "bench-results" / "pictures")
    print(part.text)
    for name, drawing in part.plots.items():
        drawing.save(LAB_DOCS / "benchmarks" / name)
    for numbers in (*DOCS.rglob("*.csv"), *LAB_DOCS.rglob("*.csv")):
        drawn(numbers).save(numbers.with_suffix(""))


if __name__ == "__main__":
    main()
