"""What a causal adapter is worth, without any streaming runtime: `python benchmarks/causal_adapter.py MODEL ADAPTER`.

Sentences with exact word times, in voices that training knew and in held-out ones, are decoded greedily at the end of
every chunk. Three ways to encode:

again      the model as it is, which encodes all the sound so far anew at every chunk end
masked     the model as it is, but block by block, as a stream would
adapted    the same with the adapter

Prints the loss per token at all chunk ends (`whispertide_lab.training.causal_labels`), ARWER (errors against the words
that are over, summed over all chunk ends) and WER a second after the sentence, the latter two with 95 % intervals over
voices, then one JSON line. Needs torch.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from whispertide.checkpoint import Tokenizer, load_checkpoint
from whispertide.checkpoint.causal import CausalAdapter
from whispertide.checkpoint.low_rank import merge_adapter
from whispertide.features import log_mel, raw_log_mel
from whispertide.methods.causal.blocks import block_ends
from whispertide.types import FRAME_SAMPLES, HOP_LENGTH, SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.bootstrap import by_unit, interval, units_of
from whispertide_lab.evaluation.wer import Counts
from whispertide_lab.speech.noise import to_int16
from whispertide_lab.speech.sentences import open_sentences
from whispertide_lab.speech.voices import HELD_OUT, TRAINED
from whispertide_lab.training.augment import SpokenWord
from whispertide_lab.training.causal_batches import CausalBatch, first_block
from whispertide_lab.training.causal_decoding import Shown, arwer, greedy, shown_at_ends
from whispertide_lab.training.causal_features import causal_log_mel
from whispertide_lab.training.causal_labels import FRAMES_PER_SECOND, Spoken
from whispertide_lab.training.causal_network import causal_loss
from whispertide_lab.training.network import Whisper, load_network
from whispertide_lab.training.shards import Utterance
from whispertide_lab.training.windows import Segment, Window, answer


def sentences(source: str, count: int) -> Iterator[tuple[str, Utterance]]:
    """Which voices, and a sentence in one of them."""
    for kind, voices in (("known voices", TRAINED), ("held-out voices", HELD_OUT)):
        for said in open_sentences("wordnet" if source == "wordnet" else "grammar", voices, count).utterances():
            samples = to_int16(said.audio().astype(np.float64))
            spans = tuple((word.start or 0, word.end or 0) for word in said.words)  # exact, so never None
            yield kind, Utterance(samples, " ".join(word.text for word in said.words), said.group or "", spans)


@dataclass(frozen=True, slots=True)
class Asked:
    """A sentence with a second of silence, and what is over at each chunk end, in frames."""

    said: Utterance
    block: int
    samples: FloatArray
    limits: tuple[int, ...]
    spoken: Spoken

    @classmethod
    def of(cls, said: Utterance, block: int, tokenizer: Tokenizer) -> "Asked":
        """With chunks of so many frames."""
        frames = (len(said.samples) + SAMPLE_RATE) // FRAME_SAMPLES
        samples = np.zeros(frames * FRAME_SAMPLES, np.float32)
        samples[: len(said.samples)] = said.samples / 32768
        limits = tuple(min(end, frames) for end in block_ends(frames, block, first_block(block)))
        heard = [SpokenWord(text, *span) for text, span in zip(said.text.split(), said.words or (), strict=True)]
        tokens, targets, places = answer(tokenizer, [Segment(heard, timed=True)], [], stamped=False)
        spoken = Spoken.of(Window(samples, tokens, targets, places, said.text), tokenizer, frames / FRAMES_PER_SECOND)
        return cls(said, block, samples, limits, spoken)

    def targets(self, eot: int) -> Tensor:
        """[limits, n]: what should be said at each, -1 where it does not count."""
        return torch.from_numpy(np.stack([self.spoken.by(limit / FRAMES_PER_SECOND, eot) for limit in self.limits]))


@dataclass(frozen=True, slots=True)
class Result:
    """What is shown at the chunk ends of a sentence in a voice; loss summed over so many tokens."""

    voice: str
    shown: list[Shown]
    loss: float
    tokens: int


def again(network: Whisper, tokenizer: Tokenizer, asked: Asked) -> Result:
    """Everything so far is encoded anew at each chunk end, without a mask."""
    prefix, targets = tokenizer.sot_sequence(None, timestamps=False), asked.targets(tokenizer.eot)
    tokens, shown, loss = torch.from_numpy(asked.spoken.tokens)[None], list[Shown](), 0.0
    for end, wanted in zip(asked.limits, targets, strict=True):
        mel = torch.from_numpy(log_mel(asked.samples[: end * FRAME_SAMPLES], network.dims.n_mels))
        with torch.no_grad():
            encoded = network.encoder(mel[None])
            row = greedy(network, encoded, torch.tensor([end]), prefix, tokenizer.eot)[0]
            hidden, _ = network.decoder(tokens, encoded)
            logits = functional.linear(hidden[0, wanted >= 0], network.decoder.embed_tokens.weight)
            loss += float(functional.cross_entropy(logits, wanted[wanted >= 0], reduction="sum"))
        over = zip(asked.said.text.split(), asked.said.words or (), strict=True)
        words = tuple(word for word, (_, last) in over if last <= end * FRAME_SAMPLES)
        shown.append(Shown(tokenizer.decode(row).strip(), words))
    return Result(asked.said.source, shown, loss, int((targets >= 0).sum()))


def masked(network: Whisper, tokenizer: Tokenizer, asked: Asked) -> Result:
    """Block by block."""
    first = first_block(asked.block)
    ends = block_ends(asked.limits[-1], asked.block, first)
    mel = causal_log_mel(raw_log_mel(asked.samples, network.dims.n_mels, padding=HOP_LENGTH), ends)
    targets, none = asked.targets(tokenizer.eot), torch.zeros(len(asked.limits), dtype=torch.int64)
    tokens, limits = torch.from_numpy(asked.spoken.tokens)[None], torch.tensor(asked.limits)
    batch = CausalBatch(asked.block, first, torch.from_numpy(mel)[None], tokens, none, limits, targets, none)
    with torch.no_grad():
        loss = float(causal_loss(network, batch))
    shown = shown_at_ends(network, tokenizer, asked.said, asked.block)
    return Result(asked.said.source, shown, loss, batch.count)


@dataclass(frozen=True, slots=True)
class Figure:
    """A rate and its interval."""

    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, counts: list[Counts], voices: list[str]) -> "Figure":
        """Over all sentences; the interval by drawing their voices anew."""
        whole = sum(counts, Counts())
        drawn = by_unit([(one.errors, one.reference) for one in counts], units_of(voices))
        return cls(whole.errors / whole.reference, *interval(drawn))

    def __str__(self) -> str:
        return f"{100 * self.rate:5.1f} ({100 * self.low:.1f} to {100 * self.high:.1f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("adapter", type=Path)
    parser.add_argument("--count", type=int, default=4, help="sentences per voice")
    parser.add_argument("--blocks", type=int, nargs="+", default=[5, 15, 50], help="frames of 20 ms")
    parser.add_argument("--ways", nargs="+", default=["again", "masked", "adapted"], help="again is slow")
    parser.add_argument("--source", choices=["grammar", "wordnet"], default="grammar")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    checkpoint = load_checkpoint(asked.model)
    adapter = CausalAdapter.load(asked.adapter, checkpoint)
    plain, adapted = load_network(checkpoint).eval(), load_network(merge_adapter(checkpoint, adapter)).eval()
    ways: dict[str, Callable[[Asked], Result]] = {
        "again": partial(again, plain, checkpoint.tokenizer),
        "masked": partial(masked, plain, checkpoint.tokenizer),
        "adapted": partial(masked, adapted, checkpoint.tokenizer),
    }
    material = list(sentences(asked.source, asked.count))
    cells = []
    for block in asked.blocks:
        for way in asked.ways:
            results = [(kind, ways[way](Asked.of(said, block, checkpoint.tokenizer))) for kind, said in material]
            for kind in sorted({kind for kind, _ in material}):
                mine = [result for other, result in results if other == kind]
                cells.append(
                    {"chunk_ms": 20 * block, "way": way, "voices": kind} | printed(mine, 20 * block, way, kind)
                )
    print(json.dumps({"model": asked.model, "source": asked.source, "cells": cells}))


def printed(results: list[Result], chunk_ms: int, way: str, kind: str) -> dict[str, float]:
    """The figures of some sentences, after they were printed."""
    loss = sum(result.loss for result in results) / sum(result.tokens for result in results)
    voices = [result.voice for result in results]
    all_ends = Figure.of([arwer(result.shown) for result in results], voices)
    last = Figure.of([arwer(result.shown[-1:]) for result in results], voices)
    print(f"{chunk_ms:5d} ms  {way:8s} {kind:16s} loss {loss:.3f}  ARWER {all_ends}  WER {last}", flush=True)
    return {
        "sentences": len(results),
        "loss": round(loss, 4),
        "arwer": round(all_ends.rate, 4),
        "wer": round(last.rate, 4),
    }


if __name__ == "__main__":
    main()
