"""Addresses to watch, without sockets: keys, owners, limits, and when they end."""

from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

from each_row import each_row
from served import keyed, limited
from whispertide.events import Confirmed
from whispertide.server.broadcasts import EXPIRED, REVOKED, Broadcasts, CrowdedError
from whispertide.types import Word

SECRET = "a-secret-that-nobody-guesses"


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def saying(text: str) -> list[Confirmed]:
    return [Confirmed(0, 0, (Word(text, 0, 100),))]


def test_the_same_secret_has_the_same_address() -> None:
    broadcasts = Broadcasts(limited())
    secret, first = broadcasts.open("ann")
    assert broadcasts.open("ann", secret) == (secret, first)
    assert broadcasts.find(first.key) is first
    assert secret not in first.key
    again, later = Broadcasts(limited()).open("ann", secret)  # after a restart
    assert (again, later.key) == (secret, first.key)
    assert broadcasts.open("ann")[1].key != first.key


@each_row("secret", ["", "short", "x" * 65, "a secret with spaces in it!", "ä" * 30])
def test_a_secret_that_could_be_guessed_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="expected a secret of 22 to 64"):
        Broadcasts(limited()).open("ann", secret)


def test_a_key_is_no_secret_and_another_owner_has_no_say() -> None:
    broadcasts = Broadcasts(limited())
    _, one = broadcasts.open("ann", SECRET)
    with pytest.raises(ValueError, match="of this API key"):
        broadcasts.open("bob", SECRET)
    assert not broadcasts.revoke("bob", SECRET)
    assert not broadcasts.revoke("ann", one.key)
    assert broadcasts.open("ann", one.key)[1] is not one, "the key opens another, if anything"
    assert broadcasts.find(one.key) is one


def test_a_session_speaks_in_one_place_and_the_next_one_goes_on_there() -> None:
    broadcasts = Broadcasts(limited())
    _, one = broadcasts.open("ann", SECRET)
    broadcasts.attach(one, ["first"])
    broadcasts.take("first", saying(" Hello"))
    broadcasts.take("another", saying(" secret"))
    broadcasts.attach(one, ["first"])  # it came back
    broadcasts.attach(one, ["second"])
    broadcasts.take("first", saying(" not here any more"))
    broadcasts.take("second", saying(" again"))
    assert one.captions.text == "Hello\nagain"
    _, other = broadcasts.open("ann")
    broadcasts.attach(other, ["second"])
    assert (one.sessions, other.sessions) == ({}, {"second": None})
    broadcasts.detach("second")
    assert not other.captions.speaking
    broadcasts.detach("second")


def test_each_channel_of_a_speaker_is_one_who_speaks_there() -> None:
    broadcasts = Broadcasts(limited())
    _, one = broadcasts.open("ann", SECRET)
    broadcasts.attach(one, ["left", "right"])
    broadcasts.take("right", saying(" Hello"))
    broadcasts.take("left", saying(" Hi"))
    assert (one.captions.text, one.captions.speakers) == ("Hello\nHi", [2, 1])
    broadcasts.detach("left")
    assert one.captions.speaking
    broadcasts.detach("right")
    assert not one.captions.speaking


def test_a_channel_whose_session_is_another_goes_on_with_its_number() -> None:
    broadcasts = Broadcasts(limited())
    _, one = broadcasts.open("ann", SECRET)
    broadcasts.attach(one, ["left", "right"])
    broadcasts.take("right", saying(" Hello"))
    broadcasts.attach(one, ["left", "anew"])
    broadcasts.take("right", saying(" not here any more"))
    broadcasts.take("anew", saying(" again"))
    broadcasts.take("left", saying(" Hi"))
    assert (one.captions.text, one.captions.speakers) == ("Hello again\nHi", [2, 1])
    broadcasts.attach(one, ["third", "fourth"])
    broadcasts.take("third", saying(" Others"))
    assert one.captions.speakers == [2, 1, 3], "nobody knows who they are"
    broadcasts.attach(one, ["third"])
    broadcasts.detach("third")
    assert not one.captions.speaking


def test_what_is_new_wakes_the_viewers() -> None:
    broadcasts = Broadcasts(limited())
    _, one = broadcasts.open("ann", SECRET)
    broadcasts.attach(one, ["first"])
    changed = one.changed
    broadcasts.take("first", ["flushed"])
    assert not changed.is_set()
    broadcasts.take("first", saying(" Hello"))
    assert changed.is_set()
    assert one.changed is not changed


def test_it_ends_when_its_speaker_says_so_or_an_hour_after_the_last_session() -> None:
    clock = Clock()
    broadcasts = Broadcasts(limited(), clock)
    _, one = broadcasts.open("ann", SECRET)
    broadcasts.attach(one, ["first"])
    clock.now += 5000
    broadcasts.sweep()
    assert broadcasts.find(one.key) is one, "a session goes on"
    broadcasts.detach("first")
    clock.now += 3599
    broadcasts.sweep()
    assert broadcasts.find(one.key) is one
    clock.now += 2
    broadcasts.sweep()
    assert (one.closed, broadcasts.find(one.key)) == (EXPIRED, None)
    _, other = broadcasts.open("ann", SECRET)
    broadcasts.attach(other, ["second"])
    assert broadcasts.revoke("ann", SECRET)
    assert (other.closed, broadcasts.find(one.key)) == (REVOKED, None)
    assert not broadcasts.revoke("ann", SECRET)
    broadcasts.take("second", saying(" nobody reads this"))
    broadcasts.detach("second")


def test_of_too_many_the_one_that_was_left_first_gives_way() -> None:
    clock = Clock()
    broadcasts = Broadcasts(limited(sessions=1), clock)
    _, spoken = broadcasts.open("ann")
    broadcasts.attach(spoken, ["first"])
    clock.now += 1
    _, left = broadcasts.open("ann")
    broadcasts.open("bob")
    clock.now += 1
    _, newest = broadcasts.open("ann")
    assert (spoken.closed, left.closed, newest.closed) == (None, EXPIRED, None)


def test_viewers_are_counted_by_session_by_key_and_by_address() -> None:
    options = keyed("a-key-of-ann", "a-key-of-bob", viewers=4, per_address=6)  # 16 in all, 8 with one key
    broadcasts = Broadcasts(options)
    ann = [broadcasts.open("ann")[1] for _ in range(3)]
    _, bob = broadcasts.open("bob")
    with ExitStack() as held:
        for number in range(4):
            held.enter_context(broadcasts.viewing(ann[0], f"10.0.0.{number}"))
        with pytest.raises(CrowdedError, match="at most 4 viewers of one session"):
            held.enter_context(broadcasts.viewing(ann[0], "10.0.0.9"))
        for number in range(4):
            held.enter_context(broadcasts.viewing(ann[1], f"10.0.1.{number}"))
        with pytest.raises(CrowdedError, match="at most 8 viewers with one API key"):
            held.enter_context(broadcasts.viewing(ann[2], "10.0.0.9"))
        for _ in range(3):
            held.enter_context(broadcasts.viewing(bob, "10.0.0.9"))
        with pytest.raises(CrowdedError, match="at most 3 viewers from one address"):
            held.enter_context(broadcasts.viewing(bob, "10.0.0.9"))
        assert broadcasts.viewers == 11
    assert broadcasts.viewers == 0
    everywhere = Broadcasts(replace(options, limits=replace(options.limits, per_address=0)))
    _, behind_a_proxy = everywhere.open("ann")
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(everywhere.viewing(behind_a_proxy, "10.0.0.9"))
        assert behind_a_proxy.viewers == 4
