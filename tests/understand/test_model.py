"""Late-contextualisation networks by ONNX Runtime against the same weights in torch, and in pieces against whole."""

import errno
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_late import SOUND, late_model, late_shapes, small_late
from whispertide.errors import CheckpointError, CheckpointNotFoundError, DiskSpaceError
from whispertide.types import FloatArray
from whispertide.understand.checkpoint import Kind, LateCheckpoint, LateDims, load_late
from whispertide.understand.model import LateModel, features, positions
from whispertide_lab.training.latecontext.folder import save_late


@pytest.fixture(scope="module")
def checkpoint() -> LateCheckpoint:
    return small_late()


@pytest.fixture(scope="module")
def model(checkpoint: LateCheckpoint, tmp_path_factory: pytest.TempPathFactory) -> LateModel:
    folder = tmp_path_factory.mktemp("late") / "model"
    save_late(checkpoint, folder)
    with late_model(folder) as opened:
        return opened


def by_torch(model: LateModel, tokens: list[int]) -> tuple[Any, Any]:
    """What CTC and the decoder say in torch: [t, n_vocab + 1] and [n, n_vocab] log probabilities."""
    import torch

    from whispertide_lab.training.latecontext.network import LateNetwork, load_tensors

    network = LateNetwork(model.dims).eval()
    load_tensors(network, model.checkpoint.tensors)
    mel = torch.from_numpy(features(SOUND, model.dims.n_mels))[None]
    with torch.no_grad():
        ctc, logits = network(mel, None, torch.tensor([tokens]))
    return ctc[0].numpy(), logits[0].log_softmax(-1).numpy()


@pytest.mark.slow
def test_the_small_network_has_the_weights_that_training_makes() -> None:
    from small_rivals import small_rival

    shapes = {name: weight.shape for name, weight in small_rival("late").tensors.items()}
    assert late_shapes(small_late().dims) == shapes


@pytest.mark.slow
def test_what_it_says_is_what_torch_says(model: LateModel) -> None:
    tokens = [0, 1, 7, 9, 30]
    ctc, logprobs = by_torch(model, tokens)
    context = model.contextualise(model.ingest(model.nothing(), SOUND, ended=True))
    np.testing.assert_allclose(context.ctc, ctc, atol=2e-4)
    state, said = model.start(), []
    for token in tokens:
        scores, state = model.score(context, state, np.array([token]))
        said.append(scores[0])
    np.testing.assert_allclose(said, logprobs, atol=2e-4)


@pytest.mark.skipif(sys.platform != "linux", reason="names elsewhere are UTF-8")
def test_its_folder_may_have_a_name_that_is_no_utf8(checkpoint: LateCheckpoint, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"m\xfcller")
    save_late(checkpoint, folder)
    assert load_late(folder).vocabulary.size == checkpoint.vocabulary.size


def scored_alike(checkpoint: LateCheckpoint, folder: Path) -> None:
    """Our frames are those of torch: in pieces, and the whole in the context of all."""
    save_late(checkpoint, folder)
    with late_model(folder) as other:
        ctc, _ = by_torch(other, [0])
        heard = other.ingest(other.ingest(other.nothing(), SOUND[:9_000]), SOUND, ended=True)
        np.testing.assert_allclose(other.contextualise(heard).ctc, ctc, atol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("inner", [0, 16])
def test_attention_may_have_a_width_of_its_own_after_it_or_nothing(inner: int, tmp_path: Path) -> None:
    other = small_late(attending_inner=inner)
    there = [name for name in other.tensors if name.startswith("encoder.attending.1.feed_forward.up")]
    assert len(there) == (2 if inner else 0)
    scored_alike(other, tmp_path / "model")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["branchformer", "conformer"])
def test_rivals_say_what_torch_says(kind: Kind, tmp_path: Path) -> None:
    from small_rivals import small_rival

    scored_alike(small_rival(kind), tmp_path / "model")


def test_a_network_without_attention_has_no_graphs(tmp_path: Path) -> None:
    streaming = replace(small_late(), dims=replace(small_late().dims, kind="rnnt"))
    save_late(streaming, tmp_path / "model")
    with pytest.raises(CheckpointError, match="rnnt"), late_model(tmp_path / "model"):
        pass


@given(st.lists(st.integers(0, 9_000), max_size=6))
def test_in_pieces_it_hears_what_it_hears_whole(model: LateModel, pieces: list[int]) -> None:
    whole = model.ingest(model.nothing(), SOUND, ended=True)
    heard, frames = model.nothing(), 0
    for end in np.minimum(np.cumsum(pieces), len(SOUND)).tolist():
        heard = model.ingest(heard, SOUND[:end])
        np.testing.assert_allclose(heard.frames, whole.frames[: len(heard.frames)], atol=2e-5)
        assert frames <= len(heard.frames) <= end // 640  # no frame before its audio
        frames = len(heard.frames)
    heard = model.ingest(heard, SOUND, ended=True)
    assert len(heard.frames) == len(whole.frames) == 38
    np.testing.assert_allclose(heard.frames, whole.frames, atol=2e-5)


def test_a_frame_hears_all_that_the_kernels_reach_and_no_later_sample(model: LateModel) -> None:
    dims, other = model.dims, SOUND.copy()
    other[16_000] += 0.5
    before, after = (model.ingest(model.nothing(), sound, ended=True).frames for sound in (SOUND, other))
    changed = np.flatnonzero(np.abs(before - after).max(axis=1) > 1e-6)
    reach = dims.convolving * (dims.kernel - 1)
    assert changed[0] >= (16_000 - 200) // 640  # a mel frame looks 200 samples ahead
    assert changed[-1] <= 16_200 // 640 + 1 + reach
    assert changed[-1] - changed[0] >= reach


@pytest.mark.parametrize("count", [1, 4])
def test_a_text_is_read_at_once_as_token_by_token(model: LateModel, count: int) -> None:
    context = model.contextualise(model.ingest(model.nothing(), SOUND, ended=True))
    tokens = np.array([0, 1, 7, 9, 30])
    (read,), whole = model.read(context, tokens[None])
    state = model.start()
    for at, token in enumerate(tokens):
        scores, state = model.score(context, state, np.array([token]))
        np.testing.assert_allclose(read[at], scores[0], atol=1e-4)
        if at + 1 == count:
            then = model.score(context, state.rows(np.array([0, 0])), np.array([3, 5]))[0]
    again = model.score(context, whole.cut(count).rows(np.array([0, 0])), np.array([3, 5]))[0]
    np.testing.assert_allclose(again, then, atol=1e-4)


def test_rows_of_a_beam_do_not_touch_each_other(model: LateModel) -> None:
    context = model.contextualise(model.ingest(model.nothing(), SOUND, ended=True))
    first, state = model.score(context, model.start(), np.array([0]))
    both, state = model.score(context, state.rows(np.array([0, 0])), np.array([5, 9]))
    swapped, _ = model.score(context, state.rows(np.array([1, 0])), np.array([3, 3]))
    straight, _ = model.score(context, state, np.array([3, 3]))
    np.testing.assert_allclose(swapped[::-1], straight, atol=1e-5)
    assert np.abs(both[0] - both[1]).max() > 1e-3
    assert np.isclose(np.exp(first).sum(), 1, atol=1e-4)


@pytest.mark.slow
def test_positions_are_those_of_training() -> None:
    from whispertide_lab.training.latecontext import attention

    np.testing.assert_allclose(positions(9, 12, first=3), attention.positions(9, 12, 3).numpy(), atol=1e-5)


def test_silence_follows_what_is_shorter_than_a_frame(model: LateModel) -> None:
    short: FloatArray = SOUND[:100]
    assert len(model.ingest(model.nothing(), short).frames) == 0
    assert len(model.ingest(model.nothing(), short, ended=True).frames) == 1


def test_graphs_that_lack_a_file_are_built_again(
    checkpoint: LateCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    save_late(checkpoint, tmp_path / "model")
    folder = LateModel.open(tmp_path / "model").folder
    (folder / "text.onnx").unlink()
    assert LateModel.open(tmp_path / "model").folder == folder
    assert (folder / "text.onnx").is_file()
    assert {path.name for path in folder.parent.iterdir()} == {folder.name, f"{folder.name}.lock"}


def test_where_graphs_cannot_be_written_it_is_said(
    checkpoint: LateCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(checkpoint: LateCheckpoint, folder: Path) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("whispertide.understand.model.build", full)
    save_late(checkpoint, tmp_path / "model")
    with pytest.raises(DiskSpaceError, match="no room for the graphs"):
        LateModel.open(tmp_path / "model")


def test_a_folder_that_is_none_is_refused(checkpoint: LateCheckpoint, tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match="train latecontext"):
        load_late(tmp_path)
    save_late(checkpoint, tmp_path / "whole")
    config = (tmp_path / "whole" / "config.json").read_text()
    for wrong in (
        config.replace("late-context-1", "another"),
        config[:-30],
        config.replace('"heads": 2', '"heads": 3'),
    ):
        (tmp_path / "whole" / "config.json").write_text(wrong)
        with pytest.raises(CheckpointError):
            load_late(tmp_path / "whole")


@pytest.mark.parametrize(("kind", "inner"), [("late", -1), ("conformer", 8)])
def test_a_width_after_attention_that_cannot_be_is_refused(kind: Kind, inner: int) -> None:
    with pytest.raises(CheckpointError, match="attending_inner"):
        LateDims(kind=kind, attending_inner=inner)


def test_a_text_and_its_intent_come_back(checkpoint: LateCheckpoint) -> None:
    vocabulary = checkpoint.vocabulary
    number = vocabulary.intent("play_music")
    assert number is not None
    assert vocabulary.decode([number, *vocabulary.encode("play some music")]) == ("play_music", "play some music")
    assert vocabulary.decode(vocabulary.encode("set an alarm")) == (None, "set an alarm")
    assert vocabulary.decode([]) == (None, "")
    assert vocabulary.intent("fly") is None
