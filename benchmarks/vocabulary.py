"""Can a decoder step read less of the vocabulary? `python benchmarks/vocabulary.py [--model nano.en --windows 60]`

The last product of a step, hidden state [width] by token embeddings [vocabulary, width], is half of the bytes that a
step of base.en reads. A screen reads fewer bytes per row and leaves an error. Where no error of that size can make
another token the best, only the candidates are computed in full. This counts, for hidden states of real decodes, what
each screen can prove:

    rank R    the R directions in which hidden states of other windows vary most; the rest of a row by Cauchy-Schwarz
    4 bits    each row in 32 blocks' scales; the rounding of a row by Cauchy-Schwarz, block by block
    oracle    no bound can be better: the largest error that this step really had, for all rows

Prints for each: bytes read by the screen against 8-bit rows, candidates (median and 95th percentile), the bytes of
screen and candidates against 8-bit rows, and the steps for which the token's probability is known within one percent.
Rows that are nearly equal, such as those of tokens that training never met, count once. Needs the extra train.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from rich.progress import track

from whispertide.decoding.window import decode_window
from whispertide.features import log_mel
from whispertide.lab.evaluation.corpora import open_corpus
from whispertide.lab.evaluation.page import Table, text_table
from whispertide.lab.training.network import Whisper, load_network
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions
from whispertide.types import SAMPLE_RATE, FloatArray

WINDOW_S, BLOCK = 6, 32
COLUMNS = ("screen", "bytes %", "candidates", "p95", "bytes with them %", "probability known %")


@dataclass(frozen=True)
class Screen:
    """What a screen makes of hidden states [n, width]: logits with an error of at most `bound`, both [n, rows]."""

    name: str
    bytes_per_row: float
    logits: FloatArray
    bound: FloatArray


def hidden_states(model: WhisperModel, network: Whisper, windows: Iterator[FloatArray]) -> Iterator[FloatArray]:
    """[n, width] for each window: the states that the network's own text was chosen from."""
    for samples in windows:
        mel = log_mel(samples, model.dims.n_mels)
        text = decode_window(model, model.encode(mel), DecodeOptions(temperatures=(0.0,), timestamps=False)).tokens
        prompt = model.tokenizer.sot_sequence(None, timestamps=False)
        with torch.no_grad():
            encoded = network.encoder(torch.from_numpy(mel)[None])
            states, _ = network.decoder(torch.tensor([[*prompt, *text]]), encoded)
        yield states[0, len(prompt) - 1 :].numpy()


def distinct(rows: FloatArray) -> FloatArray:
    """Those that differ from all before them by more than a thousandth of their length, about."""
    keys = np.round(rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9), 2)
    return rows[np.sort(np.unique(keys, axis=0, return_index=True)[1])]


def by_rank(rank: int, rows: FloatArray, known: FloatArray, states: FloatArray) -> Screen:
    """`known` are the states that the directions are taken from."""
    basis = np.linalg.svd(known, full_matrices=False)[2][:rank].T
    left = states - states @ basis @ basis.T
    rest = rows - rows @ basis @ basis.T
    bound = np.linalg.norm(left, axis=1)[:, None] * np.linalg.norm(rest, axis=1)[None]
    return Screen(f"rank {rank}", rank + 4, states @ basis @ (rows @ basis).T, bound)


def by_bits(rows: FloatArray, states: FloatArray) -> Screen:
    """Symmetric 4 bits, a scale for each block of each row; the length of each block's rounding is read too."""
    blocks = rows.reshape(len(rows), -1, BLOCK)
    scale = np.abs(blocks).max(axis=2, keepdims=True) / 7 + 1e-12
    rounded = np.round(blocks / scale) * scale
    lost = np.linalg.norm(blocks - rounded, axis=2)
    weight = np.linalg.norm(states.reshape(len(states), -1, BLOCK), axis=2)
    width = rows.shape[1]
    return Screen("4 bits", width / 2 + 3 * width / BLOCK, states @ rounded.reshape(rows.shape).T, weight @ lost.T)


def oracle(screen: Screen, exact: FloatArray) -> Screen:
    """The same with the largest error that each step had."""
    error = np.abs(screen.logits - exact).max(axis=1, keepdims=True)
    return Screen(f"{screen.name}, oracle", screen.bytes_per_row, screen.logits, np.broadcast_to(error, exact.shape))


def proven(screen: Screen, exact: FloatArray, width: int) -> tuple[str, ...]:
    """A row of the table. Raises AssertionError where a bound does not hold."""
    assert (np.abs(screen.logits - exact) <= screen.bound + 1e-3).all(), screen.name
    least, most = screen.logits - screen.bound, screen.logits + screen.bound
    candidate = most >= least.max(axis=1, keepdims=True)
    count = candidate.sum(axis=1)
    sums = [np.logaddexp.reduce(np.where(candidate, exact, side), axis=1) for side in (least, most)]
    read = (screen.bytes_per_row * exact.shape[1] + width * count.mean()) / (width * exact.shape[1])
    return (
        screen.name,
        f"{100 * screen.bytes_per_row / width:.0f}",
        f"{np.median(count):.0f}",
        f"{np.percentile(count, 95):.0f}",
        f"{100 * read:.0f}",
        f"{100 * np.mean(sums[1] - sums[0] <= 0.01):.1f}",
    )


def main() -> None:
    """Decode windows of synthetic talks, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano.en")
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--seed", type=int, default=41)
    arguments = parser.parse_args()
    model = load_model(arguments.model)
    network = load_network(model.checkpoint).eval()
    talks = open_corpus("talks", seed=arguments.seed, length_s=WINDOW_S * arguments.windows).utterances()
    step = WINDOW_S * SAMPLE_RATE
    cuts = [talk.audio()[at : at + step] for talk in talks for at in range(0, len(talk.audio()) - step + 1, step)]
    states = list(hidden_states(model, network, iter(track(cuts, "decoding", transient=True))))
    half = len(states) // 2
    known, seen = np.concatenate(states[:half]), np.concatenate(states[half:])
    rows = distinct(network.decoder.embed_tokens.weight.detach().numpy())
    exact, width = seen @ rows.T, rows.shape[1]
    print(f"{model.name}: {len(rows)} distinct rows of width {width}, {len(seen)} steps")
    screens = [by_rank(width * share // 8, rows, known, seen) for share in (1, 2, 4, 6)] + [by_bits(rows, seen)]
    table = [proven(each, exact, width) for screen in screens for each in (screen, oracle(screen, exact))]
    print(text_table(Table(COLUMNS, tuple(table))))


if __name__ == "__main__":
    main()
