"""Speech that is only tones, and a network so small that an update takes milliseconds: what tests of training share."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from whispertide.checkpoint import Checkpoint, ModelDims, load_checkpoint
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide_lab.training.shards import Int16Array, Utterance, write_shard

RATE = 16_000
SENTENCES = (
    "The river is high.",
    "Where does the old road go?",
    "It was cold in the morning, and nobody came.",
    "Yes.",
    "Twenty-three birds sat on the roof of the house.",
    "Don't forget the letter.",
)


@cache
def nano() -> Checkpoint:
    """The bundled checkpoint: tokenizer and files."""
    return load_checkpoint("nano.en")


@cache
def tone(count: int, hertz: float) -> Int16Array:
    """A tone [count] at a third of full scale."""
    samples: Int16Array = (10_000 * np.sin(2 * np.pi * hertz * np.arange(count) / RATE)).astype(np.int16)
    samples.flags.writeable = False  # every caller has this array
    return samples


def spoken(number: int, *, timed: bool = True) -> Utterance:
    """A sentence, each word a tone of its own of 0.1 to 0.3 s, 20 ms of silence between."""
    text = SENTENCES[number % len(SENTENCES)]
    pieces, words, at = [], [], 0
    for place, word in enumerate(text.split()):
        count = RATE // 10 + RATE // 40 * min(8, len(word))
        pieces += [tone(count, 200 + 50 * place + 7 * number), np.zeros(320, np.int16)]
        words.append((at, at + count))
        at += count + 320
    return Utterance(np.concatenate(pieces), text, f"tone{number}", tuple(words) if timed else None)


def write_speech(folder: Path, *, each: int = 6, timed: bool = True) -> Path:
    """Two shards of six utterances, or so many `each`."""
    folder.mkdir(parents=True)
    for shard in (0, 1):
        write_shard(folder, shard, [spoken(each * shard + number, timed=timed) for number in range(each)])
    return folder


def quiet(step: int, figures: dict[str, float]) -> None:
    """What a run tells is not listened to."""


def resumed(trainer: Callable[..., Any], *given: Any, at: int) -> Any:
    """The trainer of a run that was stopped after so many updates, resumed and ended."""
    first = trainer(*given)
    steps = iter([False] * (at - 1) + [True])
    assert not first.run(quiet, stop=steps.__next__)
    second = trainer(*given)
    assert second.step == at
    assert second.run(quiet)
    return second


def changed_by(run: Any, updates: int) -> set[str]:
    """The parameters that so many updates on one batch change; the loss falls meanwhile."""
    asked, before = run.batches[0], {name: p.clone() for name, p in run.network.state_dict().items()}
    losses = [run.update(asked) for _ in range(updates)]
    assert losses[-1] < losses[0]
    return {name for name, values in run.network.state_dict().items() if not values.equal(before[name])}


def small_dims() -> ModelDims:
    """One layer of width 16 over the whole vocabulary."""
    shape: dict[str, int] = {"n_audio_layer": 1, "n_text_layer": 1, "n_audio_head": 2, "n_text_head": 2}
    return replace(nano().dims, n_audio_state=16, n_text_state=16, **shape)


def model_folder(place: Path, checkpoint: Checkpoint) -> Path:
    """A model folder of a checkpoint of these dims, in a new folder."""
    config = json.loads((BUNDLED_DIR / "nano.en" / "config.json").read_text())
    config |= {"d_model": 16, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    config |= {
        f"{part}_{what}": n for part in ("encoder", "decoder") for what, n in (("layers", 1), ("attention_heads", 2))
    }
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config))
    (place / "tokenizer.json").write_bytes((BUNDLED_DIR / "nano.en" / "tokenizer.json").read_bytes())
    (place / "model.safetensors").write_bytes(checkpoint.tensors.files[0].read_bytes())
    return place


def small_batches(folder: Path, seed: int = 0, count: int = 1000) -> Any:
    """Windows of one and two seconds, four seconds in a batch."""
    from whispertide_lab.training.batches import Batches, BatchOptions, Phase, Source
    from whispertide_lab.training.shards import open_shards

    options = BatchOptions(seconds=4.0, lengths_s=(1.0, 2.0), shares=(0.5, 0.5))
    return Batches([Source(open_shards([folder]), 1.0)], nano().tokenizer, [Phase(count, options)], seed)


def small_trainer(speech: Path, run: Path, **options: Any) -> tuple[Any, Iterator[Any]]:
    """A trainer on the CPU in fp32, where its state left off if it has one, and the batches that are next."""
    from whispertide_lab.training.compact import tokens_in_use
    from whispertide_lab.training.loop import STATE, LoopOptions, Trainer
    from whispertide_lab.training.network import new_network
    from whispertide_lab.training.shards import open_shards

    run.mkdir(exist_ok=True)
    vocabulary = tokens_in_use(open_shards([speech]).texts, nano().tokenizer)
    network = new_network(small_dims(), 0)
    vocabulary.shrink(network)
    given: dict[str, Any] = {
        "steps": 12,
        "warm_up": 3,
        "precision": "fp32",
        "report_every": 2,
        "save_every": 4,
        "guided": ((0, 1),),
    }
    trainer = Trainer(network, vocabulary, LoopOptions(**(given | options)), run)
    if (run / STATE).exists():
        trainer.load()
    batches = small_batches(speech)
    return trainer, (batches[number] for number in range(trainer.batches_done, len(batches)))
