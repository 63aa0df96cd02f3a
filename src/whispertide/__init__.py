"""whispertide: live speech-to-text with Whisper models on your own machine.

    import whispertide

    model = whispertide.load("base")
    print(model.transcribe("talk.mp3").text)

Importing the package is cheap: what a name needs is imported when it is first used.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# ONNX Runtime's own builds send Microsoft what they run, unless this is set before they start (its Privacy.md).
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

if TYPE_CHECKING:
    from whispertide import events
    from whispertide.api import Transcriber, load
    from whispertide.errors import WhispertideError
    from whispertide.formats.files import get_format
    from whispertide.options import DecodeOptions, EngineOptions, SubtitleOptions
    from whispertide.recipes.catalogue import RECIPES, get_recipe
    from whispertide.recipes.recipe import Recipe
    from whispertide.session import Session
    from whispertide.types import SAMPLE_RATE, Word

_HOMES = {
    "Transcriber": "whispertide.api",
    "load": "whispertide.api",
    "WhispertideError": "whispertide.errors",
    "get_format": "whispertide.formats.files",
    "DecodeOptions": "whispertide.options",
    "EngineOptions": "whispertide.options",
    "SubtitleOptions": "whispertide.options",
    "Session": "whispertide.session",
    "RECIPES": "whispertide.recipes.catalogue",
    "Recipe": "whispertide.recipes.catalogue",
    "get_recipe": "whispertide.recipes.catalogue",
    "SAMPLE_RATE": "whispertide.types",
    "Word": "whispertide.types",
}

__all__ = [
    "RECIPES",
    "SAMPLE_RATE",
    "DecodeOptions",
    "EngineOptions",
    "Recipe",
    "Session",
    "SubtitleOptions",
    "Transcriber",
    "WhispertideError",
    "Word",
    "events",
    "get_format",
    "get_recipe",
    "load",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "events":
        return import_module("whispertide.events")
    raise AttributeError(f"module 'whispertide' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
