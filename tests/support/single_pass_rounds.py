"""Rounds of one decode with the bundled model, for the tests."""

from functools import cache
from pathlib import Path
from typing import Any

from reference import nano
from whispertide.audio.file import load_audio
from whispertide.decoding.token_words import TokenWord
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import PAD30
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import Span, join_words

CLIP = Path(__file__).parents[1] / "clips" / "river.flac"
START = 3200 * 320  # somewhere in the middle of a stream


def hear(executor: SerialExecutor, listen: SinglePass, *, count: int | None = None, beam: int = 1, **plan: Any) -> Any:
    samples = load_audio(CLIP)[:count]
    options = DecodeOptions(beam=beam)
    return executor.run(RoundPlan(7, Span(START, START + len(samples)), hearing=listen, **plan), samples, options)


@cache
def plain(beam: int = 1) -> Any:
    """The whole clip, padded and watched by nobody: what most tests compare with."""
    return hear(SerialExecutor(RoundResources(nano(), PAD30)), SinglePass(), beam=beam)


def listened(result: Any) -> HeardWords:
    assert result.heard is not None
    heard: HeardWords = result.heard
    return heard


def text(words: tuple[TokenWord, ...]) -> str:
    return join_words([word.word for word in words])
