import base64
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from each_row import each_row
from unheard_windows import without_short_windows
from whispertide.checkpoint import GenerationConfig, ModelDims, load_checkpoint
from whispertide.checkpoint.generation import heads_or_later_half
from whispertide.errors import CheckpointError

BASE = ModelDims(80, 1500, 512, 8, 6, 51865, 448, 512, 8, 6)
BASE_HEADS = ((3, 1), (4, 2), (4, 3), (4, 7), (5, 1), (5, 2), (5, 4), (5, 6))


def test_all_values_of_a_generation_config() -> None:
    said = {
        "alignment_heads": [[1, 0], [2, 7]],
        "suppress_tokens": [1, 2],
        "begin_suppress_tokens": [220, 50257],
        "max_initial_timestamp_index": 50,
        "condition_on_prev_tokens": False,
        "short_windows": True,
        "silent_padding": True,
    }
    assert GenerationConfig.from_hf(said, {"suppress_tokens": [9]}, BASE) == GenerationConfig(
        ((1, 0), (2, 7)), (1, 2), (220, 50257), 50, False, True, True
    )
    assert GenerationConfig.from_hf(None, {}, BASE).condition_on_prev_tokens is None


def test_only_who_says_so_knows_short_windows(tmp_path: Path) -> None:
    for silent in (GenerationConfig.from_hf(None, {}, BASE), GenerationConfig.for_openai(BASE)):
        assert not silent.short_windows
    assert not GenerationConfig.from_hf({"short_windows": False}, {}, BASE).short_windows
    assert load_checkpoint("nano.en").generation.short_windows
    assert not load_checkpoint(str(without_short_windows(tmp_path))).generation.short_windows


def test_config_json_fills_what_generation_config_leaves_out() -> None:
    old = {"suppress_tokens": [1, 2], "begin_suppress_tokens": [220]}
    for generation in (None, {}, {"suppress_tokens": None, "begin_suppress_tokens": None}):
        config = GenerationConfig.from_hf(generation, old, BASE)
        assert (config.suppress_tokens, config.begin_suppress_tokens) == ((1, 2), (220,))


def test_silence_is_not_an_empty_list() -> None:
    assert GenerationConfig.from_hf(None, {}, BASE).suppress_tokens is None
    assert GenerationConfig.from_hf({"suppress_tokens": []}, {"suppress_tokens": [1]}, BASE).suppress_tokens == ()


def test_known_heads_for_multilingual_shapes_only() -> None:
    assert GenerationConfig.for_openai(BASE).alignment_heads == BASE_HEADS
    assert GenerationConfig.from_hf(None, {}, BASE).alignment_heads == BASE_HEADS
    assert GenerationConfig.for_openai(replace(BASE, n_vocab=51864)).alignment_heads == ()
    assert GenerationConfig.for_openai(replace(BASE, n_text_layer=2)).alignment_heads == ()


@pytest.mark.slow
def test_known_heads_are_those_of_openai() -> None:
    import whisper

    shapes = {"tiny": (384, 6, 4), "base": (512, 8, 6), "small": (768, 12, 12), "medium": (1024, 16, 24)}
    for name, (width, heads, layers) in shapes.items():
        mask = np.frombuffer(gzip.decompress(base64.b85decode(whisper._ALIGNMENT_HEADS[name])), dtype=bool)
        expected = tuple(map(tuple, np.argwhere(mask.reshape(layers, heads)).tolist()))
        dims = ModelDims(80, 1500, width, heads, layers, 51865, 448, width, heads, layers)
        assert GenerationConfig.for_openai(dims).alignment_heads == expected


def test_heads_of_the_teacher_are_ignored() -> None:
    distilled = replace(BASE, n_text_layer=2)
    assert GenerationConfig.from_hf({"alignment_heads": [[1, 1], [20, 3]]}, {}, distilled).alignment_heads == ()


@each_row(
    "wrong",
    [
        {"alignment_heads": [[1, 2, 3]]},
        {"alignment_heads": "none"},
        {"alignment_heads": [[1, -1]]},
        {"suppress_tokens": 5},
        {"suppress_tokens": ["a"]},
        {"begin_suppress_tokens": [None]},
        {"max_initial_timestamp_index": "50"},
        {"condition_on_prev_tokens": "no"},
        {"short_windows": 1},
    ],
)
def test_wrong_types_are_named(wrong: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match=f"expected {next(iter(wrong))} "):
        GenerationConfig.from_hf(wrong, {}, BASE)


def test_alignment_heads_are_the_checkpoints_or_those_of_the_later_half() -> None:
    dims = replace(BASE, n_text_layer=5, n_text_head=2)
    assert heads_or_later_half(((1, 1), (0, 0)), dims) == ((1, 1), (0, 0))
    assert heads_or_later_half((), dims) == tuple((layer, head) for layer in (2, 3, 4) for head in (0, 1))
