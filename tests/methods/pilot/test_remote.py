"""What is sent to a transcription server, when it is sent again, when nobody waits any more, and what is believed of
its answers. What a round does with them: test_hybrid.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from each_row import each_row
from fake_remote import ANSWERS, FAILURES, HANGING, STATUSES, TEXT, FakeRemote, fake_remote
from oracle import audio_between
from whispertide.audio.pcm import to_int16
from whispertide.errors import OptionError
from whispertide.methods.pilot import remote
from whispertide.methods.pilot.remote import Remote, RemoteError, Server, wav, words_of
from whispertide.types import SAMPLE_RATE, Span

SECOND = audio_between(0, SAMPLE_RATE)
RAW = to_int16(SECOND).astype("<i2").tobytes()


@contextmanager
def opened(url: str, tries: int = 1) -> Iterator[Remote]:
    there = Remote(Server(url, tries=tries))
    try:
        yield there
    finally:
        there.close()


def test_where_the_server_is() -> None:
    assert Server("http://host:8000/").endpoint == "http://host:8000/v1/audio/transcriptions"
    assert Server("https://host/v1").endpoint == "https://host/v1/audio/transcriptions"
    assert "secret" not in repr(Server("http://host", key="secret"))
    with pytest.raises(OptionError, match="a key that can be asked with"):
        Remote(Server("http://host", key="schlüssel"))
    for wrong in ("host:8000", "ftp://host", "http://", ""):
        with pytest.raises(OptionError, match="expected a"):
            Server(wrong)


# --- requests ---------------------------------------------------------------------------------------------------------


def test_an_utterance_is_a_form_with_a_file_of_its_samples() -> None:
    with fake_remote() as fake, opened(fake.url) as there:
        assert there.send(SECOND, 20.0).result()["text"] == TEXT
    (body,) = fake.bodies
    assert wav(SECOND) in body
    assert wav(SECOND)[44:] == RAW
    fields = dict(re.findall(rb'name="([^"]+)"\r\n\r\n([^\r]+)\r\n', body))
    assert fields == {
        b"model": b"whisper-1",
        b"response_format": b"verbose_json",
        b"timestamp_granularities[]": b"word",
    }


def test_a_file_that_is_still_being_spoken_leaves_its_length_open() -> None:
    closed, streamed = wav(SECOND), wav(SECOND, streamed=True)
    assert [at for at in range(len(closed)) if closed[at] != streamed[at]] == [*range(4, 8), *range(40, 44)]
    assert streamed[4:8] == streamed[40:44] == b"\xff" * 4


@pytest.mark.parametrize("way", ["broken 503", "closes at once", "half"])
def test_it_is_tried_again_as_often_as_is_allowed(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PAUSE_S", 0)
    with fake_remote(way, way, "good") as fake, opened(fake.url, tries=3) as there:
        assert there.send(SECOND, 20.0).result()["text"] == TEXT
    with fake_remote(way, way, "good") as fake, opened(fake.url, tries=2) as there, pytest.raises(RemoteError):
        there.send(SECOND, 20.0).result()


@pytest.mark.parametrize("way", HANGING)
def test_nobody_waits_beyond_the_deadline_of_all_tries(way: str) -> None:
    with fake_remote(way) as fake, opened(fake.url, tries=100) as there:
        answer = there.send(SECOND, 0.1)
        with pytest.raises(RemoteError, match=r"within 0\.1 s"):
            answer.result()


def test_an_upload_in_pieces_is_the_same_audio() -> None:
    with fake_remote() as fake, opened(fake.url) as there:
        upload = there.open(SECOND[:1000])
        for end in (1000, 9000, len(SECOND)):
            upload.add(SECOND[:end])
        assert upload.finish(20.0).result()["text"] == TEXT
        np.testing.assert_array_equal(upload.sent, SECOND)
    (body,) = fake.bodies
    assert RAW in body


def test_an_upload_that_broke_off_is_sent_again_whole() -> None:
    with fake_remote("closes at once", "good") as fake, opened(fake.url, tries=2) as there:
        upload = there.open(SECOND[:1000])
        upload.add(SECOND)
        assert upload.finish(20.0).result()["text"] == TEXT
    assert wav(SECOND) in fake.bodies[-1]


def test_an_upload_that_nobody_wants_ends() -> None:
    with fake_remote() as fake, opened(fake.url) as there:
        there.open(SECOND).abandon()
        assert there.send(SECOND, 20.0).result()["text"] == TEXT
    assert len(fake.bodies) == 1


# --- answers ----------------------------------------------------------------------------------------------------------


def test_times_of_words_are_the_server_s_where_it_has_any() -> None:
    window = Span(3200, 3200 + 4 * SAMPLE_RATE)
    words = [{"start": 0.5, "end": 0.9}, {"start": 1.0, "end": 99.0}]
    timed = words_of({"text": "a b", "words": words}, window)
    assert [(word.start, word.end) for word in timed] == [(11200, 17600), (19200, window.end)]
    spread = words_of({"text": " a\n\u00a0bbb "}, window)
    assert [(word.start, word.end) for word in spread] == [(3200, 19200), (19200, window.end)]
    impossible = ((1, 0), (float("nan"), 1), (0, 1e308), (0, 10**400), (0, "1"), (None, 1))
    wrongs = [[{"start": start, "end": end}] * 2 for start, end in impossible]
    for wrong in (*wrongs, words[:1], [3, 4], words[::-1], "ab"):
        assert words_of({"text": "a bbb", "words": wrong}, window) == spread


@each_row(
    "text",
    ["می\u200cخواهم", "क्\u200dष", "\N{WOMAN}\u200d\N{ROCKET}", "\u200fשלום\u200e", "Wach\u00adstube"],
)
def test_a_text_may_have_the_invisible_characters_of_its_script(text: str) -> None:
    assert [word.text for word in words_of({"text": text}, Span(0, SAMPLE_RATE))] == [f" {text}"]


@each_row(
    ("text", "words"),
    [
        ("你好。 走吧。", ["你好。", " 走吧。"]),
        ("「はい。」", ["「はい。」"]),
        ("“好。”", ["“好。”"]),
        ("안녕 네", [" 안녕", " 네"]),
        ("“No.” Yes", [" “No.”", " Yes"]),
        ("", []),
    ],
)
def test_an_answer_in_chinese_or_japanese_begins_without_a_space(text: str, words: list[str]) -> None:
    assert [word.text for word in words_of({"text": text}, Span(0, SAMPLE_RATE))] == words


def test_what_a_server_says_is_looked_at() -> None:
    window = Span(0, SAMPLE_RATE)
    for text in ("a" * 200, "one\ntwo\x07"):
        with pytest.raises(RemoteError, match="not a text of this audio"):
            words_of({"text": text}, window)
    for wrong in "\u0000\ud800\ue000\u0378":
        with pytest.raises(RemoteError, match="not a text of this audio"):
            words_of({"text": f"one{wrong}"}, window)
    assert {*ANSWERS, *STATUSES} <= {*FAILURES}
    assert isinstance(FakeRemote().url, str)
