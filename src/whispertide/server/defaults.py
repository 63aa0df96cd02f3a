"""Defaults for the settings that a client leaves open: the model, the language, the task, the prompt.

The server's options may set them. They are no demand: a model that cannot follow them does without.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from whispertide.checkpoint.languages import DETECT, language_choice, language_code
from whispertide.errors import OptionError
from whispertide.options import DecodeOptions, Task
from whispertide.server.bounds import check_prompt
from whispertide.server.protocols.base import Settings
from whispertide.server.protocols.server_info import ModelInfo


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
        speakers=usual.speakers if settings.speakers is None else settings.speakers,
    )
    wanted = replace(
        asked,
        language=usual.language if settings.language is None and not asked.languages else asked.language,
        task=settings.task or usual.task,
    )
    listed = asked.languages or usual.languages
    # Rather one that knows all languages of the list.
    for codes, filled in product((listed, ()), (wanted, asked)):
        for model in found:
            if _can_write(model, filled.language, filled.task) and set(codes) <= set(model.languages):
                return model, replace(filled, languages=_known(listed, filled.language, model.languages))
    return found[0], replace(asked, languages=_known(listed, asked.language, found[0].languages))


def _known(listed: Sequence[str], language: str | None, known: Sequence[str]) -> tuple[str, ...]:
    """Those of the listed languages that a model knows; none of them count where one language is chosen."""
    return tuple(code for code in listed if language is None and code in known)


def _can_write(model: ModelInfo, language: str | None, task: Task | None) -> bool:
    """True if the model knows the language (None = any) and the task."""
    return (language is None or language in model.languages) and (task != "translate" or model.translates)


def fill_changes(changes: Mapping[str, Any], usual: DecodeOptions, languages: Sequence[str]) -> dict[str, Any]:
    """Complete the changes of a running session in the same way; `languages` are those of its model."""
    filled = dict(changes)
    if filled.get("prompt") == "":
        filled["prompt"] = usual.prompt
    if filled.get("keyterms") in ([], ()):
        filled["keyterms"] = usual.keyterms
    if filled.get("languages") and filled.get("language") in (None, DETECT):
        filled["language"] = None  # whoever lists several wants one of them detected
        return filled
    if "language" in filled and filled["language"] is None and usual.language in languages:
        filled["language"] = usual.language
    elif filled.get("language") == DETECT:
        filled["language"] = None
    if "language" in filled or "languages" in filled:
        filled["languages"] = _known(usual.languages, filled.get("language"), languages)
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
