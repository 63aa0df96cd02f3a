"""What recognisers are measured on: made here, or read from folders that users have. One interface.

`open_corpus("talks")`, `open_corpus("people-accents")` and `open_corpus("librispeech:PATH")` give a `Corpus`
(`evaluation.trace`): a name, a hash, and utterances with their reference. Does not know recognisers or scores.
"""

import os
from collections.abc import Callable
from importlib import import_module

from whispertide.errors import CorpusError, OptionError
from whispertide_lab.evaluation.corpora.parts import PIECES, beginnings_for
from whispertide_lab.evaluation.corpora.people import NAMES, check_people, is_people, open_people, place_of_people
from whispertide_lab.speech.utterance import Corpus

SPOKEN = ("talks", "rooms", "noisy")  # made with speech synthesizers
MADE = (*SPOKEN, "nonspeech")
RATIOS_DB = (-20, 60)  # of speech to noise that may be asked for
PUBLISHED = ("librispeech", "tedlium", "meanwhile", "timit", "fleurs")
READ = ("manifest", *PUBLISHED, "commands")


def open_corpus(
    spec: str, *, quick: bool = False, seed: int = 0, length_s: float | None = None, pieces: int = PIECES
) -> Corpus:
    """The corpus that `spec` names: one of `MADE`, or one of `READ` with the path of its folder: "timit:PATH"
    ("manifest:PATH" also takes a manifest as for training, "commands:PATH" is of `whispertide train commands`).
    "noisy:10" is at a ratio of 10 dB of speech to noise. People's voices are "people", a part of them
    ("people-accents"), or half of their speakers ("people-accents/report"), with a colon and the folder if it is not
    the usual one.

    What is made is made on first use, with a progress bar, and kept in the cache directory. `quick` gives some
    minutes of it; the seed chooses which talks and sounds are made and which part of a folder a quick run reads.
    `length_s` is how much of it an excerpt will take, in so many `pieces`: no more is made than that needs.

    Raises `OptionError` for a name that is not known or a path that is missing or one too many, `CorpusError` where a
    tool or a folder is missing or not as expected, `AudioFileError` for a file that is no audio.
    """
    kind, path = _parsed(spec)
    if is_people(kind):
        return open_people(kind, path, quick=quick, seed=seed)
    if kind in READ:
        return _opener(kind)(path, quick=quick, seed=seed)
    beginnings = None if length_s is None or quick else beginnings_for(length_s, pieces)
    return _opener(kind)(*filter(None, [path]), quick=quick, seed=seed, beginnings=beginnings)


def check_corpus(spec: str) -> None:
    """Raise now what `open_corpus` would raise for want of a name, a path or a tool; makes and reads nothing."""
    kind, path = _parsed(spec)
    if kind in SPOKEN:
        from whispertide_lab.speech.espeak import espeak_version

        espeak_version()
    if is_people(kind):
        path = str(place_of_people(path))
    if (kind in READ or is_people(kind)) and not os.path.exists(os.path.expanduser(path)):
        raise CorpusError(f"expected the files of the corpus {kind} at {path}; it does not exist: check the path")


def _parsed(spec: str) -> tuple[str, str]:
    """The kind of a corpus, and its path; none for one that is made. Raises `OptionError`."""
    kind, colon, path = spec.partition(":")
    if kind == "noisy":
        _check_ratio(path, colon)
    elif kind in MADE and colon:
        raise OptionError(f"expected {kind!r} alone; got {spec!r}: this corpus is made, not read from a folder")
    if kind in READ and not path:
        raise OptionError(f"expected the folder of this corpus: '{kind}:PATH'; got {spec!r}")
    if is_people(kind):
        check_people(kind)
    elif kind not in (*MADE, *READ):
        known = ", ".join((*MADE, *NAMES, *(f"{name}:PATH" for name in READ)))
        raise OptionError(f"expected a corpus, one of {known}; got {spec!r}")
    return kind, path


def _check_ratio(text: str, colon: str) -> None:
    """Raise `OptionError` unless it is a ratio that may be asked for, or nothing is asked for."""
    least, most = RATIOS_DB
    try:
        fits = not colon or least <= int(text) <= most
    except ValueError:
        fits = False
    if not fits:
        raise OptionError(
            f"expected a ratio of speech to noise in whole dB, {least} to {most}, such as noisy:10, or noisy alone "
            f"(5 to 20 dB); got {text!r}"
        )


def _opener(kind: str) -> Callable[..., Corpus]:
    modules = {
        "talks": "speech.talks",
        "commands": "training.command_corpus",
        **dict.fromkeys(("rooms", "noisy"), "evaluation.corpora.degraded"),
        **dict.fromkeys(PUBLISHED, "evaluation.corpora.published"),
    }
    module = modules.get(kind, f"evaluation.corpora.{kind}")
    found: Callable[..., Corpus] = getattr(import_module(f"whispertide_lab.{module}"), f"open_{kind}")
    return found


__all__ = ["MADE", "NAMES", "READ", "Corpus", "CorpusError", "check_corpus", "open_corpus"]
