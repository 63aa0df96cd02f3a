"""The recurrent drafter: its arithmetic, its beam, its file, and that whatever it says the text is greedy's."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_models import small_multilingual
from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.layout import EMBEDDING
from whispertide.decoding.draft import Drafter
from whispertide.decoding.ngrams import Ngrams
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.recurrent import Cell, CellWeights, Recurrent
from whispertide.decoding.search import NO_DRAFT, ROOT, Tree
from whispertide.decoding.window import WindowResult, decode_window
from whispertide.errors import CheckpointError, CheckpointNotFoundError
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.streaming.searches import Drafted

WIDTH, STATE, KNOWN = 6, 4, 5
TOKENS = np.array([3, 8, 9, 11, 20])


def weights(seed: int = 0, width: int = WIDTH, size: int = STATE, tokens: np.ndarray = TOKENS) -> CellWeights:
    rng = np.random.default_rng(seed)

    def array(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    return CellWeights(
        tokens,
        array(width, size),
        array(width, 3 * size),
        array(size, 3 * size),
        array(2, 3 * size),
        array(width, size),
        array(size),
        array(len(tokens) + 1),
    )


@pytest.fixture
def cell() -> Cell:
    return Cell(weights(), np.random.default_rng(9).normal(size=(KNOWN, WIDTH)).astype(np.float32))


HIDDEN = np.linspace(-1, 1, WIDTH).astype(np.float32)


@pytest.mark.slow
def test_the_cell_is_a_gated_recurrent_unit(cell: Cell) -> None:
    import torch

    unit, learned = torch.nn.GRUCell(WIDTH, STATE), cell.weights
    with torch.no_grad():
        unit.weight_ih.copy_(torch.from_numpy(learned.inner.T))
        unit.weight_hh.copy_(torch.from_numpy(learned.cell.T))
        unit.bias_ih.copy_(torch.from_numpy(learned.bias[0]))
        unit.bias_hh.copy_(torch.from_numpy(learned.bias[1]))
        given = torch.from_numpy(np.concatenate([cell.embedding[[1, 4]], np.zeros((1, WIDTH), np.float32)]))
        state = torch.from_numpy(np.repeat(cell.begin(HIDDEN), 3, axis=0))
        expected = unit(given, state).numpy()
    found = cell.step(np.repeat(cell.begin(HIDDEN), 3, axis=0), [1, 4, KNOWN])  # the last is a token it does not know
    np.testing.assert_allclose(found, expected, atol=1e-5)


def probability(cell: Cell, tokens: tuple[int, ...]) -> float:
    """Of the drafts after token 8, one token after the other."""
    states, total = cell.step(cell.begin(HIDDEN), [1]), 0.0
    for token in tokens:
        row = cell.rows[token]
        total += float(cell.logprobs(states)[0, row])
        states = cell.step(states, [row])
    return float(np.exp(total))


def test_it_drafts_what_is_likeliest(cell: Cell) -> None:
    tree = Recurrent(cell, width=KNOWN, length=1, least=0.0).tree(8, HIDDEN)
    assert set(tree.tokens) == set(TOKENS.tolist())
    chances = [probability(cell, (token,)) for token in tree.tokens]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) < 1.0  # the rest is for tokens that it does not know


def test_the_beam_keeps_the_likeliest_pairs(cell: Cell) -> None:
    tree = Recurrent(cell, width=KNOWN, length=2, least=0.0).tree(8, HIDDEN)
    pairs = {
        (tree.tokens[parent], token): probability(cell, (tree.tokens[parent], token))
        for token, parent in zip(tree.tokens, tree.parents, strict=True)
        if parent != ROOT
    }
    every = sorted((probability(cell, (a, b)) for a in TOKENS.tolist() for b in TOKENS.tolist()), reverse=True)
    np.testing.assert_allclose(sorted(pairs.values(), reverse=True), every[:KNOWN], rtol=1e-4)


def test_what_is_unlikely_is_not_fed(cell: Cell) -> None:
    sharp = replace(cell.weights, prior=np.array([9, 8.5, 0, 0, 0, 0], np.float32))
    cell = Cell(sharp, cell.embedding)
    tree = Recurrent(cell, width=4, length=3, least=0.2).tree(8, HIDDEN)
    assert len(tree) >= 2
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        paths.append((*(paths[parent] if parent != ROOT else ()), token))
    assert min(probability(cell, path) for path in paths) >= 0.2
    assert len(tree) < len(Recurrent(cell, width=4, length=3, least=0.0).tree(8, HIDDEN))


def test_nothing_is_fed_where_it_would_not_pay(cell: Cell) -> None:
    unsure = Cell(replace(cell.weights, prior=np.array([0, 0, 0, 0, 0, 9], np.float32)), cell.embedding)
    assert Recurrent(unsure, least=0.01).tree(8, HIDDEN) == NO_DRAFT
    assert len(Recurrent(unsure, least=0.0).tree(8, HIDDEN))


def test_before_the_first_run_there_is_nothing_to_go_by(cell: Cell) -> None:
    draft = Recurrent(cell).draft(Prompt((1,), 0, 9))
    assert draft.wants_hidden
    assert draft.propose((), None) == NO_DRAFT


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_checkpoint("nano.en")


def of(checkpoint: Checkpoint, seed: int = 0, tokens: Sequence[int] = ()) -> CellWeights:
    """A random one for this checkpoint, which knows these tokens among others."""
    known = np.random.default_rng(seed).permutation(50_000)[:100]
    made = weights(seed, checkpoint.dims.n_text_state, 8, np.unique([*known, *tokens]))
    return replace(made, content_hash=checkpoint.content_hash, report={"accepted": 1.5})


def test_a_file_holds_it(checkpoint: Checkpoint, tmp_path: Path) -> None:
    made = of(checkpoint)
    made.save(tmp_path / "drafter.npz")
    found = CellWeights.load(tmp_path / "drafter.npz", checkpoint)
    np.testing.assert_array_equal(found.tokens, made.tokens)
    for name, values in made.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], values)
    assert found.report == {"accepted": 1.5}


def test_another_checkpoints_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    replace(of(checkpoint), content_hash="0" * 64).save(tmp_path / "drafter.npz")
    with pytest.raises(CheckpointError, match="trained on another checkpoint"):
        CellWeights.load(tmp_path / "drafter.npz", checkpoint)


@pytest.mark.parametrize("broken", [{"prior": np.zeros(3)}, {"cell": np.zeros((3, 9))}, {"tokens": np.array([10**6])}])
def test_arrays_that_do_not_fit_are_refused(checkpoint: Checkpoint, tmp_path: Path, broken: dict[str, object]) -> None:
    replace(of(checkpoint), **broken).save(tmp_path / "drafter.npz")  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="fit each other"):
        CellWeights.load(tmp_path / "drafter.npz", checkpoint)


def test_where_there_is_none_the_command_is_named(checkpoint: Checkpoint, tmp_path: Path) -> None:
    bare: Any = SimpleNamespace(folder=tmp_path, name="mine", argument="./mine")
    with pytest.raises(CheckpointNotFoundError, match=r"train drafter \./mine`, or choose source=ngram or"):
        Drafted().drafter(bare)
    assert Drafted(source="ngram", width=2, length=3).drafter(bare) == Ngrams(2, 3)


# --- the same text ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> WhisperModel:
    """A random one, whose attention is peaked."""
    return small_multilingual(tmp_path_factory.mktemp("random") / "model", 2)


def decoded(model: WhisperModel, audio: int, drafter: Drafter | None, *, timestamps: bool) -> WindowResult:
    """Twenty tokens of what a random model hears in noise."""
    encoded = model.encode(np.random.default_rng(audio).normal(size=(80, 200)).astype(np.float32))
    options = DecodeOptions(
        language="en",
        timestamps=timestamps,
        temperatures=(0.0,),
        max_tokens=20,
        suppress_blank=False,
        suppress_tokens=(model.tokenizer.eot,),
    )
    return decode_window(model, encoded, options, drafter=drafter, language="en")


@pytest.mark.slow
@settings(max_examples=8)
@given(
    seed=st.integers(0, 10_000),
    audio=st.integers(0, 1),
    timestamps=st.booleans(),
    width=st.integers(1, 4),
    length=st.integers(1, 5),
)
def test_a_random_drafter_changes_no_token(
    model: WhisperModel, seed: int, audio: int, timestamps: bool, width: int, length: int
) -> None:
    expected = decoded(model, audio, None, timestamps=timestamps)
    learned = of(model.checkpoint, seed, tokens=expected.tokens)
    drafter = Recurrent(Cell.of(model.checkpoint, learned), width, length, least=0.0)
    found = decoded(model, audio, drafter, timestamps=timestamps)
    assert len(expected.tokens) == 20
    assert found.tokens == expected.tokens
    np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-3)
    assert found.steps.runs <= expected.steps.runs


class Knows(Recurrent):
    """Drafts what is right, with something else next to it."""

    right: tuple[int, ...]

    def tree(self, newest: int, hidden: np.ndarray) -> Tree:
        place = self.right.index(newest) + 1
        return Tree.merged([(newest, newest), self.right[place : place + self.length]])


@pytest.mark.slow
def test_a_perfect_drafter_is_accepted_whole(model: WhisperModel) -> None:
    expected = decoded(model, 0, None, timestamps=False)
    assert len({*expected.tokens}) == 20, "the test needs a text in which no token comes twice"
    drafter = Knows(Cell.of(model.checkpoint, of(model.checkpoint)), length=4)
    object.__setattr__(drafter, "right", expected.tokens)
    found = decoded(model, 0, drafter, timestamps=False)
    assert found.tokens == expected.tokens
    assert found.steps.runs == 1 + -(-19 // 5)


def test_the_embedding_is_the_decoders(model: WhisperModel) -> None:
    learned = of(model.checkpoint)
    cell = Cell.of(model.checkpoint, learned)
    table = np.asarray(model.checkpoint.tensors.get(EMBEDDING), np.float32)
    np.testing.assert_array_equal(cell.embedding, table[learned.tokens])
