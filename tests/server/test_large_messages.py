"""Messages above the usual size."""

from whispertide.server.large_messages import LargeMessages


def test_a_few_are_amid_one_and_others_wait_until_one_is_done() -> None:
    large = LargeMessages(most=2)
    assert large.admits("a")
    assert large.admits("b")
    assert not large.admits("c")
    assert large.admits("a"), "it goes on with the same message"
    large.done("a")
    assert large.admits("c")
    assert not large.admits("a")
    large.done("nobody")


def test_how_large_they_may_be_goes_by_the_path() -> None:
    large = LargeMessages({"/v1/realtime": 21, "/ws": 1})
    assert large.times_in(b"GET /v1/realtime?intent=transcription HTTP/1.1\r\nhost: a\r\n") == 21
    assert large.times_in(b"GET /v1/realtime HTTP/1.1\r\n") == 21
    for head in (
        b"GET /ws HTTP/1.1\r\n",
        b"GET /v1/realtime/x HTTP/1.1\r\n",
        b"GET /?/v1/realtime HTTP",
        b"",
        b"\xff \xff ",
    ):
        assert large.times_in(head) == 1
