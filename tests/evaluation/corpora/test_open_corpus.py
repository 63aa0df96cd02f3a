from pathlib import Path

import pytest

from evaluation.corpora.layouts import librispeech
from whispertide.errors import CorpusError, OptionError
from whispertide.evaluation.corpora import MADE, READ, open_corpus


@pytest.mark.parametrize("spec", ["", "talk", "speech:/tmp", "LIBRISPEECH"])
def test_unknown_names_are_refused_with_the_known_ones(spec: str) -> None:
    with pytest.raises(OptionError, match=r"talks.*librispeech:PATH"):
        open_corpus(spec)


@pytest.mark.parametrize("kind", READ)
def test_readers_want_a_folder(kind: str, tmp_path: Path) -> None:
    for spec in (kind, f"{kind}:"):
        with pytest.raises(OptionError, match=f"'{kind}:PATH'"):
            open_corpus(spec)
    with pytest.raises(CorpusError, match="does not exist"):
        open_corpus(f"{kind}:{tmp_path / 'gone'}")
    (tmp_path / "file").write_text("")
    # a manifest may be named itself
    with pytest.raises(CorpusError, match="lists none" if kind == "manifest" else "is a file"):
        open_corpus(f"{kind}:{tmp_path / 'file'}")
    with pytest.raises(CorpusError, match="expected"):
        open_corpus(f"{kind}:{tmp_path}")


@pytest.mark.parametrize("kind", MADE)
def test_what_is_made_has_no_folder(kind: str) -> None:
    with pytest.raises(OptionError, match="is made"):
        open_corpus(f"{kind}:/tmp")


@pytest.mark.parametrize("kind", ["talks", "noisy"])
def test_missing_synthesizers_are_said(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr("whispertide.evaluation.corpora.espeak.find_library", lambda name: "libnot-there.so.9")
    with pytest.raises(CorpusError, match="apt-get install espeak-ng flite"):
        open_corpus(kind, quick=True)
    assert not list(tmp_path.iterdir())


def test_a_path_with_a_colon(tmp_path: Path) -> None:
    folder = librispeech(tmp_path / "a:b")
    assert len(list(open_corpus(f"librispeech:{folder}").utterances())) == 2


def test_nonspeech_needs_no_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    corpus = open_corpus("nonspeech", quick=True)
    assert len(corpus.hash) == 12
    assert corpus.name == "nonspeech-seed0-quick"
