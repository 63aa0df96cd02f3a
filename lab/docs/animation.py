"""The live view of a recording as an animated SVG: what `listen` shows while somebody speaks, at the speed of speech.

    python lab/docs/animation.py RECORDING -m base -o docs/captions.svg

Frames are drawn by the live view itself, ten times a second, while the recording is played to a session in real time;
a frame lasts as long as it stood. The status line is the measured one. Browsers, and pages of README files, play it.
"""

import argparse
import io
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.style import Style
from rich.text import Text

from whispertide import api
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.live import LiveView
from whispertide.cli.meter import Meter
from whispertide.cli.pump import Pump, Watcher, at_live_pace
from whispertide.cli.source import Source
from whispertide.recipes.catalogue import get_recipe

WIDTH, ROWS = 64, 4  # of the terminal, in cells
CELL, LINE, MARGIN, BAR = 10, 26, 16, 34  # pixels: a cell's width, a row's height, around the text, the title's height
HOLD_S = 4.0  # the last frame stands so long
COLOURS = {"": "#e8e8e8", "dim italic": "#8a8a8a", "cyan": "#58d1eb", "yellow": "#e5c07b"}


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows on the screen from `start_s` on, each as (text, style) after (text, style)."""

    start_s: float
    rows: tuple[tuple[tuple[str, str], ...], ...]


@dataclass(slots=True)
class Camera(Watcher):
    """Keeps each frame of a view that differs from the one before it."""

    view: LiveView
    frames: list[Frame] = field(default_factory=list)
    history: list[Text] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    def tick(self, meter: Meter) -> None:
        """Look at the view after a block."""
        now_s = time.perf_counter() - self.began
        finished, rows = self.view.frame()
        self.history += finished
        kept = [*self.history, *rows[:-1]][-(ROWS - 1) :]
        kept += [Text("")] * (ROWS - 1 - len(kept))
        shown = tuple(_parts(row) for row in (*kept, rows[-1]))
        if not self.frames or shown != self.frames[-1].rows:
            self.frames.append(Frame(now_s, shown))


def play(recording: Path, model: str, recipe: str) -> list[Frame]:
    """Play the recording to a session in real time, and return the frames."""
    transcriber, source = api.load(model), Source(str(recording))
    console = Console(file=io.StringIO(), width=WIDTH + 1, height=ROWS, force_terminal=True)
    view = LiveView(console, Meter(live=True), transcriber.name, recipe, source.probe())
    transcriber.warm_up()
    session, camera = transcriber.session(get_recipe(recipe), live=True), Camera(view)
    Pump(session, view.meter, (view, camera)).run(at_live_pace(source.blocks()), Interrupts())
    camera.tick(view.meter)  # what the end confirms
    return camera.frames


def _parts(row: Text) -> tuple[tuple[str, str], ...]:
    """A row of the live view as (text, style) after (text, style)."""
    spans = [(span.start, span.end, str(span.style)) for span in row.spans]
    if not spans:
        return ((row.plain, str(row.style)),)
    (start, end, style), *_ = spans
    parts = ((row.plain[:start], ""), (row.plain[start:end], style), (row.plain[end:], ""))
    return tuple(part for part in parts if part[0])


def svg_of(frames: Sequence[Frame], title: str) -> str:
    """An SVG that shows each frame for as long as it stood, again and again."""
    width, height = WIDTH * CELL + 2 * MARGIN, BAR + ROWS * LINE + MARGIN
    ends = [*(frame.start_s for frame in frames[1:]), frames[-1].start_s + HOLD_S]
    total = ends[-1]
    drawn = "\n".join(_drawn(frame, end, total) for frame, end in zip(frames, ends, strict=True))
    font = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:16px"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#101214"/>\n'
        '<circle cx="20" cy="18" r="6" fill="#ff5f57"/><circle cx="40" cy="18" r="6" fill="#febc2e"/>'
        '<circle cx="60" cy="18" r="6" fill="#28c840"/>\n'
        f'<text x="{width / 2:g}" y="23" fill="#9aa0a6" text-anchor="middle" style="{font}">{escape(title)}</text>\n'
        f'<g xml:space="preserve" style="{font}">\n{drawn}\n</g>\n</svg>\n'
    )


def _drawn(frame: Frame, end_s: float, total_s: float) -> str:
    """A frame as a group that is visible from its start to its end."""
    first, last = frame.start_s / total_s, end_s / total_s
    if first <= 0:
        values, times = "visible;hidden", f"0;{last:.4f}"
    elif last >= 1:
        values, times = "hidden;visible", f"0;{first:.4f}"
    else:
        values, times = "hidden;visible;hidden", f"0;{first:.4f};{last:.4f}"
    shows = "visible" if last >= 1 else "hidden"  # where nothing moves, the last frame stands
    rows = "".join(_row(number, row) for number, row in enumerate(frame.rows) if any(text for text, _ in row))
    return (
        f'<g visibility="{shows}"><animate attributeName="visibility" values="{values}" keyTimes="{times}" '
        f'dur="{total_s:.2f}s" calcMode="discrete" repeatCount="indefinite"/>{rows}</g>'
    )


def _row(number: int, row: Sequence[tuple[str, str]]) -> str:
    y = BAR + (number + 0.75) * LINE
    parts = "".join(f"<tspan {_look(style)}>{escape(text)}</tspan>" for text, style in row)
    length = CELL * sum(len(text) for text, _ in row)
    return f'<text x="{MARGIN}" y="{y:g}" textLength="{length}">{parts}</text>'


def _look(style: str) -> str:
    italic = ' font-style="italic"' if Style.parse(style or "none").italic else ""
    return f'fill="{COLOURS[style]}"{italic}'


def main() -> None:
    """Play, then write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("-m", "--model", default="base")
    parser.add_argument("--recipe", default="tide")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/captions.svg"))
    asked = parser.parse_args()
    frames = play(asked.recording, asked.model, asked.recipe)
    asked.output.write_text(svg_of(frames, "whispertide listen"), encoding="utf-8")


if __name__ == "__main__":
    main()
