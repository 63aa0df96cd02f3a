"""Attention that tests write down themselves: each query looks at one frame, sharply."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from whispertide.checkpoint.generation import Head
from whispertide.checkpoint.tokenizer import TokenKind
from whispertide.decoding.guards import Scene
from whispertide.types import FloatArray

SLACK = 6  # standardised over the queries, a peak is flat: only its place to about this many frames is told


def looking_at(places: Sequence[int], frames: int, heads: int = 2, width: float = 2.0) -> FloatArray:
    """[heads, queries, frames]: query i attends around frame places[i], and a little, at random, everywhere."""
    at = np.arange(frames)
    noise = np.random.default_rng(frames).uniform(0.01, 0.02, (448, frames))[: len(places)]
    rows = np.exp(-(((at[None] - np.array(places)[:, None]) / width) ** 2)) + noise
    rows /= rows.sum(axis=-1, keepdims=True)
    return np.repeat(rows[None], heads, axis=0).astype(np.float32)


def kind_of(token: int) -> TokenKind:
    """By number: 0 to 99 begin words, 100 to 199 go on with one, 200 to 299 are punctuation."""
    is_mark, is_piece = 200 <= token < 300, 100 <= token < 200
    return TokenKind(
        is_special=token >= 300,
        is_mark=is_mark,
        is_content=token < 100,
        closes=is_mark,
        continues=is_mark or is_piece,
    )


def scene(frames: int, *, opening: int = 2, forced: tuple[int, ...] = (), heads: int = 2) -> Scene:
    """A decode whose attention is that of `heads` heads of layer 0."""
    chosen: tuple[Head, ...] = tuple((0, head) for head in range(heads))
    return Scene(kind_of, chosen, opening, forced, frames)


def asked(
    guard: Any,
    tokens: Sequence[int],
    places: Sequence[int],
    frames: int,
    opening: int = 2,
    unlikely: Sequence[int] = (),
) -> int | None:
    """Ask the guard after every token, as a search does; `places` are those of all queries, the prompt's first, and
    the tokens at `unlikely` have a probability of 0.1, the others of 0.9.

    Returns what it wants to keep, None if it never fires.
    """
    for count in range(1, len(tokens) + 1):
        seen = looking_at(places[: opening + count - 1], frames)
        keep: int | None = guard.check(tokens[:count], seen, math.log(0.1 if count - 1 in unlikely else 0.9))
        if keep is not None:
            return keep
    return None
