"""OpenAI's own weights, each opened once in a process."""

from functools import cache

import whispertide
from reference import remembering
from whispertide.api import Transcriber
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions


@cache
def usual(name: str) -> Transcriber:
    """The checkpoint as people use it, opened once."""
    return whispertide.load(name, threads=1)


@cache
def exact(name: str) -> WhisperModel:
    """The checkpoint in our own engine, fp32, with an encoder that remembers."""
    return remembering(load_model(name, EngineOptions(precision="fp32", threads=1)))
