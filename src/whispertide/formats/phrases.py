"""Places to cut a text of a script without spaces: between phrases, else between words.

By BudouX (Google, 2021): a score for each place, learned from corpora that people have segmented. It knows Japanese,
Chinese and Thai. For Lao, Khmer and Burmese there is no model: their texts are cut between any two syllables.
"""

import json
import re
from functools import cache
from itertools import accumulate
from pathlib import Path

import budoux

MODELS = Path(budoux.__file__).parent / "models"  # as JSON; the page fetches them, too

_THAI = re.compile("[\u0e00-\u0e7f]")
_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u3400-\u9fff\U00020000-\U0003fffd]")
# Of each language the models, phrases first: in Japanese a phrase has several words, which may be too many for a line.
_MODELS = {"ja": ("ja", "ja_word"), "zh": ("zh-hans",), "yue": ("zh-hant",), "th": ("th",)}


def starts(text: str, language: str | None = None) -> tuple[frozenset[int], ...]:
    """The offsets at which phrases of `text` begin, and then those at which words do, if these are known apart.

    `language`, a code, decides where the script does not. Empty for scripts that are written with spaces, and for those
    of which nothing is known.
    """
    models = _MODELS.get(_language_of(text, language), ())
    return tuple(frozenset(accumulate(map(len, _parser(name).parse(text)))) - {len(text)} for name in models)


def _language_of(text: str, language: str | None) -> str:
    if _THAI.search(text):
        return "th"
    if _KANA.search(text):
        return "ja"
    if _HAN.search(text):
        return language if language in ("ja", "yue") else "zh"
    return ""


@cache
def _parser(name: str) -> budoux.Parser:
    return budoux.Parser(json.loads((MODELS / f"{name}.json").read_text(encoding="utf-8")))
