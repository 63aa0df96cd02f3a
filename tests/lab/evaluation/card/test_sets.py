import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus_layouts import sound, write_flac
from whispertide.errors import CorpusError
from whispertide_lab.evaluation.card import sets
from whispertide_lab.evaluation.card.sets import (
    EXCERPT_S,
    MODES,
    PADDED_TIMES,
    nonspeech_parts,
    real_parts,
    synthetic_parts,
    total_decodes,
    trained_words,
)
from whispertide_lab.evaluation.corpora.listed import ListedCorpus, Recording, plain_words
from whispertide_lab.speech.voices import HELD_OUT, TRAINED, Voice


def spoken(texts: tuple[str, ...]) -> ListedCorpus:
    return ListedCorpus("listed", tuple(Recording(text, (), plain_words(text), seconds=2.0) for text in texts))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[Voice, ...], int]]:
    """What sentences were asked for; none are spoken."""
    asked: list[tuple[str, tuple[Voice, ...], int]] = []

    def open_sentences(source: str, voices: tuple[Voice, ...], count: int, *, seed: int) -> ListedCorpus:
        asked.append((source, voices, count))
        return spoken(("The big tree.", "A tall tree."))

    monkeypatch.setattr(sets, "open_sentences", open_sentences)
    monkeypatch.setattr(sets, "has_wordnet", lambda: True)
    return asked


def test_trained_and_held_out_voices_never_meet(made: list[tuple[str, tuple[Voice, ...], int]]) -> None:
    parts = synthetic_parts(None, quick=False, seed=0)
    assert [part.name for part in parts] == [
        "trained voices, grammar",
        "held-out voices, grammar",
        "trained voices, WordNet",
        "held-out voices, WordNet",
    ]
    assert [voices for _, voices, _ in made] == [TRAINED, HELD_OUT] * 2
    assert total_decodes(parts) == 4 * 2 * len(MODES)


@pytest.mark.usefixtures("made")
def test_known_words_are_apart_where_they_are_known(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("the\nbig\nTree\n")
    known = trained_words(tmp_path / "words.txt")
    parts = {part.name: part for part in synthetic_parts(known, quick=True, seed=0)}
    assert len(parts) == 8
    found = {
        kind: [one.id for one in parts[f"trained voices, grammar, {kind}"].utterances]
        for kind in ("known words", "with unknown words")
    }
    assert found == {"known words": ["The big tree."], "with unknown words": ["A tall tree."]}
    assert trained_words(tmp_path / "missing.txt") is None


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Two folders of speech, two files that belong together, a foreign one, a long one, and one without speech."""
    entries: list[dict[str, Any]] = []

    def add(file: str, transcript: str = "The sea.", seconds: float = 1.0, **more: Any) -> None:
        write_flac(tmp_path / file, sound(round(16000 * seconds)))
        fields = {"file": file, "seconds": seconds, "transcript": transcript, "ref_quality": "human", "language": "en"}
        entries.append(fields | more)

    add("read/a.flac")
    add("read/b.flac", "The land.")
    add("read/c.flac", "The air.")
    add("notes/long.flac", seconds=31.0)
    add("notes/short.flac")
    add("other/foreign.flac", language="de")
    add("noise/rain.flac", "", ref_quality="none", language="none")
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, entries)))
    (tmp_path / "longform_groups.jsonl").write_text(json.dumps({"group": "g", "files": ["read/a.flac", "read/b.flac"]}))
    return tmp_path


def test_real_recordings_go_by_folder_one_file_at_a_time(recordings: Path) -> None:
    parts = {part.name: part for part in real_parts(recordings, {"en"}, quick=False, seed=0)}
    assert set(parts) == {"real, read", "real, notes", "real, notes, over 30 s", "real, noise"}
    read = {one.id: " ".join(word.text for word in one.words) for one in parts["real, read"].utterances}
    assert read == {"read/a.flac": "The sea.", "read/b.flac": "The land.", "read/c.flac": "The air."}
    assert parts["real, notes, over 30 s"].modes == (PADDED_TIMES,)
    assert parts["real, noise"].kind == "nonspeech"
    assert {part.kind for name, part in parts.items() if name != "real, noise"} == {"real"}
    assert len(parts["real, read"].utterances[1].audio()) == 16000


def test_a_manifest_as_for_training_is_one_set(tmp_path: Path) -> None:
    """The recordings may be anywhere; stretches of one file are utterances of their own."""
    write_flac(tmp_path / "far" / "talk.flac", sound(48000))
    write_flac(tmp_path / "far" / "long.flac", sound(16000 * 31))
    entries = [
        {"audio": "../far/talk.flac", "text": "The sea.", "start": 1.0, "end": 2.5},
        {"audio": "../far/talk.flac", "text": "The land.", "start": 2.5},
        {"audio": str(tmp_path / "far" / "long.flac"), "text": "The air."},
        {"audio": "../far/talk.flac", "text": "Das Meer.", "language": "German"},
    ]
    (tmp_path / "near").mkdir()
    path = tmp_path / "near" / "test.jsonl"
    path.write_text("\n".join(map(json.dumps, entries)))
    short, long = real_parts(path, {"en"}, quick=False, seed=0)
    assert (short.name, long.name) == ("real, test", "real, test, over 30 s")
    assert [one.seconds for one in short.utterances] == [1.5, 0.5]
    assert [len(one.audio()) for one in short.utterances] == [24000, 8000]
    assert len({one.id for one in short.utterances}) == 2
    with pytest.raises(CorpusError, match="language that this model can write"):
        real_parts(path, {"fr"}, quick=False, seed=0)


@pytest.mark.slow
def test_windows_and_excerpts_without_speech(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    windows, excerpts = nonspeech_parts(quick=True, seed=0)
    assert sum(one.seconds for one in windows.utterances) == 120
    assert all(one.seconds <= 30 and not one.words for one in windows.utterances)
    assert {one.seconds for one in excerpts.utterances} == {EXCERPT_S}
    assert excerpts.modes == MODES
    for part in (windows, excerpts):
        assert len({one.id for one in part.utterances}) == len(part.utterances)
        assert {one.group for one in part.utterances} == {one.id.partition("@")[0] for one in part.utterances}
    whole, first = windows.utterances[1].audio(), excerpts.utterances[1].audio()
    np.testing.assert_array_equal(first, whole[: len(first)])
    assert len(first) == 16000 * EXCERPT_S
