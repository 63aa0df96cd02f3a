"""The pictures of the docs: made by one command, of what today's weights say, and readable."""

import re
from collections.abc import Iterator
from functools import partial
from html import unescape
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from types import ModuleType

import jiwer
import pytest

from benchmark_scripts import benchmark
from whispertide.cli.demo import plain
from whispertide.cli.pump import LIVE_BLOCK, at_full_speed
from whispertide.recipes.catalogue import get_recipe

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LAB = ROOT / "lab" / "docs"
SPOKEN = plain((files("whispertide") / "bundled" / "audio" / "demo.txt").read_text(encoding="utf-8")).split()
NUMBERS = sorted((*DOCS.rglob("*.csv"), *LAB.rglob("*.csv")))


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with benchmark("pictures", LAB) as module:
        yield module


@pytest.fixture(scope="module")
def made(script: ModuleType) -> str:
    """At equal steps and not at the speed of speech, so that it depends on no clock."""
    svg: str = script.live_view(partial(at_full_speed, step=LIVE_BLOCK), get_recipe("tide").replace(schedule="fixed"))
    return svg


def told(svg: str) -> tuple[str, str, str]:
    """What stands in the terminal: the captions, the guess among them, and the status line."""
    dim = re.search(r"\.(\S+) \{[^}]*font-style: italic", svg)
    assert dim is not None, "expected a guess"
    pieces = [
        (kind, unescape(text).replace("\u00a0", " "))
        for kind, text in re.findall(r'<text class="([^"]*)" [^>]*>([^<]*)</text>', svg)
    ]
    _, (_, command), *captions, (_, status) = [(kind, text) for kind, text in pieces if text.strip()]
    assert command == "$ whispertide demo"
    return (
        plain(" ".join(text for _, text in captions)),
        plain(" ".join(text for kind, text in captions if kind == dim[1])),
        status,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True], ids=["made now", "in the docs"])
def test_the_live_picture_shows_what_the_recording_says(kept: bool, request: pytest.FixtureRequest) -> None:
    svg = (DOCS / "live.svg").read_text(encoding="utf-8") if kept else request.getfixturevalue("made")
    captions, guess, status = told(svg)
    words = captions.split()
    assert len(words) > 30
    assert jiwer.wer(" ".join(SPOKEN[: len(words)]), captions) < 0.1
    assert guess.split()
    assert captions.endswith(guess)
    assert re.match(r"nano\.en · tide · 0:\d\d of 0:40 · lag ", status)


@pytest.mark.slow
def test_the_live_picture_becomes_a_png(script: ModuleType, made: str) -> None:
    png = script.rastered(made)
    assert png.startswith(b"\x89PNG")
    assert len(png) > 20_000, "expected letters"


@pytest.mark.slow
@pytest.mark.parametrize("numbers", NUMBERS, ids=lambda path: path.stem)
def test_every_plot_is_drawn_from_its_numbers(script: ModuleType, numbers: Path) -> None:
    drawing = script.drawn(numbers)
    assert drawing.csv() == numbers.read_text(encoding="utf-8")
    assert all(numbers.with_suffix(ending).exists() for ending in (".png", ".pdf"))
    notes = [text.get_window_extent() for text in drawing.figure.axes[0].texts]
    assert not any(one.overlaps(other) for one, other in combinations(notes, 2))


def test_the_docs_show_pictures_that_exist_and_that_every_viewer_can_show() -> None:
    shown = {
        page.parent / name
        for page in (*DOCS.rglob("*.md"), *LAB.rglob("*.md"), ROOT / "README.md")
        for name in re.findall(r"!\[[^\]]*\]\((?!https:)([^)]*)\)", page.read_text(encoding="utf-8"))
    }
    assert {path.stem for path in shown} >= {"live", *(path.stem for path in NUMBERS)}
    assert [path for path in shown if not path.is_file()] == []
    drawn = [path for kind in ("svg", "html") for folder in (DOCS, LAB) for path in folder.rglob(f"*.{kind}")]
    assert [path for path in drawn if "var(--" in path.read_text(encoding="utf-8")] == []
