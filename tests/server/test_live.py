"""What a client asks for in the middle of a session, while the load has lowered its quality."""

from typing import Any

import pytest

from oracle import make_gate
from served import KnowingModel, WatchedOracle
from whispertide.errors import OptionError
from whispertide.events import Error
from whispertide.recipes.catalogue import RECIPES, get_recipe
from whispertide.server.live import LiveSession
from whispertide.server.load import LEVELS, settings_at
from whispertide.server.protocols.base import Configure
from whispertide.session import Session
from wire_conversation import said

EVERY_LEVEL = pytest.mark.parametrize("level", range(LEVELS + 1))


def session(name: str, level: int, **changes: Any) -> LiveSession:
    words = said(3)
    inner = Session(get_recipe(name).replace(**changes), WatchedOracle(words, KnowingModel()), make_gate(words))
    live = LiveSession("s", "", "nano.en", inner, languages=("en",))
    live.step(level)
    assert live.level == level
    return live


def asked(live: LiveSession, **changes: Any) -> list[Error]:
    """What the session says to a change."""
    live.put(Configure(changes))
    return [entry for entry in live.step(live.level).entries if isinstance(entry, Error)]


@EVERY_LEVEL
@pytest.mark.parametrize("step_s", [1.2, 2.0])
def test_steps_get_no_longer_than_the_longest(level: int, step_s: float) -> None:
    live = session("tide", level)
    assert not asked(live, step_s=step_s)
    assert (live.level, live.ended) == (level, False)
    assert live.asked_recipe.schedule.step_s == step_s
    assert live.session.recipe.schedule.step_s == (2.0 if level == LEVELS else step_s)


@EVERY_LEVEL
def test_a_session_whose_step_is_the_longest_is_lowered_otherwise(level: int) -> None:
    live = session("tide", level, step_s=2.0, longest_step_s=2.0)
    assert live.session.recipe.schedule.step_s == 2.0


@EVERY_LEVEL
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tide", {"schedule": "fixed"}),
        ("tide", {"schedule": "best-effort", "step_s": 0.3}),
        ("pilot", {"schedule": "fixed"}),
        ("whisper-streaming", {"schedule": "adaptive", "longest_step_s": 1.5}),
        ("whisper-streaming", {"search": "pruned"}),
        ("whisper-streaming", {"search": "greedy", "temperatures": (0.0, 0.5)}),
    ],
)
def test_a_choice_is_exchanged_whatever_the_load(name: str, changes: dict[str, Any], level: int) -> None:
    """It keeps what it has in common with what was asked for, not with what the load made of that."""
    live = session(name, level)
    assert not asked(live, **changes)
    of_recipe = {key: value for key, value in changes.items() if key != "temperatures"}
    assert live.asked_recipe == get_recipe(name).replace(**of_recipe)
    assert live.asked_options.temperatures == changes.get("temperatures", live.asked_options.temperatures)
    assert live.level == level
    lowered = settings_at(level, live.asked_recipe, live.asked_options)
    assert live.session.recipe.search == lowered["search"]
    assert live.session.options.temperatures == lowered["temperatures"]


@EVERY_LEVEL
@pytest.mark.parametrize("changes", [{"step_s": 2.5}, {"beam": 9}, {"framing": "buckets"}, {"nonsense": 1}])
def test_a_change_that_cannot_be_changes_nothing(changes: dict[str, Any], level: int) -> None:
    live = session("tide", level)
    before = live.session.recipe, live.session.options, live.asked_recipe
    (error,) = asked(live, **changes)
    assert not error.fatal
    assert (live.session.recipe, live.session.options, live.asked_recipe) == before
    assert live.level == level


@EVERY_LEVEL
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_has_every_level(name: str, level: int) -> None:
    assert session(name, level).level == level


def test_a_session_that_cannot_be_lowered_goes_on_in_full_quality(monkeypatch: pytest.MonkeyPatch) -> None:
    live = session("tide", 2)

    def only_full(level: int, *arguments: Any) -> dict[str, Any]:
        if level:
            raise OptionError("not with this recipe")
        return settings_at(level, *arguments)

    monkeypatch.setattr("whispertide.server.live.settings_at", only_full)
    assert not asked(live, step_s=0.5)
    assert (live.level, live.ended) == (0, False)
    assert live.session.recipe == live.asked_recipe
