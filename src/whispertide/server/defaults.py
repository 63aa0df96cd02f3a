"""Defaults for the settings that a client leaves open: the model, the language, the task, the prompt.

The server's options may set them. They are no demand: a model that cannot follow them does without.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from whispertide.checkpoint.languages import DETECT, language_choice, language_code
from whispertide.errors import OptionError
from whispertide.options import DecodeOptions, Task
from whispertide.server.bounds import check_prompt
from whispertide.server.protocols.base import ModelInfo, Settings


def choose_model(models: Sequence[ModelInfo], settings: Settings, usual: DecodeOptions) -> tuple[ModelInfo, Settings]:
    """Choose the model for a client, and complete its settings: the language is a code, or None = detect it.

    The model that it names, else the first that can write what is asked for (the first of all if none can). Raises
    `UnknownLanguageError` for a language that Whisper does not know.
    """
    found = [model for model in models if model.name == settings.model] or models
    asked = replace(
        settings,
        language=language_choice(settings.language),
        languages=tuple(map(language_code, settings.languages)),
        task=settings.task or "transcribe",
        prompt=settings.prompt or usual.prompt,
        keyterms=settings.keyterms or usual.keyterms,
    )
    wanted = replace(
        asked,
        language=usual.language if settings.language is None and not asked.languages else asked.language,
        task=settings.task or usual.task,
    )
    for filled in (wanted, asked):
        for model in found:
            if _can_write(model, filled.language, filled.task):
                return model, _allowed(filled, usual, model)
    return found[0], _allowed(asked, usual, found[0])


def _allowed(settings: Settings, usual: DecodeOptions, model: ModelInfo) -> Settings:
    """The settings with those languages that may be detected: the client's, else the usual ones, as the model knows
    them.
    """
    listed = () if settings.language is not None else settings.languages or usual.languages
    return replace(settings, languages=tuple(code for code in listed if code in model.languages))


def _can_write(model: ModelInfo, language: str | None, task: Task | None) -> bool:
    """True if the model knows the language (None = any) and the task."""
    return (language is None or language in model.languages) and (task != "translate" or model.translates)


def fill_changes(changes: Mapping[str, Any], usual: DecodeOptions, languages: Sequence[str]) -> dict[str, Any]:
    """Complete the changes of a running session in the same way; `languages` are those of its model."""
    filled = dict(changes)
    if "language" in filled and filled["language"] is None and usual.language in languages:
        filled["language"] = usual.language
    elif filled.get("language") == DETECT:
        filled["language"] = None
    if filled.get("prompt") == "":
        filled["prompt"] = usual.prompt
    if filled.get("keyterms") in ([], ()):
        filled["keyterms"] = usual.keyterms
    if filled.get("languages"):
        filled.setdefault("language", None)  # whoever lists several wants it detected
    elif "language" in filled or "languages" in filled:
        is_open = filled.get("language") is None
        filled["languages"] = tuple(code for code in usual.languages if is_open and code in languages)
    return filled


def check_usual(models: Sequence[ModelInfo], usual: DecodeOptions) -> None:
    """Raises `OptionError` if no model can do what is to be the default."""
    check_prompt(usual.prompt)
    if not any(_can_write(model, usual.language, usual.task) for model in models):
        knows = f"knows the language {usual.language!r}" if usual.language else ""
        translates = "translates into English" if usual.task == "translate" else ""
        raise OptionError(
            f"expected a model that {' and '.join(filter(None, (knows, translates)))}; none of "
            f"{', '.join(model.name for model in models)} does. Serve a multilingual one, such as 'base', and for "
            "Cantonese 'large-v3'"
        )
