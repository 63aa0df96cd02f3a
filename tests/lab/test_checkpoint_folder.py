"""The configurations of checkpoints, also of folders of faster-whisper, which have CTranslate2's own."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from converted_files import fused, random_tensors, write_ct2
from multilingual_tokenizer import multilingual_tokenizer
from random_models import dims_of
from whispertide.checkpoint import Checkpoint, GenerationConfig, ModelDims, load_checkpoint
from whispertide.errors import CheckpointError
from whispertide_lab.checkpoint_folder import read_configs
from whispertide_lab.compression.folder import check_folders, write_folder

SMALL = dims_of(80, 32, 2, 1, 1, 51_864)


def converted(folder: Path, dims: ModelDims = SMALL) -> Checkpoint:
    """A folder as faster-whisper has them."""
    write_ct2(folder / "model.bin", fused(random_tensors(dims)))
    config = {"alignment_heads": [[0, 1]], "lang_ids": [], "suppress_ids": [1], "suppress_ids_begin": [220, 50256]}
    (folder / "config.json").write_text(json.dumps(config))
    if dims.is_multilingual:
        (folder / "tokenizer.json").write_text(multilingual_tokenizer())
    else:
        shutil.copyfile(load_checkpoint("nano.en").folder / "tokenizer.json", folder / "tokenizer.json")
    return load_checkpoint(folder)


def test_a_folder_of_faster_whisper_gets_configurations_of_the_same_meaning(tmp_path: Path) -> None:
    checkpoint = converted(tmp_path)
    config, generation = read_configs(checkpoint, "to train from")
    assert ModelDims.from_hf_config(config) == SMALL
    read = GenerationConfig.from_hf(generation, config, SMALL)
    assert read == replace(checkpoint.generation, max_initial_timestamp_index=50)
    assert (read.alignment_heads, read.suppress_tokens) == (((0, 1),), (1,))
    assert (config["decoder_start_token_id"], config["eos_token_id"]) == (50257, 50256)
    assert (generation["no_timestamps_token_id"], generation["is_multilingual"]) == (50362, False)
    assert "lang_to_id" not in generation


def test_a_multilingual_one_names_its_languages_and_tasks(tmp_path: Path) -> None:
    """The ids are those in the generation config of OpenAI's multilingual models."""
    _, generation = read_configs(converted(tmp_path, replace(SMALL, n_vocab=51_865)), "to train from")
    languages = generation["lang_to_id"]
    assert (len(languages), languages["<|en|>"], languages["<|de|>"]) == (99, 50259, 50261)
    assert generation["task_to_id"] == {"transcribe": 50359, "translate": 50358}
    assert (generation["is_multilingual"], generation["decoder_start_token_id"]) == (True, 50258)


def test_without_a_tokenizer_of_its_own_it_is_refused(tmp_path: Path) -> None:
    checkpoint = converted(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"or one of faster-whisper with tokenizer\.json, to train from"):
        read_configs(checkpoint, "to train from")


@pytest.mark.slow
def test_it_is_trained_from_and_written_as_a_whisper(tmp_path: Path) -> None:
    """Ours and `transformers` load it; a run ended with an export that could not be made."""
    from reference import hf_model
    from whispertide_lab.training.start import from_checkpoint, write_checkpoint

    checkpoint, out = converted(tmp_path / "given"), tmp_path / "out"
    out.mkdir()
    write_checkpoint(from_checkpoint(checkpoint), out, np.float32)
    written, name = load_checkpoint(out), "decoder.layers.0.fc1.weight"
    assert np.array_equal(written.tensors.get(name), checkpoint.tensors.get(name))
    theirs = hf_model(out).get_parameter(f"model.{name}").detach().numpy()
    assert np.array_equal(theirs, checkpoint.tensors.get(name))


def test_it_is_compressed_into_a_folder_that_loads(tmp_path: Path) -> None:
    checkpoint = converted(tmp_path / "given")
    (tmp_path / "out").mkdir()
    check_folders(checkpoint, tmp_path / "out")
    tensors = {name: np.asarray(checkpoint.tensors.get(name)) for name in checkpoint.tensors.names()}
    assert write_folder(checkpoint, tensors, tmp_path / "out") > 0
    written = load_checkpoint(tmp_path / "out")
    assert (written.dims, written.generation.alignment_heads) == (SMALL, ((0, 1),))
