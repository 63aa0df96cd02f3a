"""What a server does not let anybody ask for, by the functions that say so; over sockets it is in `test_bad_input`."""

import pytest

from each_row import each_row
from fake_transcriber import FakeTranscriber
from whispertide.errors import OptionError
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.bounds import check_changes, check_executor
from whispertide.server.hub import Hub
from whispertide.server.options import ServerOptions

PIPELINED = get_recipe("whisper-streaming").replace(executor="pipelined")


@pytest.mark.parametrize("executor", ["pipelined", "auto"])
def test_rounds_with_workers_of_their_own_are_refused(executor: str) -> None:
    with pytest.raises(OptionError, match=f"expected executor=serial on a server.*got executor={executor}"):
        check_executor(PIPELINED.replace(executor=executor))
    check_executor(PIPELINED.replace(executor="serial"))


def test_a_server_does_not_start_with_such_a_recipe() -> None:
    with pytest.raises(OptionError, match="expected executor=serial on a server"):
        Hub({"fake.en": FakeTranscriber()}, PIPELINED, ServerOptions())  # type: ignore[dict-item]


@each_row("language", [None, "de", "German", "de-AT", "auto", "Auto"])
def test_a_language_that_the_model_writes_or_none(language: str | None) -> None:
    check_changes({"language": language}, get_recipe("whisper-streaming"), ("en", "de"))


@pytest.mark.parametrize("language", ["fr", "klingon", 5])
def test_a_language_that_the_model_does_not_write(language: object) -> None:
    with pytest.raises(OptionError):
        check_changes({"language": language}, get_recipe("whisper-streaming"), ("en", "de"))


def test_a_beam_is_bounded() -> None:
    recipe = get_recipe("whisper-streaming")
    check_changes({"beam": 8}, recipe)
    with pytest.raises(OptionError, match="expected beam of at most 8 on a server"):
        check_changes({"beam": 9}, recipe)
    check_changes({"beam": 12}, recipe.replace(beam=12))  # what the server was started with


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("whisper-streaming", {"search.beam": 9}),
        ("tide", {"rescue_beam": 9}),
        ("tide", {"policy.rescue_beam": 9}),
    ],
)
def test_a_beam_is_bounded_under_every_name(recipe: str, changes: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="beam of at most 8 on a server"):
        check_changes(changes, get_recipe(recipe))


@each_row(
    "changes",
    [
        {"framing": "masked"},
        {"framing": "masked", "mask": "d500"},
        {"mask": "d500"},
        {"framing.mask": "d500"},
        {"trained": False},
        {"framing": "blocks", "policy": "stable"},
        {"framing": "buckets", "masked": True},
    ],
)
def test_what_needs_graphs_of_its_own_is_refused(changes: dict[str, object]) -> None:
    """Building them takes minutes, and what is built is built while a session is opened."""
    recipe = get_recipe("whisper-streaming")
    with pytest.raises(OptionError, match="graphs that are built"):
        check_changes(changes, recipe)
    check_changes({"framing": "buckets", "masked": False, "search": "greedy"}, recipe)


def test_graphs_that_the_server_has_already_may_be_asked_for() -> None:
    masked = get_recipe("whisper-streaming").replace(framing="masked", mask="d500")
    check_changes({"framing": "masked", "mask": "d500", "trained": True}, masked)
    with pytest.raises(OptionError, match="expected no mask=d250"):
        check_changes({"mask": "d250"}, masked)
    check_changes({"framing": "blocks"}, get_recipe("whisperrt"))
