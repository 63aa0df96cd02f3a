"""What a server does not let anybody ask for, by the functions that say so; over sockets it is in `test_bad_input`."""

import pytest

from fake_transcriber import FakeTranscriber
from whispertide.errors import OptionError
from whispertide.server.bounds import check_changes, check_executor
from whispertide.server.hub import Hub
from whispertide.server.options import ServerOptions
from whispertide.streaming.recipes import get_recipe

PIPELINED = get_recipe("whisper-streaming").replace(executor="pipelined")


@pytest.mark.parametrize("executor", ["pipelined", "auto"])
def test_rounds_with_workers_of_their_own_are_refused(executor: str) -> None:
    with pytest.raises(OptionError, match=f"expected executor=serial on a server.*got executor={executor}"):
        check_executor(PIPELINED.replace(executor=executor))
    check_executor(PIPELINED.replace(executor="serial"))


def test_a_server_does_not_start_with_such_a_recipe() -> None:
    with pytest.raises(OptionError, match="expected executor=serial on a server"):
        Hub({"fake.en": FakeTranscriber()}, PIPELINED, ServerOptions())  # type: ignore[dict-item]


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
