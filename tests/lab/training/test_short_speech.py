"""Recordings to learn short windows from: files, folders, manifests; speakers apart; what is missing is said."""

import json
from pathlib import Path

import numpy as np
import pytest

from small_training import tone, write_speech
from wav_file import save_wav
from whispertide.audio.buffer import to_float
from whispertide.errors import CorpusError
from whispertide_lab.training.short_speech import apart, gather

SECOND = 16_000


def unheard(*_: object) -> None:
    """Progress."""


def recorded(path: Path, seconds: float, hertz: float = 300.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return save_wav(path, to_float(tone(int(seconds * SECOND), hertz)))


def test_files_and_folders_become_shards(tmp_path: Path) -> None:
    one, folder = recorded(tmp_path / "one.wav", 50.0), tmp_path / "more"
    recorded(folder / "deep" / "two.wav", 12.0)
    (folder / "notes.txt").write_text("no sound")
    speech = gather([one, folder], tmp_path / "shards", 1000.0, 0, unheard)
    assert speech.seconds == pytest.approx(62.0)
    assert sorted(round(place.seconds) for place in speech.places) == [10, 12, 20, 20], "long ones are cut"
    assert {place.entry["source"] for place in speech.places} == {str(one), str(folder / "deep" / "two.wav")}
    again = gather([one, folder], tmp_path / "shards", 1000.0, 0, unheard)
    assert again.digest() == speech.digest()


def test_a_manifest_names_speakers_and_languages_and_needs_no_texts(tmp_path: Path) -> None:
    recorded(tmp_path / "long.wav", 70.0)
    recorded(tmp_path / "short.wav", 9.0)
    rows = [
        {"file": "long.wav", "speaker": "ann", "language": "de", "start": 5.0, "end": 68.0},
        {"file": "short.wav", "speaker": "bob"},
    ]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, rows)))
    speech = gather([tmp_path], tmp_path / "shards", 1000.0, 0, unheard)
    by_speaker = speech.by_speaker()
    assert {name: round(said.seconds, 2) for name, said in by_speaker.items()} == {"ann": 63.0, "bob": 9.0}
    assert by_speaker["ann"][0].language == "de"
    assert by_speaker["bob"][0].language is None


def test_sentences_that_are_reserved_for_tests_are_left_out(tmp_path: Path) -> None:
    from whispertide_lab.speech.text import reserved_sentences

    recorded(tmp_path / "a.wav", 70.0)
    recorded(tmp_path / "b.wav", 3.0)
    rows = [{"file": "a.wav", "text": "Yes."}, {"file": "b.wav", "text": next(reserved_sentences(0, 0))}]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert gather([tmp_path], tmp_path / "shards", 1000.0, 0, unheard).seconds == pytest.approx(70.0)


def test_speakers_take_turns_until_there_is_enough(tmp_path: Path) -> None:
    for number in range(12):
        recorded(tmp_path / f"talker{number}.wav", 10.0)
    recorded(tmp_path / "other.wav", 10.0)
    names = [f"talker{number}" for number in range(12)]
    rows = [{"file": f"{name}.wav", "speaker": "talker"} for name in names] + [
        {"file": "other.wav", "speaker": "other"}
    ]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, rows)))
    speech = gather([tmp_path], tmp_path / "shards", 61.0, 0, unheard)
    assert speech.seconds == pytest.approx(70.0)
    assert "other" in speech.by_speaker()


def test_folders_of_shards_are_taken_as_they_are(tmp_path: Path) -> None:
    speech = write_speech(tmp_path / "made", each=30)
    found = gather([speech], tmp_path / "shards", 5.0, 0, unheard)
    assert len(found) == 60
    assert not (tmp_path / "shards").exists()


def test_held_out_speakers_are_not_trained_on(tmp_path: Path) -> None:
    found = gather([write_speech(tmp_path / "made", each=30)], tmp_path / "shards", 5.0, 0, unheard)
    trained, held = apart(found, 0)
    assert len(held.by_speaker()) == 6
    assert not held.by_speaker().keys() & trained.by_speaker().keys()
    assert len(trained) + len(held) == 60
    same, _ = apart(found, 0)
    other, _ = apart(found, 1)
    assert same == trained
    assert other != trained


@pytest.mark.slow
def test_of_one_speaker_some_is_held_out(tmp_path: Path) -> None:
    speech = gather([recorded(tmp_path / "one.wav", 400.0)], tmp_path / "shards", 1000.0, 0, unheard)
    trained, held = apart(speech, 0)
    assert (len(trained), len(held)) == (18, 2)
    assert len({(place.file, place.start) for place in (*trained.places, *held.places)}) == 20


# --- what cannot be used ----------------------------------------------------------------------------------------------


def test_what_is_missing_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    silent, short, bad = tmp_path / "silent.wav", tmp_path / "short.wav", tmp_path / "bad.wav"
    save_wav(silent, np.zeros(20 * SECOND, np.float32))
    recorded(short, 0.2)
    bad.write_bytes(b"no sound at all")
    with pytest.raises(CorpusError, match=r"1 shorter than 0.4 s, 1 silent, 1 that cannot be read .first: .*bad.wav"):
        gather([silent, short, bad], tmp_path / "shards", 1000.0, 0, unheard)
    assert not (tmp_path / "shards").exists()


def test_too_little_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"at least 60 s of speech; got 12.0 s of 1 recordings, left out: none"):
        gather([recorded(tmp_path / "one.wav", 12.0)], tmp_path / "shards", 1000.0, 0, unheard)


def test_paths_without_recordings_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.jsonl").write_text("{}\n")
    for path, message in (
        (tmp_path / "empty", "has no file that is called like one"),
        (tmp_path / "gone", "does not exist"),
        (tmp_path / "bad.jsonl", "line 1: expected 'audio'"),
    ):
        with pytest.raises(CorpusError, match=message):
            gather([path], tmp_path / "shards", 1000.0, 0, unheard)
