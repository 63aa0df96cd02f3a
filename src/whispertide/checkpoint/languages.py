"""The languages that Whisper has tokens for, with their names.

The order is Whisper's (openai/whisper, tokenizer.py); which of them a checkpoint knows is read from its tokenizer.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from whispertide.errors import OptionError, UnknownLanguageError
from whispertide.options import Task

# Code and English name, in token order; large-v3 added Cantonese.
_TABLE = """
en english, zh chinese, de german, es spanish, ru russian, ko korean, fr french, ja japanese, pt portuguese, tr turkish,
pl polish, ca catalan, nl dutch, ar arabic, sv swedish, it italian, id indonesian, hi hindi, fi finnish, vi vietnamese,
he hebrew, uk ukrainian, el greek, ms malay, cs czech, ro romanian, da danish, hu hungarian, ta tamil, no norwegian,
th thai, ur urdu, hr croatian, bg bulgarian, lt lithuanian, la latin, mi maori, ml malayalam, cy welsh, sk slovak,
te telugu, fa persian, lv latvian, bn bengali, sr serbian, az azerbaijani, sl slovenian, kn kannada, et estonian,
mk macedonian, br breton, eu basque, is icelandic, hy armenian, ne nepali, mn mongolian, bs bosnian, kk kazakh,
sq albanian, sw swahili, gl galician, mr marathi, pa punjabi, si sinhala, km khmer, sn shona, yo yoruba, so somali,
af afrikaans, oc occitan, ka georgian, be belarusian, tg tajik, sd sindhi, gu gujarati, am amharic, yi yiddish, lo lao,
uz uzbek, fo faroese, ht haitian creole, ps pashto, tk turkmen, nn nynorsk, mt maltese, sa sanskrit, lb luxembourgish,
my myanmar, bo tibetan, tl tagalog, mg malagasy, as assamese, tt tatar, haw hawaiian, ln lingala, ha hausa, ba bashkir,
jw javanese, su sundanese, yue cantonese
"""
_OTHER_NAMES = """
my burmese, ca valencian, nl flemish, ht haitian, lb letzeburgesch, ps pushto, pa panjabi, ro moldavian, ro moldovan,
si sinhalese, es castilian, zh mandarin
"""


def _split_entries(table: str) -> list[tuple[str, str]]:
    """Split each entry into code and name."""
    entries = (entry.strip().partition(" ") for entry in table.replace("\n", " ").split(","))
    return [(code, name) for code, _, name in entries]


LANGUAGES: dict[str, str] = dict(_split_entries(_TABLE))
_CODES = {name: code for code, name in _split_entries(_TABLE + "," + _OTHER_NAMES)}

# Scripts written without spaces: a word is there whatever decodes on its own (openai/whisper, split_to_word_tokens).
DETECT = "auto"  # a language that is left open on purpose

UNSPACED_LANGUAGES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


def language_code(language: str) -> str:
    """Find the code of a language by code, tag or English name, in any case: "German", "de-AT" and "de_DE" -> "de".

    Raises `UnknownLanguageError`, with the nearest known names or else all of them, when Whisper has no such language.
    """
    wanted = language.strip().lower()
    code = primary(wanted)  # of a tag Whisper knows the language alone
    if code in LANGUAGES:
        return code
    if wanted in _CODES:
        return _CODES[wanted]
    near = get_close_matches(wanted, [*LANGUAGES, *_CODES], n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(sorted(LANGUAGES.values()))}"
    raise UnknownLanguageError(
        f"expected the code or English name of a language that Whisper knows, such as 'en' or 'german'; "
        f"got {language!r}; {hint}"
    )


def written_language(language: str | None, task: Task) -> str | None:
    """The language of a text: the one spoken, or English, into which Whisper translates."""
    return "en" if task == "translate" else language


def apart(text: str, language: str | None) -> str:
    """The beginning of a text in a language, with the space that parts it from the one before.

    Whisper writes it; checkpoints that were fine-tuned on texts without it do not.
    """
    return " " + text if text[:1].isalnum() and language not in UNSPACED_LANGUAGES else text


def primary(tag: str) -> str:
    """The language that a tag begins with, in small letters: "en-US" and "en_US" -> "en"."""
    return tag.lower().replace("_", "-").partition("-")[0]


def language_choice(language: str | None) -> str | None:
    """The same for an optional language: None or `DETECT` -> None, which means to detect it."""
    if language is None or language.strip().lower() == DETECT:
        return None
    return language_code(language)


def allowed_languages(languages: Iterable[str], language: str | None = None) -> tuple[tuple[str, ...], str | None]:
    """The codes of the `languages` that may be detected, each once, and of the `language` that is chosen: a list of one
    chooses it.

    Raises `UnknownLanguageError`, and `OptionError` for a chosen one that is not in the list.
    """
    allowed = tuple(dict.fromkeys(map(language_code, languages)))
    chosen = language_choice(language)
    if chosen is not None and allowed and chosen not in allowed:
        raise OptionError(f"expected a language among {', '.join(allowed)}, the only ones allowed; got {chosen}")
    return allowed, allowed[0] if len(allowed) == 1 else chosen
