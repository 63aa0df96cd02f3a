"""Wrong keys and sessions that are not here: how often an address may try."""

from contextlib import ExitStack
from typing import Any

import pytest

from served import KnowingModel, keyed, limited
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.access import AccessControl, Authenticator
from whispertide.server.client import RefusedError
from whispertide.server.guesses import Guesses
from whispertide.server.http_error import HttpError
from whispertide.server.hub import Hub
from whispertide.server.protocols.base import Resume
from whispertide.server.recent import MOST

KEYS = ("the-right-key", "another-right-key")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_guesses_of_one_party_cost_the_others_nothing_and_are_forgotten_with_time() -> None:
    clock = Clock()
    guesses = Guesses(3, 0.5, clock=clock)
    for _ in range(10):
        guesses.wrong("a")
    assert not guesses.may_guess("a")
    assert guesses.may_guess("b")
    clock.now += 2
    assert guesses.may_guess("a")
    guesses.wrong("a")
    assert not guesses.may_guess("a")


def test_memory_of_guesses_has_an_end() -> None:
    guesses = Guesses(3, 0.5, clock=Clock())
    for number in range(MOST + 100):
        guesses.wrong(f"party {number}")
        guesses.right(f"party {number}", "key")
    assert len(guesses._left) == len(guesses._known) == MOST


def test_behind_a_proxy_addresses_tell_nothing() -> None:
    guesses = Guesses(3, 0.5, enabled=False, clock=Clock())
    for _ in range(10):
        guesses.wrong("a")
    assert guesses.may_guess("a")


def answer(access: AccessControl, key: str, address: str = "192.0.2.1") -> int:
    try:
        access.check({"authorization": f"Bearer {key}"} if key else {}, {}, (), address)
    except HttpError as error:
        return error.status
    return 200


def test_wrong_keys_are_slowed_down_by_address() -> None:
    """Whoever has guessed too often learns nothing of a right key either; who was let in before is not kept out."""
    clock = Clock()
    options = keyed(*KEYS)
    access = AccessControl(Authenticator(options.access), options, clock)
    assert answer(access, KEYS[0]) == 200
    assert {answer(access, f"wrong-key-{number}") for number in range(20)} == {401}
    assert {answer(access, f"wrong-key-{number}") for number in range(20)} == {429}
    assert answer(access, KEYS[1]) == 429, "as for a wrong one"
    assert answer(access, KEYS[0]) == 200, "known from here"
    assert answer(access, KEYS[1], "192.0.2.2") == 200, "another address"
    assert answer(access, "") == 401, "no key is no guess"
    clock.now += 60
    assert answer(access, KEYS[1]) == 200


def test_a_handshake_is_not_a_thousand_guesses() -> None:
    """It counts as one, and each key costs the event loop its time."""
    options = keyed(*KEYS)
    access = AccessControl(Authenticator(options.access), options, Clock())
    many = [part for number in range(1_000) for part in ("token", f"wrong-key-{number}")]
    with pytest.raises(HttpError) as refused:
        access.check({}, {}, (*many, "token", KEYS[0]), "192.0.2.1", protocol="native")
    assert refused.value.status == 401
    everywhere = {"authorization": "wrong", "x-api-key": "wrong", "api-key": "wrong"}
    addressed = {"api_key": "wrong", "token": "wrong", "key": "wrong"}
    assert access.check(everywhere, addressed, ("token", KEYS[0]), "192.0.2.1", protocol="native").owner


def test_requests_of_those_who_guess_are_not_counted_for_those_who_are_known() -> None:
    """With a limit on requests: it is that of an address, and everybody at work may have the same."""
    options = keyed(*KEYS, requests=5)
    access = AccessControl(Authenticator(options.access), options, Clock())
    assert answer(access, KEYS[0]) == 200
    assert [answer(access, f"wrong-key-{number}") for number in range(5)] == [401] * 4 + [429]
    assert answer(access, KEYS[1]) == 429, "not known from here: the answer is that to a wrong one"
    assert [answer(access, KEYS[0]) for _ in range(6)] == [200] * 5 + [429], "a limit of its own"


def test_sessions_that_are_not_here_are_asked_for_slowly() -> None:
    models: Any = {"nano.en": KnowingModel()}
    hub = Hub(models, get_recipe("whisper-streaming"), limited())
    hub.places.guesses.clock = Clock()
    kinds = []
    for number in range(150):
        with pytest.raises(RefusedError) as refused:
            hub.resume(Resume(f"session {number}"), "", "192.0.2.1")
        kinds.append(refused.value.kind)
    assert kinds == ["unknown_session"] * 100 + ["overloaded"] * 50
    with pytest.raises(RefusedError) as refused:
        hub.resume(Resume("session 0"), "", "192.0.2.2")
    assert refused.value.kind == "unknown_session"


def test_connections_are_shared_by_keys() -> None:
    options = keyed(*KEYS, connections=8, sessions=2)
    access = AccessControl(Authenticator(options.access), options)

    with ExitStack() as held:

        def come(key: str, address: str) -> None:
            admitted = access.check({"authorization": key}, {}, (), address, protocol="native")
            held.enter_context(access.connected(admitted.owner, address))

        for number in range(4):
            come(KEYS[0], f"192.0.2.{number}")
        with pytest.raises(HttpError, match="with one API key") as refused:
            come(KEYS[0], "192.0.2.9")
        assert refused.value.status == 503
        for number in range(4):
            come(KEYS[1], f"192.0.2.{number}")
    assert not access.connections
    assert not access._addresses


def test_an_address_keeps_places_for_what_it_asks_by_http() -> None:
    options = limited(per_address=8)
    access = AccessControl(Authenticator(options.access), options)
    with ExitStack() as held:
        for _ in range(6):
            access.check({}, {}, (), "192.0.2.1", protocol="native")
            held.enter_context(access.connected("", "192.0.2.1"))
        with pytest.raises(HttpError, match="from one address"):
            access.check({}, {}, (), "192.0.2.1", protocol="native")
        access.check({}, {}, (), "192.0.2.1")
        access.check({}, {}, (), "192.0.2.2", protocol="native")
    access.check({}, {}, (), "192.0.2.1", protocol="native")
