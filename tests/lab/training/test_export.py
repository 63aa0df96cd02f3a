"""What a run is exported as, and what goes on from it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reference import hf_model
from small_runs import begun
from small_training import nano, write_speech
from whispertide.checkpoint import load_checkpoint
from whispertide.errors import OutputError
from whispertide_lab.training.loop import read_state
from whispertide_lab.training.network import load_network
from whispertide_lab.training.run import export, trained
from whispertide_lab.training.run_options import read_options, write_options
from whispertide_lab.training.shards import write_licences
from whispertide_lab.training.start import from_shape

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_shapes")]


def test_a_checkpoint_says_whether_this_run_had_short_windows(finished: Path, tmp_path: Path) -> None:
    assert trained(finished).generation["short_windows"] is True
    shutil.copytree(finished, tmp_path / "run")
    options = read_options(finished)
    whole = tuple(
        replace(phase, options=replace(phase.options, lengths_s=(30.0,), shares=(1.0,))) for phase in options.phases
    )
    write_options(tmp_path / "run", replace(options, phases=whole))
    forgotten = load_checkpoint(export(tmp_path / "run", tmp_path / "model"))
    assert forgotten.generation.short_windows is False
    write_options(tmp_path / "run", replace(options, phases=(*options.phases, *whole)))
    assert trained(tmp_path / "run").generation["short_windows"] is True
    assert "short_windows" not in from_shape("small", seed=0).generation  # the pattern's own


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_what_is_exported_is_a_whisper(finished: Path, tmp_path: Path, dtype: type[np.float16 | np.float32]) -> None:
    """Ours and `transformers` load it, and hold the averages; tokens that were never used are equal to each other."""
    folder = export(finished, tmp_path / "model", dtype)
    assert not list(tmp_path.glob(".*"))
    checkpoint = load_checkpoint(folder)
    averages = read_state(finished)["averages"]
    name = "decoder.layers.0.fc1.weight"
    assert checkpoint.tensors.get(name).dtype == dtype
    assert np.array_equal(checkpoint.tensors.get(name), averages[name].numpy().astype(dtype))
    rows = checkpoint.tensors.get("decoder.embed_tokens.weight")
    elephant, giraffe = (checkpoint.tokenizer.encode(f" {animal}")[0] for animal in ("elephant", "giraffe"))
    assert np.array_equal(rows[elephant], rows[giraffe])
    assert not np.array_equal(rows[elephant], rows[checkpoint.tokenizer.encode(" river")[0]])
    assert checkpoint.generation.alignment_heads == ((0, 0),)
    assert checkpoint.tokenizer.encode(" The river.") == nano().tokenizer.encode(" The river.")
    mel, tokens = torch.randn(1, 80, 3000), torch.tensor([[50257, 50362, 383]])
    with torch.no_grad():
        theirs = hf_model(folder)(input_features=mel, decoder_input_ids=tokens).logits
        ours = load_network(checkpoint)(mel, tokens)
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_an_export_says_how_it_was_trained(speech: Path, finished: Path, tmp_path: Path) -> None:
    about = json.loads((export(finished, tmp_path / "model") / "training.json").read_text())
    assert about["from"] == "small"
    assert (about["utterances"], about["updates"], about["sources"]) == (12, 4, ["shards"])
    assert str(speech) not in json.dumps(about)


def test_an_export_names_licences(tmp_path: Path) -> None:
    """Those of the folder as the run began, also when it is gone by then."""
    folder = write_speech(tmp_path / "mine")
    write_licences(folder, {"CC0": 2, "CC BY 4.0": 10})
    run = begun(tmp_path / "run", folder)
    shutil.rmtree(folder)
    about = json.loads((export(run.folder, tmp_path / "model") / "training.json").read_text())
    assert about["sources"] == ["mine (CC0, 2 utterances; CC BY 4.0, 10 utterances)"]


def test_an_export_writes_all_or_nothing(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="new or empty"):
        export(finished, tmp_path / "full")

    def fail(*_: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr("whispertide_lab.training.start.write_companions", fail)
    with pytest.raises(OutputError, match="no room"):
        export(finished, tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_another_run_goes_on_from_a_run(speech: Path, finished: Path, tmp_path: Path) -> None:
    """With its averages, its letters and its helps; from its export without letters, and more gently."""
    run = begun(tmp_path / "run", speech, model=str(finished))
    before = read_state(finished)
    name = "encoder.conv1.weight"
    assert torch.equal(run.trainer.network.state_dict()[name], before["averages"][name])
    assert torch.equal(run.trainer.characters.output.weight, before["characters"]["output.weight"])
    assert run.options.loop.ctc > 0
    exported = export(finished, tmp_path / "model", np.float32)
    other = begun(tmp_path / "other", speech, model=str(exported))
    assert torch.equal(other.trainer.network.state_dict()[name], before["averages"][name])
    assert other.options.loop.ctc == 0
