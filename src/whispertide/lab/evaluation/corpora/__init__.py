"""What recognisers are measured on: made here, or read from folders that users have. One interface.

`open_corpus("talks")` and `open_corpus("librispeech:PATH")` give a `Corpus` (`evaluation.trace`): a name, a hash, and
utterances with their reference. Does not know recognisers or scores.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from whispertide.errors import CorpusError, OptionError
from whispertide.lab.speech.utterance import Corpus

SPOKEN = ("talks", "noisy")  # made with speech synthesizers
MADE = (*SPOKEN, "nonspeech")
READ = ("manifest", "librispeech", "tedlium", "meanwhile", "timit", "fleurs")


class _Reader(Protocol):
    def __call__(self, path: str, *, quick: bool, seed: int) -> Corpus: ...


def open_corpus(spec: str, *, quick: bool = False, seed: int = 0) -> Corpus:
    """The corpus that `spec` names: one of `MADE`, or one of `READ` with the path of its folder: "timit:PATH"
    ("manifest:PATH" also takes a manifest as for training).

    What is made is made on first use, with a progress bar, and kept in the cache directory. `quick` gives some
    minutes of it; the seed chooses which talks and sounds are made and which part of a folder a quick run reads.

    Raises `OptionError` for a name that is not known or a path that is missing or one too many, `CorpusError` where a
    tool or a folder is missing or not as expected, `AudioFileError` for a file that is no audio.
    """
    kind, path = _parsed(spec)
    if kind in MADE:
        return _maker(kind)(quick=quick, seed=seed)
    return _reader(kind)(path, quick=quick, seed=seed)


def check_corpus(spec: str) -> None:
    """Raise now what `open_corpus` would raise for want of a name, a path or a tool; makes and reads nothing."""
    kind, path = _parsed(spec)
    if kind in SPOKEN:
        from whispertide.lab.speech.talks import check_synthesizers

        check_synthesizers()
    if kind in READ and not Path(path).expanduser().exists():
        raise CorpusError(f"expected the files of the corpus {kind} at {path}; it does not exist: check the path")


def _parsed(spec: str) -> tuple[str, str]:
    """The kind of a corpus, and its path; none for one that is made. Raises `OptionError`."""
    kind, colon, path = spec.partition(":")
    if kind in MADE and colon:
        raise OptionError(f"expected {kind!r} alone; got {spec!r}: this corpus is made, not read from a folder")
    if kind in READ and not path:
        raise OptionError(f"expected the folder of this corpus: '{kind}:PATH'; got {spec!r}")
    if kind not in (*MADE, *READ):
        known = ", ".join((*MADE, *(f"{name}:PATH" for name in READ)))
        raise OptionError(f"expected a corpus, one of {known}; got {spec!r}")
    return kind, path


def _maker(kind: str) -> Callable[..., Corpus]:
    if kind == "talks":
        from whispertide.lab.speech.talks import open_talks

        return open_talks
    if kind == "noisy":
        from whispertide.lab.evaluation.corpora.noisy import open_noisy

        return open_noisy
    from whispertide.lab.evaluation.corpora.nonspeech import open_nonspeech

    return open_nonspeech


def _reader(kind: str) -> _Reader:
    from whispertide.lab.evaluation.corpora import manifest, published

    found: _Reader = manifest.open_manifest if kind == "manifest" else getattr(published, f"open_{kind}")
    return found


__all__ = ["MADE", "READ", "Corpus", "CorpusError", "check_corpus", "open_corpus"]
