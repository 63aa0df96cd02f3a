"""Making and ending addresses to watch, over HTTP."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from served import KnowingModel, in_thread, limited, served
from whispertide.server.options import ServerOptions


def serving(options: ServerOptions | None = None) -> Any:
    return in_thread(served(options, KnowingModel()))


@pytest.fixture(scope="module")
def web() -> Iterator[httpx.Client]:
    with serving() as (server, _), httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as web:
        yield web


def test_an_address_its_page_and_its_code(web: httpx.Client) -> None:
    made = web.post("/v1/watch", json={"page": "https://talks.example/live/"}).json()
    assert made["url"] == f"https://talks.example/live/{made['path']}"
    assert re.fullmatch(r"watch/[A-Za-z0-9_-]{24}", made["path"])
    assert made["qr"].startswith("<svg")
    assert "style" not in made["qr"], "which the policy of pages forbids"
    assert (
        web.post("/v1/watch", json={"page": "https://talks.example/", "secret": made["secret"]}).json()["qr"]
        != made["qr"]
    )
    page = web.get(f"/{made['path']}")
    assert page.status_code == 200
    assert page.headers["referrer-policy"] == "no-referrer", "the key is in the address"
    assert page.headers["cache-control"] == "no-cache"
    for name in re.findall(r'(?:href|src)="(\.\./[^"]*)"', page.text):
        assert web.get(f"/watch/{name}").status_code == 200, name


def test_an_empty_body_asks_for_an_address(web: httpx.Client) -> None:
    assert set(web.post("/v1/watch").json()) == {"secret", "key", "path"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("[]", 400),
        ("{", 400),
        ('{"session": 7}', 400),
        ('{"session": ["a", 7]}', 400),
        ('{"session": []}', 400),
        ('{"session": ["a"]}', 400),
        ('{"session": ["a", "a"]}', 400),
        ('{"session": ["a", "b", "c", "d", "e", "f", "g", "h", "i"]}', 400),
        ('{"session": ["nobody", "else"]}', 404),
        ('{"session": "nobody"}', 404),
        ('{"secret": "short"}', 400),
        ('{"secret": ["x"]}', 400),
        ('{"page": "javascript:alert(1)"}', 400),
        ('{"page": "https://["}', 400),
        ('{"page": "https://x/%s"}' % ("x" * 500), 400),
        ('{"page": "%s"}' % ("x" * 9000), 413),
        ('{"names": ["Ann"]}', 400),
        ('{"names": {"0": "Ann"}}', 400),
        ('{"names": {"21": "Ann"}}', 400),
        ('{"names": {"1": 7}}', 400),
        ('{"names": {"1": "%s"}}' % ("x" * 41), 400),
    ],
)
def test_what_cannot_be_asked(web: httpx.Client, body: str, status: int) -> None:
    answer = web.post("/v1/watch", content=body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"].startswith("expected")


def test_nothing_is_ended_without_a_secret(web: httpx.Client) -> None:
    assert web.post("/v1/watch/end", json={}).status_code == 400
    assert web.post("/v1/watch/end", json={"secret": "x" * 30}).json() == {"ended": False}


def test_a_server_that_lets_nobody_watch_says_so() -> None:
    with serving(limited(viewers=0)) as (server, _):
        answer = httpx.post(f"http://127.0.0.1:{server.port}/v1/watch", trust_env=False)
    assert answer.status_code == 403
    assert "--max-viewers 0" in answer.json()["error"]["message"]
