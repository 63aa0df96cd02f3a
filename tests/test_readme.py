"""The README's Python examples run in the checkout: they name the bundled recording, and hear a shorter one here.

So do those of the reference, and with the bundled model in place of theirs those of guides and internals.
"""

import re
from functools import cache
from pathlib import Path

import pytest

import whispertide
from each_row import each_row
from slow_rows import slow_but
from wav_file import save_wav
from whispertide import api
from whispertide.audio.file import load_audio
from whispertide.types import SAMPLE_RATE

README = Path(__file__).parents[1] / "README.md"
COMING_FROM = README.parent / "docs" / "guides" / "coming-from.md"
COMMANDS = README.parent / "docs" / "guides" / "commands.md"
REFERENCE = [README.parent / "docs" / "reference" / name for name in ("python.md", "recipes.md")]
TIDE = README.parent / "docs" / "guides" / "tide.md"
DEMO = "src/whispertide/bundled/audio/demo.flac"
TALK = "talk.wav"  # of the guides


def python_in(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


EXAMPLES = [text for page in (README, *REFERENCE) for text in python_in(page)]
GUIDES = (COMING_FROM, COMMANDS, TIDE)
GUIDE = [re.sub(r'"(base|tiny)\.en"', '"nano.en"', text) for page in GUIDES for text in python_in(page)]


PAGES = [README, *sorted((README.parent / "docs").rglob("*.md"))]


@each_row("page", [page for page in PAGES if python_in(page)])
def test_every_example_is_python(page: Path) -> None:
    """Also of those that need a program from elsewhere."""
    for text in python_in(page):
        compile(text, page.name, "exec")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
    assert len(GUIDE) >= 3
    named = set(re.findall(r'"([^"]+\.flac)"', "".join(EXAMPLES)))
    assert named == {DEMO}
    assert (README.parent / DEMO).is_file()


load = cache(api.load)  # the first that a model transcribes takes it longest


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two seconds of speech; the recording of the demo has 40."""
    quiet = load_audio(README.parent / "tests" / "clips" / "quiet.flac")
    return save_wav(tmp_path_factory.mktemp("recording") / TALK, quiet[: 2 * SAMPLE_RATE]).as_posix()


@pytest.mark.parametrize(
    "example", slow_but(EXAMPLES + GUIDE, *python_in(README)), ids=lambda example: example.strip().splitlines()[-1][:40]
)
def test_example_runs(
    example: str, recording: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(README.parent)
    monkeypatch.setattr(whispertide, "load", load)
    example = example.replace(DEMO, recording).replace(f'"{TALK}"', f'"{recording}"')
    exec(compile(example, "example", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.strip()
