"""Wyoming's frames against its reference implementation, in any portions, and what cannot be a frame."""

import io
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from whispertide.errors import OptionError
from whispertide.server.protocols.encodings import PIECE
from whispertide.server.protocols.wyoming import MAX_LINE, Frame, FrameReader, encode

DATA: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(max_size=8), st.one_of(st.text(max_size=8), st.integers(), st.none(), st.lists(st.booleans(), max_size=3)),
    max_size=4,
)  # fmt: skip
FRAMES = st.lists(st.builds(Frame, st.text(min_size=1, max_size=12), DATA, st.binary(max_size=60)), max_size=6)


def read(data: bytes, cuts: list[int] | None = None) -> list[Frame]:
    reader = FrameReader()
    edges = [0, *sorted(cuts or []), len(data)]
    return [frame for a, b in pairwise(edges) for frame in reader.feed(data[a:b])]


@quick()
@given(FRAMES, st.data())
def test_frames_come_back_however_they_are_cut(frames: list[Frame], data: st.DataObject) -> None:
    raw = b"".join(map(encode, frames))
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8))
    assert read(raw, cuts) == frames


@quick()
@given(FRAMES)
def test_the_reference_implementation_reads_what_is_written_here(frames: list[Frame]) -> None:
    event = pytest.importorskip("wyoming.event")
    file = io.BytesIO(b"".join(map(encode, frames)))
    for frame in frames:
        read_there = event.read_event(file)
        assert (read_there.type, read_there.data or {}, read_there.payload or b"") == (
            frame.type, frame.data, frame.payload,
        )  # fmt: skip


@quick()
@given(FRAMES)
def test_what_the_reference_implementation_writes_is_read_here(frames: list[Frame]) -> None:
    event = pytest.importorskip("wyoming.event")
    file = io.BytesIO()
    for frame in frames:
        event.write_event(event.Event(frame.type, frame.data, frame.payload), file)
    assert read(file.getvalue()) == frames


def test_data_may_be_in_the_line_and_after_it() -> None:
    raw = b'{"type":"x","data":{"a":1,"b":1},"data_length":7}\n{"b":2}'
    assert read(raw) == [Frame("x", {"a": 1, "b": 2})]


@each_row(
    "raw",
    [
        b"\n",
        b"[]\n",
        b"7\n",
        b"\xff\xfe\n",
        b"[" * 30_000 + b"\n",
        b'{"data":{}}\n',
        b'{"type":7}\n',
        b'{"type":"x","data":[1]}\n',
        b'{"type":"x","data_length":-1}\n',
        b'{"type":"x","data_length":true}\n',
        b'{"type":"x","payload_length":"9"}\n',
        b'{"type":"x","payload_length":99999999999}\n',
        b'{"type":"x","data_length":2}\n[]',
        b"x" * MAX_LINE,
    ],
)
def test_what_cannot_be_a_frame_is_an_error(raw: bytes) -> None:
    with pytest.raises(OptionError, match="expected"):
        read(raw)


@quick()
@given(st.lists(st.binary(max_size=30), max_size=6))
def test_any_bytes_are_frames_or_an_error(portions: list[bytes]) -> None:
    reader = FrameReader()
    for portion in portions:
        try:
            frames = list(reader.feed(portion))
        except OptionError:
            return
        for frame in frames:
            json.dumps(frame.data)


@quick()
@given(st.integers(0, 3 * PIECE), st.lists(st.integers(1, 2 * PIECE), max_size=8))
def test_a_long_chunk_of_audio_comes_in_pieces(length: int, cuts: list[int]) -> None:
    """So nobody decodes minutes at once, and what is here need not wait for the rest."""
    payload = bytes(number % 251 for number in range(length))
    first = encode(Frame("audio-chunk", {"rate": 16000}, payload))
    raw = first + encode(Frame("ping"))
    frames: list[Frame] = []
    reader, at = FrameReader(), 0
    for size in [*cuts, len(raw)]:
        frames += reader.feed(raw[at : at + size])
        at += size
        assert reader.is_amid == (at < len(raw) and at != len(first))
    assert frames.pop() == Frame("ping")
    assert {(frame.type, frame.data["rate"]) for frame in frames} == {("audio-chunk", 16000)}
    assert b"".join(frame.payload for frame in frames) == payload
    assert all(len(frame.payload) <= PIECE for frame in frames)
    assert len(frames) == max(1, -(-length // PIECE))
