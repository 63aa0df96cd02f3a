"""What a causal adapter is worth, without any streaming runtime: `python benchmarks/causal_adapter.py MODEL ADAPTER`.

Sentences with exact word times, in voices that training knew and in held-out ones, are decoded greedily at the end of
every chunk. Three ways to encode:

again      the model as it is, which encodes all the sound so far anew at every chunk end
masked     the model as it is, but block by block, as a stream would
adapted    the same with the adapter

Prints ARWER (errors against the words that are over, summed over all chunk ends) and WER a second after the sentence,
with 95 % intervals over sentences, then one JSON line. Needs torch.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.causal import CausalAdapter, merged
from whispertide.features import block_ends, log_mel
from whispertide.lab.evaluation.wer import Counts
from whispertide.lab.speech.sentences import open_sentences
from whispertide.lab.speech.voices import HELD_OUT, TRAINED
from whispertide.lab.training.causal_batches import first_block
from whispertide.lab.training.causal_decoding import Shown, arwer, greedy, shown_at_ends
from whispertide.lab.training.network import Whisper, load_network
from whispertide.lab.training.shards import Utterance
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE

DRAWS = 1000
Show = Callable[[Utterance, int], list[Shown]]


def sentences(source: str, count: int) -> Iterator[tuple[str, Utterance]]:
    """Which voices, and a sentence in one of them."""
    for kind, voices in (("known voices", TRAINED), ("held-out voices", HELD_OUT)):
        for said in open_sentences("wordnet" if source == "wordnet" else "grammar", voices, count).utterances():
            samples = np.rint(said.audio() * 32767).astype(np.int16)
            spans = tuple((word.start, word.end) for word in said.words)
            yield kind, Utterance(samples, " ".join(word.text for word in said.words), said.group or "", spans)


def again(network: Whisper, checkpoint: Checkpoint, said: Utterance, block: int) -> list[Shown]:
    """Everything so far is encoded anew at each chunk end, without a mask."""
    frames = (len(said.samples) + SAMPLE_RATE) // FRAME_SAMPLES
    samples = np.zeros(frames * FRAME_SAMPLES, np.float32)
    samples[: len(said.samples)] = said.samples / 32768
    prefix = checkpoint.tokenizer.sot_sequence(None, timestamps=False)
    shown = []
    for end in (min(end, frames) for end in block_ends(frames, block, first_block(block))):
        mel = torch.from_numpy(log_mel(samples[: end * FRAME_SAMPLES], checkpoint.dims.n_mels))
        with torch.no_grad():
            encoded = network.encoder(mel[None])
            row = greedy(network, encoded, torch.tensor([end]), prefix, checkpoint.tokenizer.eot)[0]
        over = zip(said.text.split(), said.words or (), strict=True)
        words = tuple(word for word, (_, last) in over if last <= end * FRAME_SAMPLES)
        shown.append(Shown(end * FRAME_SAMPLES / SAMPLE_RATE, checkpoint.tokenizer.decode(row).strip(), words))
    return shown


@dataclass(frozen=True, slots=True)
class Figure:
    """A rate and its interval."""

    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, counts: list[Counts]) -> "Figure":
        """Over all sentences; the interval by drawing sentences anew."""
        errors, words = (np.array([getattr(one, name) for one in counts]) for name in ("errors", "reference"))
        drawn = np.random.RandomState(0).randint(len(counts), size=(DRAWS, len(counts)))
        rates = errors[drawn].sum(axis=1) / np.maximum(1, words[drawn].sum(axis=1))
        low, high = np.quantile(rates, (0.025, 0.975))
        return cls(errors.sum() / max(1, words.sum()), float(low), float(high))

    def __str__(self) -> str:
        return f"{100 * self.rate:5.1f} ({100 * self.low:.1f} to {100 * self.high:.1f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("adapter", type=Path)
    parser.add_argument("--count", type=int, default=4, help="sentences per voice")
    parser.add_argument("--blocks", type=int, nargs="+", default=[5, 15, 50], help="frames of 20 ms")
    parser.add_argument("--source", choices=["grammar", "wordnet"], default="grammar")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    checkpoint = load_checkpoint(asked.model)
    adapter = CausalAdapter.load(asked.adapter, checkpoint)
    plain, adapted = load_network(checkpoint).eval(), load_network(merged(checkpoint, adapter)).eval()
    ways: dict[str, Show] = {
        "again": lambda said, block: again(plain, checkpoint, said, block),
        "masked": lambda said, block: shown_at_ends(plain, checkpoint.tokenizer, said, block),
        "adapted": lambda said, block: shown_at_ends(adapted, checkpoint.tokenizer, said, block),
    }
    material = list(sentences(asked.source, asked.count))
    cells = []
    for block in asked.blocks:
        for way, show in ways.items():
            shown = [(kind, show(said, block)) for kind, said in material]
            for kind in sorted({kind for kind, _ in material}):
                mine = [moments for other, moments in shown if other == kind]
                figures = [Figure.of([arwer(m) for m in mine]), Figure.of([arwer(m[-1:]) for m in mine])]
                print(f"{20 * block:5d} ms  {way:8s} {kind:16s} ARWER {figures[0]}  WER {figures[1]}", flush=True)
                rates = {"arwer": round(figures[0].rate, 4), "wer": round(figures[1].rate, 4)}
                cells.append({"chunk_ms": 20 * block, "way": way, "voices": kind, "sentences": len(mine)} | rates)
    print(json.dumps({"model": asked.model, "source": asked.source, "cells": cells}))


if __name__ == "__main__":
    main()
