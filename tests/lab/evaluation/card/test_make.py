"""A whole card of the bundled model on next to nothing."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from reference import NANO
from whispertide.audio.file import load_audio
from whispertide.options import EngineOptions
from whispertide_lab.evaluation.card import make as cards
from whispertide_lab.evaluation.card.make import TRAINING, WORDS, CardOptions, make_card, write_card
from whispertide_lab.evaluation.card.results import read_card
from whispertide_lab.evaluation.card.sets import PADDED, UNPADDED, Part
from whispertide_lab.speech.utterance import RefWord, Utterance

CLIP = Path(__file__).parents[3] / "clips" / "quiet.flac"
OPTIONS = CardOptions(engine=EngineOptions(precision="fp32", threads=1))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One clip to measure on; returns the lists of known words that were asked for."""
    asked: list[object] = []
    words = tuple(map(RefWord, CLIP.with_suffix(".txt").read_text().split()))

    def synthetic_parts(words_known: object, *, quick: bool, seed: int) -> list[Part]:
        asked.append(words_known)
        samples = load_audio(CLIP)
        clip = Utterance("clip", words, len(samples) / 16000, lambda: samples)
        return [Part("clip", "synthetic", "clips", "hash", (clip,), (PADDED, UNPADDED))]

    monkeypatch.setattr(cards, "synthetic_parts", synthetic_parts)
    monkeypatch.setattr(cards, "nonspeech_parts", lambda **_: [])
    return asked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The bundled model, which says how it was trained."""
    copy = tmp_path / "model"
    copy.mkdir()
    for path in NANO.iterdir():
        if path.name not in (TRAINING, WORDS):
            (copy / path.name).symlink_to(path)
    (copy / TRAINING).write_text(json.dumps({"licence": "Apache-2.0", "hours": 10}))
    (copy / WORDS).write_text("summer\n")
    return copy


def test_what_the_checkpoint_says_and_what_was_measured(folder: Path, known: list[object], tmp_path: Path) -> None:
    moves: list[tuple[int, int]] = []
    card = make_card(str(folder), OPTIONS, advance=lambda _, done, total: moves.append((done, total)))
    assert known == [frozenset({"summer"})]
    assert moves == [(2, 2)]
    assert card.training == {"licence": "Apache-2.0", "hours": 10}
    assert card.model["parameters"] > 1e6
    assert card.about["command"] == f"whispertide train card {folder} --output FILE.md --precision fp32 --threads 1"
    assert [result.mode for result in card.results] == ["padded", "unpadded"]
    assert card.results[0].total.reference == 9
    figures = write_card(card, tmp_path / "out" / "card.md", card)
    assert read_card(figures) == card
    page = (tmp_path / "out" / "card.md").read_text()
    assert "Apache-2.0" in page
    assert "Better on: nothing." in page  # than itself


def test_a_users_own_recordings(folder: Path, known: list[object], tmp_path: Path) -> None:
    """Listed as for training."""
    manifest = tmp_path / "mine.jsonl"
    manifest.write_text(
        json.dumps({"audio": str(CLIP), "text": CLIP.with_suffix(".txt").read_text(), "speaker": "ann"})
    )
    card = make_card(str(folder), replace(OPTIONS, manifest=manifest))
    found = {(result.part, result.mode): result for result in card.results}
    padded = found["real, mine", "padded"]
    assert padded.total.reference == len(CLIP.with_suffix(".txt").read_text().split())
    assert padded.total.errors == found["clip", "padded"].total.errors


def test_a_card_names_the_command_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything that decides what comes out."""
    for name in ("synthetic_parts", "nonspeech_parts", "real_parts"):
        monkeypatch.setattr(cards, name, lambda *_, **__: [])
    monkeypatch.chdir(NANO.parent)
    engine = EngineOptions(precision="fp32", provider="cpu")
    options = CardOptions(Path("my own.jsonl"), True, 3, engine, Path("out/card.md"), "older")
    assert make_card("./nano.en", options).about["command"] == (
        "whispertide train card ./nano.en --output out/card.md --against older --manifest 'my own.jsonl' --seed 3 "
        "--precision fp32 --provider cpu --quick"
    )
    assert make_card("nano.en", CardOptions()).about["command"] == "whispertide train card nano.en --output FILE.md"


def test_two_checkpoints_share_the_split_of_one(folder: Path, known: list[object]) -> None:
    plain = folder.with_name("plain")
    shutil.copytree(folder, plain, symlinks=True)
    (plain / WORDS).unlink()
    make_card(str(plain), OPTIONS)
    make_card(str(plain), OPTIONS, words_of=str(folder))
    assert known == [None, frozenset({"summer"})]
