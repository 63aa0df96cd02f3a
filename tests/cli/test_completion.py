"""What the shell offers, asked as bash asks."""

from typer.testing import CliRunner

from each_row import each_row
from whispertide.checkpoint.names import ALIASES, SHORT_NAMES
from whispertide.cli.main import app
from whispertide.recipes.catalogue import RECIPES
from whispertide_lab.evaluation.corpora import MADE, NAMES, READ


def offered(line: str) -> list[str]:
    """For the end of `line`, which may be an empty word."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    result = CliRunner().invoke(
        app, [], prog_name="whispertide", env={"_WHISPERTIDE_COMPLETE": "complete_bash", **words}
    )
    return result.stdout.split()


@each_row("command", ["transcribe", "listen", "demo", "serve", "replay", "profile"])
def test_recipes(command: str) -> None:
    assert offered(f"whispertide {command} --recipe ") == list(RECIPES)
    assert offered(f"whispertide {command} --recipe ti") == ["tide"]


@each_row("where", ["transcribe --model", "serve -m", "models pull", "doctor", "train fit --from"])
def test_models(where: str) -> None:
    found = offered(f"whispertide {where} ")
    assert {"nano.en", *ALIASES, *SHORT_NAMES} == set(found)
    assert offered(f"whispertide {where} distil-s") == ["distil-small.en"]
    assert offered(f"whispertide {where} ./my") == [], "the shell completes paths"


def test_corpora() -> None:
    assert offered("whispertide bench paper npusper --corpus ") == [*MADE, *NAMES, *(f"{name}:" for name in READ)]
    assert offered("whispertide bench run --corpora no") == ["noisy", "nonspeech"]


def test_the_last_of_several_names() -> None:
    assert offered("whispertide transcribe --format srt,j") == ["srt,json", "srt,jsonl"]
    assert offered("whispertide bench run --recipes whisperflow,sim") == ["whisperflow,simulstreaming"]
    assert offered("whispertide bench run --models nano.en,distil-s") == ["nano.en,distil-small.en"]


def test_fields_of_a_recipe_and_their_values() -> None:
    assert offered("whispertide listen --set step") == ["step_s="]
    assert offered("whispertide listen --set vad=") == ["vad=true", "vad=false"]
    assert offered("whispertide listen --set policy=align") == ["policy=align-att"]
