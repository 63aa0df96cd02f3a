"""Keys, origins and rates."""

import math
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers

from each_row import each_row
from whispertide.errors import OptionError
from whispertide.server.access import Authenticator, Throttle, is_loopback, offered_keys, read_keys
from whispertide.server.options import Access, Limits, Work


def test_keys_come_from_the_environment_and_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nfirst-key-1 # Ann\n\nsecond-key\n")
    assert read_keys("third-key, first-key-1", file) == ("third-key", "first-key-1", "second-key")
    assert read_keys(None, None) == ()
    file.write_text("long-key#1-of-ann\t# Ann\n")
    assert read_keys(None, file) == ("long-key#1-of-ann",), "half of it would open the server, too"
    file.write_text("first-key-1\n", encoding="utf-8-sig")
    assert read_keys(None, file) == ("first-key-1",)


@pytest.mark.parametrize("text", ["short", "# none\n", "\n"])
def test_files_of_keys_that_are_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(OptionError, match="API key"):
        read_keys(None, file)
    with pytest.raises(OptionError, match="cannot read"):
        read_keys(None, tmp_path / "nothing")


def test_where_clients_put_their_keys() -> None:
    assert list(offered_keys({"authorization": "Bearer a"}, {})) == ["a"]
    assert list(offered_keys({"authorization": "Token b"}, {})) == ["b"]
    assert list(offered_keys({"authorization": "c"}, {"token": "d"})) == ["c", "d"]
    assert list(offered_keys({"x-api-key": "e"}, {}, ("realtime", "openai-insecure-api-key.f"))) == ["e", "f"]
    assert list(offered_keys({}, {}, ("token", "g"))) == ["g"]
    assert list(offered_keys({"authorization": "  "}, {}, ("token",))) == []


@pytest.mark.parametrize("name", ["authorization", "x-api-key", "api-key"])
def test_a_key_in_a_header_need_not_be_ascii(name: str) -> None:
    """As curl and most libraries send it, in UTF-8, and as some do, in Latin-1."""
    authenticator = Authenticator(Access(("schlüssel-eins",)))
    for sent in ("schlüssel-eins".encode(), "schlüssel-eins".encode("latin-1")):
        headers = Headers(raw=[(name.encode(), sent)])
        assert authenticator.owner(offered_keys(headers, {})), sent
    assert not authenticator.owner(offered_keys({name: "schlussel-eins"}, {}))


def test_an_owner_is_the_same_for_the_same_key_and_not_the_key() -> None:
    keys = Authenticator(Access(("key-of-ann", "key-of-bob")))
    ann, bob = keys.owner(["wrong", "key-of-ann"]), keys.owner(["key-of-bob"])
    assert ann
    assert bob
    assert ann != bob
    assert ann == keys.owner(["key-of-ann"])
    assert "ann" not in ann
    assert keys.owner(["key-of-an", "\udcff"]) is None
    assert Authenticator(Access()).owner([]) == ""


@each_row(
    ("origin", "host", "keys", "allowed"),
    [
        (None, "localhost:8000", (), True),
        ("http://localhost:8000", "localhost:8000", (), True),
        ("http://192.0.2.7:8000", "192.0.2.7:8000", (), True),
        ("http://[::1]:8000", "[::1]:8000", (), True),
        ("https://nas:8000", "nas:8000", (), True),
        ("http://NAS", "nas", (), True),
        ("https://friend.example:8000", "friend.example:8000", (), True),  # called by the name that is allowed
        ("http://nas:8000", "nas:9000", (), False),
        ("http://other:8000", "nas:8000", (), False),
        ("null", "", (), False),
        ("http://localhost:8000", "localhost:9000", (), False),
        ("http://rebound.example:8000", "rebound.example:8000", (), False),  # a name that points here
        ("https://speech.example", "speech.example", ("a-long-key",), True),
        ("https://friend.example", "speech.example", (), True),
        ("https://evil.example", "speech.example", ("a-long-key",), False),
        ("null", "localhost", (), False),
        ("http://[", "localhost", (), False),
    ],
)
def test_origins(origin: str | None, host: str, keys: tuple[str, ...], allowed: bool) -> None:
    known = Authenticator(Access(keys, ("https://friend.example/",)))
    assert known.allows_origin(origin, host) is allowed
    assert Authenticator(Access((), ("*",))).allows_origin(origin, host)


@each_row(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("fe80::1%eth0", False),
        ("192.0.2.1", False),
        ("", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_throttle_forgets_with_time() -> None:
    now = 0.0
    throttle = Throttle(60, clock=lambda: now)
    assert sum(throttle.admits("a") for _ in range(100)) == 60
    assert throttle.admits("b")
    now = 10.0
    assert sum(throttle.admits("a") for _ in range(100)) == 10
    assert all(Throttle(0).admits("a") for _ in range(1000))


@pytest.mark.parametrize("name", ["session_s", "upload_s", "inbox_s"])
def test_what_becomes_samples_has_an_end(name: str) -> None:
    limits: dict[str, Any] = {name: math.inf}
    with pytest.raises(OptionError, match=f"{name} as a number of seconds; got inf"):
        Limits(**limits)


@pytest.mark.parametrize(
    "make", [lambda: Limits(sessions=0), lambda: Limits(idle_s=0), lambda: Limits(resume_s=-1), lambda: Work(workers=0)]
)
def test_limits_that_cannot_be(make: object) -> None:
    with pytest.raises(OptionError, match="at least"):
        make()  # type: ignore[operator]
