"""Draw docs/live.svg: the live view in the middle of a real run of the demo, at live pace (about 20 s).

python docs/make_live_svg.py
"""

import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from whispertide import api
from whispertide.cli.bundled import bundled_files
from whispertide.cli.live import LiveView
from whispertide.cli.meter import Meter
from whispertide.cli.pump import at_live_pace
from whispertide.cli.source import Source
from whispertide.streaming.recipes import DEFAULT_RECIPE, get_recipe

WIDTH = 80
FROM_S = 16.0  # the picture shows the first guess of some length after this much audio
WORDS = 3


def run_until_guess(view: LiveView, transcriber: api.Transcriber, recording: str) -> None:
    """Feed the recording live until the view shows a guess."""
    session = transcriber.session(view.recipe)
    transcriber.warm_up()
    for block in at_live_pace(Source(recording).blocks()):
        view.meter.audio(len(block))
        for event in session.push(block):
            view.meter.event(event)
            view.event(event)
        view.meter.cpu_percent()
        if view.meter.elapsed > FROM_S and len(view.captions.guess.split()) >= WORDS:
            return


def main() -> None:
    """Run, draw, save."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, height=24, force_terminal=True, highlight=False)
    transcriber = api.load(api.BUNDLED_MODEL)
    recipe = get_recipe(DEFAULT_RECIPE)
    with bundled_files() as (recording, _):
        source = Source(str(recording))
        view = LiveView(console, Meter(live=True), transcriber.name, recipe.name, source.probe())
        run_until_guess(view, transcriber, str(recording))
    finished, rows = view.frame()
    console.print("$ whispertide demo", style="bold")
    for row in (*finished, *rows):
        console.print(row)
    svg = console.export_svg(title="whispertide demo", theme=MONOKAI)
    # Without the fonts that it would fetch from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    Path(__file__).with_name("live.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
