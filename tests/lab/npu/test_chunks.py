import json
from pathlib import Path

import pytest

from each_row import each_row
from whispertide.errors import GraphError, OptionError
from whispertide.types import BUCKET_SECONDS
from whispertide_lab.npu.chunks import (
    PLANS,
    Chunk,
    Manifest,
    UnrolledLayout,
    decoder_name,
    frames_of,
    read_manifest,
)

LAYOUT = UnrolledLayout(block=2)
MANIFEST = Manifest("a model", "abc", "fp32", LAYOUT, {"n_mels": 80}, {"tokens": {"end": 7}})


def test_both_plans_feed_ten_tokens_in_two_chunks_and_thirty_in_all() -> None:
    assert [(sum(plan[:2]), sum(plan)) for plan in PLANS] == [(10, 30), (10, 30)]
    plain, prefixed = (LAYOUT.plan(known) for known in (2, 6))
    assert plain[2:] == prefixed[2:]
    assert len(LAYOUT.chunks) == 8


@each_row(("known", "first"), [(1, 4), (4, 4), (5, 6), (6, 6), (7, 6), (29, 6)])
def test_the_first_plan_whose_opening_holds_the_prompt(known: int, first: int) -> None:
    assert LAYOUT.plan(known)[0] == Chunk(0, first, 2)


def test_chunks_follow_each_other() -> None:
    chunks = LAYOUT.plan(2)
    assert [chunk.start for chunk in chunks[1:]] == [chunk.end for chunk in chunks[:-1]]
    assert [chunk.steps for chunk in chunks] == [3, 6, 5, 5, 5, 5]


@each_row(("frames", "bucket"), [(1, 150), (150, 150), (151, 200), (301, 1500), (1500, 1500)])
def test_the_shortest_bucket(frames: int, bucket: int) -> None:
    assert LAYOUT.bucket(frames) == bucket


def test_what_a_layout_refuses() -> None:
    with pytest.raises(OptionError, match="longest bucket"):
        LAYOUT.bucket(1501)
    for plans in ((), ((),), ((4, 0),), ((1, 5),)):
        with pytest.raises(OptionError, match="start sequence"):
            UnrolledLayout(2, plans=plans)
    for buckets in ((), (0,), (31,)):
        with pytest.raises(OptionError, match="buckets"):
            UnrolledLayout(2, buckets=buckets)


def test_names_tell_audio_and_place() -> None:
    assert [frames_of(bucket) for bucket in BUCKET_SECONDS] == [150, 200, 250, 300, 1500]
    assert decoder_name(150, Chunk(4, 6)) == "decoder-0150-04-10"


def test_a_manifest_comes_back(tmp_path: Path) -> None:
    MANIFEST.write(tmp_path)
    read = read_manifest(tmp_path)
    assert (read.model, read.content_hash, read.precision, read.layout) == ("a model", "abc", "fp32", LAYOUT)
    assert read.shape == {"n_mels": 80}
    assert read.details["tokens"] == {"end": 7}


def test_a_folder_without_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="whispertide export npu"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("change", ["{", "[]", '{"format": 1}', '{"format": 99}'])
def test_a_damaged_manifest(tmp_path: Path, change: str) -> None:
    (tmp_path / "manifest.json").write_text(change)
    with pytest.raises(GraphError, match="export the model again"):
        read_manifest(tmp_path)


def test_a_manifest_with_an_impossible_layout(tmp_path: Path) -> None:
    MANIFEST.write(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"plans": [[1, 2]]}))
    with pytest.raises(GraphError, match="export the model again"):
        read_manifest(tmp_path)
