"""Who gets one of a server's places, and who gets a session back."""

from types import SimpleNamespace
from typing import Any

import pytest

from served import keyed, limited
from whispertide.server.client import RefusedError
from whispertide.server.metrics import Metrics
from whispertide.server.options import ServerOptions
from whispertide.server.places import Places


def live(owner: str = "", *, parked: bool = False) -> Any:
    return SimpleNamespace(owner=owner, parked_at=1.0 if parked else None)


def places(options: ServerOptions, **sessions: Any) -> tuple[Places, dict[str, Any], Metrics]:
    metrics = Metrics()
    return Places(sessions, options, metrics), sessions, metrics


def refused(kind: str, of: Any, *arguments: str) -> str:
    with pytest.raises(RefusedError) as error:
        of(*arguments)
    assert error.value.kind == kind
    return str(error.value)


def test_a_place_is_taken_by_a_session_with_a_client() -> None:
    found, sessions, _ = places(limited(sessions=2), one=live(), two=live(parked=True))
    assert not found.full
    found.admit("")
    sessions["three"] = live()
    assert found.full
    assert "at most 2 sessions" in refused("overloaded", found.admit, "")
    sessions["one"].parked_at = 5.0
    found.admit("")


def test_one_owner_has_a_share() -> None:
    options = keyed("alpha", "beta", sessions=8, per_owner=1)
    found, _, _ = places(options, one=live("alpha"), two=live("alpha", parked=True))
    assert len(list(found.of("alpha"))) == 2
    assert "at most 1 sessions at once with one API key" in refused("overloaded", found.admit, "alpha")
    found.admit("beta")


def test_a_session_is_found_by_its_owner_alone() -> None:
    found, sessions, _ = places(limited(), mine=live("alpha"))
    assert found.find("mine", "alpha", "192.0.2.1") is sessions["mine"]
    unknown = refused("unknown_session", found.find, "yours", "alpha", "192.0.2.1")
    assert refused("unknown_session", found.find, "mine", "beta", "192.0.2.1") == unknown


def test_who_guesses_often_has_to_wait_and_nobody_else() -> None:
    found, _, _ = places(limited(), mine=live("alpha"))
    found.guesses.clock = lambda: 0.0
    for number in range(100):
        refused("unknown_session", found.find, f"guess {number}", "beta", "192.0.2.1")
    refused("overloaded", found.find, "another", "beta", "192.0.2.1")
    refused("overloaded", found.check_guess, "mine", "beta", "192.0.2.1")
    found.check_guess("mine", "alpha", "192.0.2.1")  # a right one is no guess
    refused("unknown_session", found.find, "another", "beta", "192.0.2.2")


def test_refusals_and_sessions_are_counted() -> None:
    found, _, metrics = places(limited(), one=live(), two=live(parked=True))
    error = found.refusal("behind", "gone", 7)
    assert (error.kind, str(error), error.last_seq) == ("behind", "gone", 7)
    found.count()
    shown = {
        sample.name.removeprefix("whispertide_"): sample.value
        for metric in (metrics.sessions, metrics.parked, metrics.refused)
        for family in metric.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert sorted(shown.values()) == [1, 1, 2]
