"""The README's Python examples run in the checkout: they name the bundled recording, and hear a shorter one here.

Those of docs/guides/coming-from.md and docs/pilot.md run with the bundled model in place of theirs.
"""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
COMING_FROM = README.parent / "docs" / "guides" / "coming-from.md"
PILOT = README.parent / "docs" / "pilot.md"
DEMO = "src/whispertide/bundled/audio/demo.flac"
QUIET = "tests/clips/quiet.flac"  # 4 s; the recording of the demo has 40


def python_in(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


EXAMPLES = python_in(README)
GUIDE = [
    text.replace("base.en", "nano.en").replace("talk.wav", QUIET)
    for page in (COMING_FROM, PILOT)
    for text in python_in(page)
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
    assert len(GUIDE) >= 3
    named = set(re.findall(r'"([^"]+\.flac)"', "".join(EXAMPLES)))
    assert named == {DEMO}
    assert (README.parent / DEMO).is_file()


@pytest.mark.parametrize("example", EXAMPLES + GUIDE, ids=lambda example: example.strip().splitlines()[-1][:40])
def test_example_runs(example: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(README.parent)
    exec(compile(example.replace(DEMO, QUIET), "example", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.strip()


PAGES = [path for path in (README.parent / "docs").rglob("*.md") if not path.name.startswith("model-card")]


@pytest.mark.parametrize("page", [README, README.parent / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
