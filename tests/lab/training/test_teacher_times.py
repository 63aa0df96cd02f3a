"""Word times by the teacher's attention: for those that have none, marked as not exact."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from small_training import spoken
from whispertide_lab.speech.utterance import RefWord, Utterance
from whispertide_lab.training import teacher_times
from whispertide_lab.training.shards import Shards, open_shards, write_shard
from whispertide_lab.training.teacher_times import timed_by, untimed

TEACHER: Any = object()


@pytest.fixture
def speech(tmp_path: Path) -> Shards:
    """One with exact times, two without."""
    write_shard(tmp_path, 0, [spoken(0), spoken(1, timed=False), spoken(2, timed=False)])
    return open_shards([tmp_path])


@pytest.fixture(autouse=True)
def placed(monkeypatch: pytest.MonkeyPatch) -> list[Utterance]:
    """What the teacher was given; it places a word a hundred samples after the other, but for "nobody"."""
    given: list[Utterance] = []

    def aligned(said: Utterance, teacher: object, name: str) -> Utterance:
        given.append(said)
        words = tuple(
            word if word.text == "nobody" else RefWord(word.text, 100 * place, 100 * place + 90)
            for place, word in enumerate(said.words)
        )
        return replace(said, words=words, aligned_by=name)

    monkeypatch.setattr(teacher_times, "aligned", aligned)
    return given


def test_only_what_has_no_times_is_placed(speech: Shards, placed: list[Utterance]) -> None:
    done: list[int] = []
    found = timed_by(TEACHER, speech, None, done.append)
    assert untimed(speech) == 2
    assert found.places[0] == speech.places[0]
    assert (found[1].words, found[1].exact) == (tuple((100 * n, 100 * n + 90) for n in range(6)), False)
    assert found[1].text == speech[1].text
    assert (found.digest(), done) == (speech.digest(), [1, 2, 3])
    assert [said.language for said in placed] == ["en", "en"]
    assert len(placed[0].audio()) == len(speech[1].samples)


def test_where_a_word_cannot_be_placed_there_are_no_times(speech: Shards) -> None:
    """It could be anywhere; such an utterance is asked at its end alone."""
    found = timed_by(TEACHER, speech, "de")
    assert "nobody" in found[2].text
    assert (found[2].words, untimed(found)) == (None, 1)
