"""The translator that an address or a folder names. Imports what it needs only then."""

import os
from pathlib import Path

from whispertide.errors import OptionError
from whispertide.translation.translator import KEY_VARIABLE, Translator


def open_translator(where: str, model: str = "") -> Translator:
    """Open an OpenAI-compatible endpoint (`http://localhost:11434/v1`) with the `model` of that name, or a folder of
    CTranslate2. The endpoint's key is in the environment, as `WHISPERTIDE_TRANSLATOR_KEY`. Asks for nothing yet.

    Raises `OptionError` for what is neither, and where a package is missing.
    """
    if "://" in where:
        from whispertide.translation.endpoint import Endpoint, EndpointTranslator

        return EndpointTranslator(Endpoint(where, model, os.environ.get(KEY_VARIABLE, "").strip()))
    if model:
        raise OptionError(f"expected --translator-model for an endpoint; {where!r} is a folder, which is the model")
    from whispertide.translation.folder import FolderTranslator

    return FolderTranslator(Path(where))
