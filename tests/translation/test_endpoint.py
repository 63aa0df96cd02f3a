"""An OpenAI-compatible endpoint, over real HTTP: what is asked, and what becomes of every kind of answer."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from chat_server import Answer, ChatServer, breaks_off, chat_server, drops, fails, raw, said, says, waits
from each_row import each_row
from whispertide.errors import OptionError
from whispertide.translation.endpoint import Endpoint, EndpointTranslator
from whispertide.translation.opening import open_translator
from whispertide.translation.translator import KEY_VARIABLE, Request, TranslatorError

HELLO = Request(("Hello there.", "How are you?"), "en", "fr", ("Good morning.",))


@contextmanager
def translator(
    *answers: Answer, key: str = "", timeout_s: float = 20.0
) -> Iterator[tuple[EndpointTranslator, ChatServer]]:
    with chat_server(*answers) as chat:
        asks = EndpointTranslator(Endpoint(chat.url, "llm", key, timeout_s), sleep=lambda _: None)
        try:
            yield asks, chat
        finally:
            asks.close()


def test_one_request_is_made_for_the_sentences() -> None:
    with translator(key="secret") as (asks, chat):
        assert asks.translate(HELLO) == "French: HELLO THERE. HOW ARE YOU?"
        ((path, headers, body),) = chat.requests
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer secret"
    assert (body["model"], body["stream"], body["temperature"]) == ("llm", False, 0)
    task, text = body["messages"]
    assert text == {"role": "user", "content": "Hello there. How are you?"}
    assert "from English into French" in task["content"]
    assert task["content"].endswith("for context only: Good morning.")


def test_a_correction_is_asked_for_in_its_own_words() -> None:
    with translator() as (asks, chat):
        assert asks.translate(Request(("helo",), None, None)) == "HELO"
        ((_, headers, body),) = chat.requests
    assert "authorization" not in headers
    assert "You correct live captions in the language that they are in" in body["messages"][0]["content"]


@pytest.mark.slow
@each_row(
    "problem",
    [
        fails(500),
        fails(503, "loading"),
        fails(429, retry_after="1"),
        fails(429, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"),
        drops,
        breaks_off,
        raw(b"<html>"),
        raw(b""),
        raw(b"[" * 100_000),
        raw(b'{"choices": []}'),
        raw(json.dumps({"choices": [{"message": {"content": None}}]}).encode()),
        says(["a", "list"]),
        says("  \n "),
        says("<think>What is meant?</think>"),
        says("so " * 400),
        raw(b" " * (2**20 + 1)),
    ],
)
def test_what_may_pass_is_asked_again(problem: Answer) -> None:
    with translator(problem, says("Bonjour.")) as (asks, chat):
        assert asks.translate(HELLO) == "Bonjour."
        assert len(chat.requests) == 2


def test_the_pauses_are_those_that_the_server_asks_for_and_bounded() -> None:
    pauses: list[float] = []
    answers = (fails(429, retry_after="3"), fails(429, retry_after="99999"), fails(500))
    with chat_server(*answers) as chat:
        asks = EndpointTranslator(Endpoint(chat.url, "llm"), sleep=pauses.append, tries=4)
        assert asks.translate(HELLO)
        asks.close()
    assert pauses == [3.0, 10.0, 8.0]


@each_row(
    ("problem", "failure", "message"),
    [
        (fails(500, "no memory"), "outage", r"got status 500 \(no memory\)"),
        (drops, "outage", "expected an answer; got"),
        (breaks_off, "outage", "expected an answer; got"),
        (raw(b"<html>"), "outage", r"expected JSON with choices\[0\].message.content; got '<html>'"),
        (says(""), "answer", "got an empty one"),
        (says("so " * 400), "answer", r"about as much as the 25 characters .* got 1199"),
    ],
)
def test_what_does_not_pass_is_an_error_of_its_kind(problem: Answer, failure: str, message: str) -> None:
    with translator(*[problem] * 3) as (asks, chat):
        with pytest.raises(TranslatorError, match=message) as found:
            asks.translate(HELLO)
        assert len(chat.requests) == 3
    assert found.value.failure == failure
    assert str(found.value).startswith(f"llm at {chat.url}: expected")


@each_row(
    ("problem", "failure", "message"),
    [
        (fails(401, "bad key"), "lasting", rf"status 401 \(bad key\); check {KEY_VARIABLE}"),
        (fails(404, "no such model"), "lasting", r"status 404 \(no such model\)"),
        (fails(302, location="http://elsewhere.test"), "lasting", "status 302"),
        (fails(400, "content filter"), "answer", r"status 400 \(content filter\)"),
        (fails(413), "answer", "status 413"),
    ],
)
def test_what_cannot_pass_is_not_asked_again(problem: Answer, failure: str, message: str) -> None:
    with translator(problem) as (asks, chat):
        with pytest.raises(TranslatorError, match=message) as found:
            asks.translate(HELLO)
        assert len(chat.requests) == 1
    assert found.value.failure == failure


def test_a_model_that_takes_no_temperature_gets_none() -> None:
    with translator(fails(400, "Unsupported value: 'temperature'")) as (asks, chat):
        assert asks.translate(HELLO)
        assert asks.translate(HELLO)
        assert ["temperature" in body for _, _, body in chat.requests] == [True, False, False]


def test_an_answer_that_does_not_come_is_waited_for_within_bounds() -> None:
    never = threading.Event()
    with translator(*[waits(never)] * 3, timeout_s=0.05) as (asks, _):
        with pytest.raises(TranslatorError, match=r"expected an answer within 0\.05 s; got none") as found:
            asks.translate(HELLO)
        never.set()
    assert found.value.failure == "outage"


def test_an_answer_that_drips_is_bounded_as_well() -> None:
    def drip(handler, body) -> None:  # type: ignore[no-untyped-def]
        handler.send_response(200)
        handler.end_headers()
        for _ in range(200):
            handler.wfile.write(b" ")
            threading.Event().wait(0.01)

    with (
        translator(*[drip] * 3, timeout_s=0.1) as (asks, _),
        pytest.raises(TranslatorError, match="got a part of it"),
    ):
        asks.translate(HELLO)


def test_what_stays_on_the_machine_goes_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with translator() as (asks, chat):
        assert asks.translate(HELLO)
        assert len(chat.requests) == 1


def test_nobody_there_is_an_outage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    asks = EndpointTranslator(Endpoint(f"http://127.0.0.1:{port}", "llm"), sleep=lambda _: None)
    with pytest.raises(TranslatorError) as found:
        asks.translate(HELLO)
    asks.close()
    assert found.value.failure == "outage"


def test_an_answer_is_one_line_that_drives_no_terminal() -> None:
    answer = '<think>\nHm.\n</think>\n"Salut",\n\x1b[2J dit-il. \u200cمی‌خواهم\x00'
    with translator(says(answer)) as (asks, _):
        assert asks.translate(HELLO) == '"Salut", [2J dit-il. \u200cمی‌خواهم'


def test_requests_at_once_are_bounded() -> None:
    release = threading.Event()
    with translator(*[waits(release)] * 12) as (asks, chat):
        threads = [threading.Thread(target=asks.translate, args=(HELLO,)) for _ in range(12)]
        for thread in threads:
            thread.start()
        while len(chat.requests) < 8:
            threading.Event().wait(0.005)
        threading.Event().wait(0.05)
        assert len(chat.requests) == 8
        release.set()
        for thread in threads:
            thread.join(30)
        assert (len(chat.requests), chat.most_at_once) == (12, 8)


@each_row(
    ("url", "model", "message"),
    [
        ("ftp://host/v1", "llm", "expected a translator such as"),
        ("http://", "llm", "expected a translator such as"),
        ("http://me:secret@host/v1", "llm", "without a password"),
        ("http://host:port/v1", "llm", "expected the address of a translator"),
        ("http://host/v1", "", "--translator-model NAME"),
    ],
)
def test_an_address_that_cannot_be_is_refused(url: str, model: str, message: str) -> None:
    with pytest.raises(OptionError, match=message) as found:
        open_translator(url, model)
    assert "secret" not in str(found.value)


def test_the_key_comes_from_the_environment_and_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "hush-hush\n")
    opened = open_translator("https://api.example.test/v1", "llm")
    assert isinstance(opened, EndpointTranslator)
    assert opened.endpoint.key == "hush-hush"
    assert "hush" not in f"{opened.endpoint!r} {opened.name}"
    monkeypatch.setenv(KEY_VARIABLE, "sch\u00f6n")
    with pytest.raises(OptionError, match=KEY_VARIABLE):
        open_translator("https://api.example.test/v1", "llm")


@each_row(
    ("url", "address", "host"),
    [
        ("http://localhost:11434/v1", "http://localhost:11434/v1/chat/completions", None),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/chat/completions", None),
        ("http://[::1]:8080", "http://[::1]:8080/v1/chat/completions", None),
        ("https://api.test/openai/v1/chat/completions", "https://api.test/openai/v1/chat/completions", "api.test"),
        ("http://localhost:80?a=/b", "http://localhost:80/v1/chat/completions?a=/b", None),
        ("https://api.test/o/?version=2", "https://api.test/o/chat/completions?version=2", "api.test"),
        ("https://api.test/o/chat/completions?version=2", "https://api.test/o/chat/completions?version=2", "api.test"),
        (
            "https://localhost.evil.test/v1beta/openai",
            "https://localhost.evil.test/v1beta/openai/chat/completions",
            "localhost.evil.test",
        ),
    ],
)
def test_addresses_and_whether_text_leaves_the_machine(url: str, address: str, host: str | None) -> None:
    endpoint = Endpoint(url, "llm")
    assert (endpoint.address, endpoint.host) == (address, host)


def test_the_fake_speaks_the_format() -> None:
    assert json.loads(said("a"))["choices"][0]["message"]["content"] == "a"
