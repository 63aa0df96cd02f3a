import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from card_values import RIGHT, WRONG, make_card, make_result
from whispertide.cli.exit import ExitCode
from whispertide.cli.main import app
from whispertide_lab.evaluation.card import make as cards
from whispertide_lab.evaluation.card.make import CardOptions
from whispertide_lab.evaluation.card.results import Card

Asked = list[tuple[str, CardOptions, str]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What was measured; no model is."""
    calls: Asked = []

    def make(name: str, options: CardOptions, *, words_of: str = "", announce: object, advance: object) -> Card:
        calls.append((name, options, words_of))
        return make_card(make_result([WRONG if name == "older" else RIGHT] * 30), name=name, hours=1)

    monkeypatch.setattr(cards, "make_card", make)
    monkeypatch.setattr(cards, "load_checkpoint", lambda name: name)
    return calls


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


def test_a_page_and_its_figures(tmp_path: Path, asked: Asked) -> None:
    page = tmp_path / "new" / "card.md"
    result = run("card", "newer", "--output", page, "--quick", "--manifest", tmp_path, "--seed", 3)
    assert result.exit_code == ExitCode.OK, result.output
    assert page.read_text().startswith("# Model card: newer")
    assert Card.from_json(page.with_suffix(".json").read_text()).model["name"] == "newer"
    ((name, options, _),) = asked
    assert (name, options.manifest, options.quick, options.seed) == ("newer", tmp_path, True, 3)
    assert options.engine.precision == "int8"


def test_the_previous_one_is_measured_on_the_same_sets(tmp_path: Path, asked: Asked) -> None:
    result = run("card", "newer", "--output", tmp_path / "card.md", "--against", "older")
    assert result.exit_code == ExitCode.OK, result.output
    assert [(name, words_of) for name, _, words_of in asked] == [("newer", ""), ("older", "newer")]
    assert (asked[0][1].output, asked[0][1].against) == (tmp_path / "card.md", "older")
    assert "Better on: trained voices, grammar" in (tmp_path / "card.md").read_text()


def test_or_read_from_its_card(tmp_path: Path, asked: Asked) -> None:
    run("card", "older", "--output", tmp_path / "older.md")
    result = run("card", "newer", "--output", tmp_path / "newer.md", "--against", tmp_path / "older.json")
    assert result.exit_code == ExitCode.OK, result.output
    assert [name for name, *_ in asked] == ["older", "newer"]
    assert "| 30.0 | 0.0 |" in (tmp_path / "newer.md").read_text()


@pytest.mark.usefixtures("asked")
def test_wrong_usage(tmp_path: Path) -> None:
    assert run("card", "newer", "--output", tmp_path / "card.txt").exit_code == ExitCode.USAGE
    (tmp_path / "file").touch()
    assert run("card", "newer", "--output", tmp_path / "file" / "card.md").exit_code == ExitCode.OUTPUT
    missing = run("card", "newer", "--output", tmp_path / "card.md", "--against", tmp_path / "none.json")
    assert missing.exit_code == ExitCode.USAGE
    assert not (tmp_path / "card.md").exists()


@pytest.mark.parametrize(
    ("output", "against", "code"),
    [
        ("file/card.md", "", ExitCode.OUTPUT),
        ("folder.md", "", ExitCode.OUTPUT),
        ("card.md", "nowhere.json", ExitCode.USAGE),
        ("card.md", "./nowhere", ExitCode.MODEL),
    ],
)
def test_what_cannot_be_written_or_compared_is_said_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, against: str, code: ExitCode
) -> None:
    monkeypatch.setattr(cards, "make_card", lambda *_, **__: pytest.fail("measured for nothing"))
    (tmp_path / "file").touch()
    (tmp_path / "folder.md").mkdir()
    result = run("card", "newer", "--output", tmp_path / output, "--against", against)
    assert result.exit_code == code, result.output


def test_an_interrupted_run_says_that_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Card:
        raise KeyboardInterrupt

    monkeypatch.setattr(cards, "make_card", interrupted)
    result = run("card", "newer", "--output", tmp_path / "card.md")
    assert result.exit_code == ExitCode.INTERRUPTED
    assert "the same command continues" in result.output


@pytest.mark.slow
def test_a_curve_from_several_cards(tmp_path: Path) -> None:
    for name, hours, counts in (("small", 10, WRONG), ("large", 100, RIGHT)):
        text = make_card(make_result([counts] * 30), name=name, hours=hours).to_json()
        (tmp_path / f"{name}.json").write_text(text)
    result = run("curve", tmp_path / "large.json", tmp_path / "small.json", "--output", tmp_path / "curve.html")
    assert result.exit_code == ExitCode.OK, result.output
    lines = result.output.splitlines()
    assert lines[1].split()[-1] == "small"
    assert lines[2].split()[-1] == "large"
    assert "<img" in (tmp_path / "curve.html").read_text()


def test_a_curve_needs_hours(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(make_card(make_result([RIGHT])).to_json())
    assert run("curve", tmp_path / "card.json").exit_code == ExitCode.USAGE
    assert json.loads((tmp_path / "card.json").read_text())["training"] == {}
