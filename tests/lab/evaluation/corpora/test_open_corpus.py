import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from corpus_layouts import librispeech
from whispertide.errors import CorpusError, OptionError
from whispertide_lab.evaluation.corpora import MADE, READ, check_corpus, open_corpus


@pytest.mark.parametrize("spec", ["", "talk", "speech:/tmp", "LIBRISPEECH"])
def test_unknown_names_are_refused_with_the_known_ones(spec: str) -> None:
    with pytest.raises(OptionError, match=r"talks.*librispeech:PATH"):
        open_corpus(spec)


@pytest.mark.parametrize("kind", READ)
def test_readers_want_a_folder(kind: str, tmp_path: Path) -> None:
    for spec in (kind, f"{kind}:"):
        with pytest.raises(OptionError, match=f"'{kind}:PATH'"):
            open_corpus(spec)
    for gone in (str(tmp_path / "gone"), "~no-such-user/gone"):
        with pytest.raises(CorpusError, match="does not exist"):
            open_corpus(f"{kind}:{gone}")
    (tmp_path / "file").write_text("")
    # a manifest may be named itself
    with pytest.raises(CorpusError, match="lists none" if kind == "manifest" else "is a file"):
        open_corpus(f"{kind}:{tmp_path / 'file'}")
    with pytest.raises(CorpusError, match="expected"):
        open_corpus(f"{kind}:{tmp_path}")


@pytest.mark.parametrize("kind", MADE)
def test_what_is_made_has_no_folder(kind: str) -> None:
    with pytest.raises(OptionError, match="noisy:10" if kind == "noisy" else "is made"):
        open_corpus(f"{kind}:/tmp")


@pytest.mark.parametrize("ratio", ["", "61", "-21", "10.5"])
def test_ratios_that_are_none(ratio: str) -> None:
    with pytest.raises(OptionError, match=r"whole dB, -20 to 60"):
        check_corpus(f"noisy:{ratio}")


@pytest.mark.parametrize("kind", ["talks", "rooms", "noisy", "noisy:10"])
def test_a_missing_synthesizer_is_said(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("whispertide_lab.speech.espeak.find_library", lambda name: "libnot-there.so.9")
    for checked in (check_corpus, open_corpus):
        with pytest.raises(CorpusError, match=r"libnot-there.*pip install \./lab"):
            checked(kind)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("kind", "whole"), [("talks", 32), ("nonspeech", 60)])
def test_no_more_is_made_than_an_excerpt_needs(
    kind: str, whole: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def noted(name: str, version: str, folder: Path, recordings: Mapping[str, object]) -> None:
        asked.append(tuple(recordings))

    module = "speech.talks" if kind == "talks" else "evaluation.corpora.nonspeech"
    monkeypatch.setattr(f"whispertide_lab.{module}.cached_corpus", noted)
    for length_s in (120, 440, None, math.inf):
        open_corpus(kind, length_s=length_s)
    assert [len(names) for names in asked] == [8, 18, whole, whole]
    assert len(set(asked)) == 3 if kind == "talks" else 2


def test_a_check_makes_and_reads_nothing(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="librispeech:PATH"):
        check_corpus("talk")
    for gone in (str(tmp_path / "gone.jsonl"), "~no-such-user/gone.jsonl"):
        with pytest.raises(CorpusError, match=r"gone\.jsonl; it does not exist"):
            check_corpus(f"manifest:{gone}")
    (tmp_path / "broken.jsonl").write_text("no manifest")
    check_corpus(f"manifest:{tmp_path / 'broken.jsonl'}")
    check_corpus("nonspeech")


def test_a_path_with_a_colon(tmp_path: Path) -> None:
    folder = librispeech(tmp_path / "a:b")
    assert len(list(open_corpus(f"librispeech:{folder}").utterances())) == 2


@pytest.mark.slow
def test_nonspeech_needs_no_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    corpus = open_corpus("nonspeech", quick=True)
    assert len(corpus.hash) == 12
    assert corpus.name == "nonspeech-seed0-quick"
