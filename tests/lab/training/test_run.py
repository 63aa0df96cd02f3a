"""Runs as folders: begun, resumed, exported; their options, adapters and plots."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from small_runs import begun, silent
from small_training import nano, quiet, small_dims, spoken, write_speech
from whispertide.checkpoint import load_checkpoint
from whispertide.errors import CheckpointError, CorpusError, OptionError, OutputError, UnknownLanguageError
from whispertide_lab.training import presets
from whispertide_lab.training.device import choose_device
from whispertide_lab.training.loop import read_state
from whispertide_lab.training.lora import add_adapters, merge_adapters
from whispertide_lab.training.network import Whisper, load_network, new_network
from whispertide_lab.training.presets import Wish, make_options, make_start
from whispertide_lab.training.run import export, open_run, trained
from whispertide_lab.training.run_options import Moved, RunOptions, Speech, read_options, with_settings, write_options
from whispertide_lab.training.shards import write_shard

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_shapes")]


@pytest.fixture(scope="module")
def network() -> Whisper:
    """The bundled model's, which nothing trains."""
    return load_network(nano())


# --- begin and resume -------------------------------------------------------------------------------------------------


def test_resumed_in_another_process_it_is_the_same(speech: Path, finished: Path, tmp_path: Path) -> None:
    """With other numbers of workers, too."""
    run = begun(tmp_path / "run", speech)
    assert not run.train(quiet, workers=1, stop=lambda: bool(run.trainer.step == 1))
    again = open_run(tmp_path / "run", "cpu", silent)
    assert again.trainer.step == 1
    assert again.train(quiet, workers=0)
    first, second = read_state(finished), read_state(tmp_path / "run")
    assert first["step"] == second["step"] == 4
    assert all(torch.equal(first["averages"][name], second["averages"][name]) for name in first["averages"])
    assert first["heard_s"] == second["heard_s"]


def test_a_run_can_be_resumed_before_its_first_update(speech: Path, finished: Path, tmp_path: Path) -> None:
    begun(tmp_path / "run", speech)
    run = open_run(tmp_path / "run", "cpu", silent)
    assert run.trainer.step == 0
    run.train(quiet, workers=0)
    first, second = read_state(finished)["network"], read_state(tmp_path / "run")["network"]
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_run_that_cannot_be_begun_leaves_no_folder(
    speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the same command would find it in its way."""
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        begun(tmp_path / "file" / "run", speech)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("whispertide_lab.training.run.write_options", interrupted)
        with pytest.raises(KeyboardInterrupt):
            begun(tmp_path / "run", speech)
    assert not (tmp_path / "run").exists()
    begun(tmp_path / "run", speech)


def test_speech_may_move_but_not_change_unnoticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named from where it is now, by a path relative to there; shares and sizes stay those the run began with."""
    old = [write_speech(tmp_path / "old" / name) for name in ("real", "made")]
    held_out = write_speech(tmp_path / "old" / "tests")
    said = (Speech(str(old[0]), 3.0), Speech(str(old[1])))
    before = begun(tmp_path / "run", said, held_out=(str(held_out),)).options
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(CorpusError, match="resume --speech FOLDER"):
        open_run(tmp_path / "run", "cpu", silent)
    monkeypatch.chdir(tmp_path / "new")
    moved, told = [Moved("real"), Moved("made")], list[str]()
    with pytest.raises(CorpusError, match="resume --held-out FOLDER"):
        open_run(tmp_path / "run", "cpu", silent, moved)
    open_run(tmp_path / "run", "cpu", told.append, moved, ["tests"])
    assert not any("now" in line for line in told)
    monkeypatch.chdir(tmp_path)
    run = open_run(tmp_path / "run", "cpu", told.append)
    places = [str(tmp_path / "new" / name) for name in ("real", "made")]
    assert run.options.speech == tuple(
        replace(said, folder=place) for said, place in zip(before.speech, places, strict=True)
    )
    assert [(said.share, said.utterances) for said in run.options.speech] == [(3, 12), (1, 12)]
    assert run.options.held_out == (str(tmp_path / "new" / "tests"),)
    write_shard(tmp_path / "new" / "made", 2, [spoken(1)])
    open_run(tmp_path / "run", "cpu", told.append)
    assert any("had 12 utterances" in line and "13 now" in line for line in told)
    write_shard(tmp_path / "new" / "made", 3, [replace(spoken(3), text="Zebras.")])
    with pytest.raises(CorpusError, match=r"new/made needs . others, first '[Z ebras]+' in 'Zebras.' \(00003\.json\)"):
        open_run(tmp_path / "run", "cpu", silent)


def test_as_much_other_speech_does_not_go_unnoticed(tmp_path: Path) -> None:
    """Nor does a run of an earlier version, which does not know what its speech was, stop at it."""
    folder, told = write_speech(tmp_path / "speech"), list[str]()
    run = begun(tmp_path / "run", folder)
    open_run(run.folder, "cpu", told.append)
    assert not any("note:" in line for line in told)
    entries = json.loads((folder / "00000.json").read_text())
    entries[0] |= {"text": entries[1]["text"], "words": None}
    (folder / "00000.json").write_text(json.dumps(entries))
    open_run(run.folder, "cpu", told.append)
    assert any("has other utterances than the 12 with which the run began" in line for line in told)
    told.clear()
    options = json.loads((run.folder / "options.json").read_text())
    options["speech"][0].pop("digest")
    (run.folder / "options.json").write_text(json.dumps(options))
    open_run(run.folder, "cpu", told.append)
    assert not any("note:" in line for line in told)


def test_speech_that_cannot_be_resumed_with_is_not_remembered(speech: Path, tmp_path: Path) -> None:
    other = write_speech(tmp_path / "other")
    run = begun(tmp_path / "run", (Speech(str(speech)), Speech(str(other))), held_out=(str(other),))
    for moved, error in (
        ([Moved(str(speech))], OptionError),
        ([Moved(str(speech))] * 3, OptionError),
        ([Moved(str(speech)), Moved(str(tmp_path / "gone"))], CorpusError),
        ([Moved(str(speech)), Moved(str(tmp_path))], CorpusError),
    ):
        with pytest.raises(error):
            open_run(run.folder, "cpu", silent, moved)
    with pytest.raises(OptionError, match=r"--held-out.* 1 of them"):
        open_run(run.folder, "cpu", silent, (), [str(other)] * 2)
    assert read_options(run.folder) == run.options
    shared = open_run(run.folder, "cpu", silent, [Moved(str(speech), 5.0), Moved(str(other))])
    assert [said.share for said in shared.options.speech] == [5, 1]


def test_reserved_sentences_are_not_trained_on(tmp_path: Path) -> None:
    folder = tmp_path / "speech"
    folder.mkdir()
    said = spoken(3)
    write_shard(folder, 0, [replace(said, text="Hello."), replace(said, text="Hi.")])
    told: list[str] = []
    begun(tmp_path / "run", folder, told=told.append)
    assert any("1 utterance," in line and "1 reserved for tests" in line for line in told)
    write_shard(folder, 0, [replace(said, text="Hello.")])
    with pytest.raises(CorpusError, match="none can be used"):
        begun(tmp_path / "other", folder)


def test_windows_too_short_for_the_speech_are_not_made(tmp_path: Path) -> None:
    """Speech without word times cannot be cut: shorter windows would be silent."""
    folder = write_speech(tmp_path / "speech", timed=False)
    told: list[str] = []
    run = begun(tmp_path / "run", folder, "batch.lengths_s=[0.5, 5]", told=told.append)
    assert run.options.phases[0].options.lengths_s == (5.0,)
    assert any("windows of 5 s" in line for line in told)
    assert read_options(run.folder) == run.options
    timed = begun(tmp_path / "timed", write_speech(tmp_path / "b"), "batch.lengths_s=[0.5, 5]")
    assert timed.options.phases[0].options.lengths_s == (0.5, 5.0)


def test_what_cannot_begin(speech: Path, network: Whisper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide_lab.training.start.load_network", lambda _: network)
    with pytest.raises(OptionError, match="expected --shape"):
        begun(tmp_path / "a", speech, shape=None)
    with pytest.raises(OptionError, match="nowhere smaller"):
        begun(tmp_path / "a", speech, shape="low", model="nano.en")
    with pytest.raises(OptionError, match=r"nano\.en, tiny\.en"):
        begun(tmp_path / "a", speech, shape="huge")
    with pytest.raises(OptionError, match="trained checkpoint"):
        begun(tmp_path / "a", speech, lora=4)
    with pytest.raises(OptionError, match="trained checkpoint"):
        begun(tmp_path / "a", speech, lora=4, shape="tiny.en", model="nano.en")
    with pytest.raises(OptionError, match="whole vocabulary"):
        begun(tmp_path / "a", speech, model="nano.en", lora=4, vocabulary="used")
    with pytest.raises(UnknownLanguageError, match="English-only"):
        begun(tmp_path / "a", speech, language="de")
    with pytest.raises(CorpusError, match="train prepare"):
        begun(tmp_path / "a", tmp_path)
    assert not (tmp_path / "a").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="train resume"):
        begun(tmp_path / "full", speech)
    with pytest.raises(CheckpointError, match=r"options\.json"):
        open_run(tmp_path / "full", "cpu", silent)


def test_a_tokenizer_without_a_token_is_not_trained(finished: Path, tmp_path: Path) -> None:
    folder = export(finished, tmp_path / "model")
    content = json.loads((folder / "tokenizer.json").read_text())
    del content["model"]["vocab"]["Ġriver"]
    content["model"]["merges"] = [
        merge for merge in content["model"]["merges"] if "".join(merge).replace(" ", "") != "Ġriver"
    ]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"before <\|endoftext\|>; .* has none for 1 of them, first id \d+"):
        begun(tmp_path / "run", finished, model=str(folder))
    assert not (tmp_path / "run").exists()


def test_devices() -> None:
    assert choose_device("cpu") == "cpu"
    with pytest.raises(OptionError, match="cpu or cuda"):
        choose_device("tpu")
    if not torch.cuda.is_available():
        assert choose_device("auto") == "cpu"
        with pytest.raises(OptionError, match="finds none"):
            choose_device("cuda")


# --- options ----------------------------------------------------------------------------------------------------------


def test_options_come_back_as_they_were(tmp_path: Path) -> None:
    wish = Wish(speech=(Speech("a", 0.5), Speech("b")), shape="small", accumulate=3, held_out=("c",))
    options = make_options(wish, make_start(wish, silent))
    write_options(tmp_path, options)
    assert read_options(tmp_path) == options
    assert [phase.until for phase in options.phases] == [48_000, 60_000]
    assert options.phases[1].options.lengths_s == (30.0,)
    assert options.vocabulary == "used"
    (tmp_path / "options.json").write_text('{"speed": 1}')
    with pytest.raises(CheckpointError, match="begin the run again"):
        read_options(tmp_path)


def test_settings() -> None:
    wish = Wish(speech=(Speech("a"),), shape="small")
    options: RunOptions = make_options(wish, make_start(wish, silent))
    changed = with_settings(
        options,
        ["ctc=0", "guided=[[0, 1]]", "batch.mask_time=7", "windows.prompt=0.5", "augmentation.level_db=[-9, -3]"],
    )
    assert (changed.loop.ctc, changed.loop.guided) == (0, ((0, 1),))
    for phase in changed.phases:
        assert phase.options.mask_time == 7
        assert phase.options.windows.prompt == 0.5
        assert phase.options.windows.augmentation.level_db == (-9, -3)
    assert with_settings(options, ["windows.language=de"]).phases[0].options.windows.language == "de"
    for bad in (
        "speed=1",
        "batch.speed=1",
        "room.size=1",
        "warm_up=many",
        "precision=3",
        "warm_up=1.5",
        "ctc",
        "guide=true",
    ):
        with pytest.raises(OptionError):
            with_settings(options, [bad])
    for bad, message in (
        ("steps=3", "expected --steps"),
        ("accumulate=2", "expected --accumulate"),
        ("batch.lengths_s=[2]", "as many batch.shares"),
        ("windows.silent=7", "windows.silent between 0 and 1"),
        ("augmentation.room=-1", "augmentation.room between 0 and 1"),
    ):
        with pytest.raises(OptionError, match=message):
            with_settings(options, [bad])
    assert len(with_settings(options, ["batch.lengths_s=[2]", "batch.shares=[1]"]).phases[0].options.shares) == 1


def test_kinds_of_training_differ(speech: Path, network: Whisper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide_lab.training.start.load_network", lambda _: network)

    def options(**wish: Any) -> RunOptions:
        wanted = Wish(speech=(Speech(str(speech)),), **wish)
        return make_options(wanted, make_start(wanted, silent))

    scratch, tuned, adapted = options(shape="small"), options(model="nano.en"), options(model="nano.en", lora=4)
    assert scratch.loop.rate == presets.SCRATCH_RATE
    assert scratch.loop.ctc > 0
    assert scratch.loop.guided
    assert (tuned.loop.rate, tuned.loop.ctc, tuned.loop.guide) == (presets.TUNING_RATE, 0, 0)
    assert tuned.vocabulary == adapted.vocabulary == "all"
    assert adapted.loop.rate == presets.ADAPTER_RATE


def test_a_run_can_begin_with_a_grown_one(speech: Path, finished: Path, tmp_path: Path) -> None:
    """Its heads are still guided, where they are now, and what comes out is a whole checkpoint of the new shape."""
    run = begun(tmp_path / "run", speech, shape="wide", model=str(finished), vocabulary="used")
    assert run.options.began_with == f"wide, grown from {finished}"
    assert run.options.loop.guided == ((1, 0),)
    assert (run.options.loop.rate, run.options.loop.ctc) == (presets.GROWN_RATE, 0)
    assert run.train(quiet, workers=0)
    checkpoint = load_checkpoint(export(run.folder, tmp_path / "model"))
    assert (checkpoint.dims.n_text_state, checkpoint.dims.n_text_head, checkpoint.dims.n_text_layer) == (24, 3, 2)
    assert checkpoint.generation.alignment_heads == ((1, 0),)


# --- adapters ---------------------------------------------------------------------------------------------------------


def test_adapters_begin_as_nothing_and_merge_into_the_weights() -> None:
    network = new_network(small_dims(), 0)
    mel, tokens = torch.randn(1, 80, 100), torch.tensor([[50257, 50362, 383]])
    with torch.no_grad():
        plain = network(mel, tokens)
        add_adapters(network, 2, 0)
        assert torch.equal(network(mel, tokens), plain)
        for name, parameter in network.named_parameters():
            assert parameter.requires_grad == ("lora_" in name)
            if parameter.requires_grad:
                parameter.normal_(generator=torch.Generator().manual_seed(len(name)))
        adapted = network(mel, tokens)
        assert not torch.allclose(adapted, plain, atol=1e-3)
        merge_adapters(network)
        assert torch.allclose(network(mel, tokens), adapted, atol=1e-5)
    assert set(network.state_dict()) == set(new_network(small_dims(), 0).state_dict())


def test_a_run_of_adapters(speech: Path, finished: Path, tmp_path: Path) -> None:
    """Resumed, it is the same; exported, only queries and values have changed."""
    base = export(finished, tmp_path / "base", np.float32)
    whole = begun(tmp_path / "whole", speech, model=str(base), lora=2)
    whole.train(quiet, workers=0)
    run = begun(tmp_path / "run", speech, model=str(base), lora=2)
    run.train(quiet, workers=0, stop=lambda: bool(run.trainer.step == 1))
    open_run(tmp_path / "run", "cpu", silent).train(quiet, workers=0)
    first, second = trained(tmp_path / "whole").network.state_dict(), trained(tmp_path / "run").network.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    before = load_network(load_checkpoint(base)).state_dict()
    changed = {name for name in before if not torch.equal(before[name], first[name])}
    assert changed
    assert all(name.endswith(("q_proj.weight", "v_proj.weight")) for name in changed)
    with pytest.raises(OptionError, match="at least 1"):
        add_adapters(new_network(small_dims(), 0), 0, 0)
