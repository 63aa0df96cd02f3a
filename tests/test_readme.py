"""The README's Python examples run in the checkout: they name the bundled recording, and hear a shorter one here.

Those of docs/guides/coming-from.md and docs/pilot.md run with the bundled model in place of theirs.
"""

import re
from functools import cache
from pathlib import Path

import pytest

import whispertide
from wav_file import save_wav
from whispertide import api
from whispertide.audio.file import load_audio
from whispertide.types import SAMPLE_RATE

README = Path(__file__).parents[1] / "README.md"
COMING_FROM = README.parent / "docs" / "guides" / "coming-from.md"
PILOT = README.parent / "docs" / "pilot.md"
DEMO = "src/whispertide/bundled/audio/demo.flac"
TALK = "talk.wav"  # of the guides


def python_in(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


EXAMPLES = python_in(README)
GUIDE = [text.replace("base.en", "nano.en") for page in (COMING_FROM, PILOT) for text in python_in(page)]


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


@pytest.mark.parametrize("example", EXAMPLES + GUIDE, ids=lambda example: example.strip().splitlines()[-1][:40])
def test_example_runs(
    example: str, recording: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(README.parent)
    monkeypatch.setattr(whispertide, "load", load)
    example = example.replace(DEMO, recording).replace(f'"{TALK}"', f'"{recording}"')
    exec(compile(example, "example", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.strip()


PAGES = [path for path in (README.parent / "docs").rglob("*.md") if not path.name.startswith("model-card")]


def test_files_that_a_page_names_exist() -> None:
    for page in (README, README.parent / "CONTRIBUTING.md", *PAGES):
        for target in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{target}, which {page.name} names"
