"""A model's own transcripts: text and word times that belong together, kept, and nothing where nobody speaks."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from small_training import spoken
from whispertide.options import DecodeOptions
from whispertide.types import Word
from whispertide_lab.training.pseudo_labels import joined, pseudo_labelled
from whispertide_lab.training.shards import Shards, open_shards, write_shard


def test_pieces_of_a_word_are_one_word() -> None:
    pieces = [Word(" Some", 0, 10), Word(" 10", 10, 20), Word(",000", 20, 40), Word(" men.", 50, 90)]
    text, spans = joined(pieces)
    assert text == "Some 10,000 men."
    assert [(span.start, span.end) for span in spans] == [(0, 10), (10, 40), (50, 90)]
    assert joined([]) == ("", [])


@dataclass
class Teacher:
    """Says the same of everything, or nothing."""

    words: tuple[Word, ...]
    asked: list[DecodeOptions] = field(default_factory=list)
    model: Any = field(
        default_factory=lambda: SimpleNamespace(content_hash="c" * 64, options=SimpleNamespace(precision="fp32"))
    )

    def transcribe(self, samples: Any, *, options: DecodeOptions, vad: bool) -> Any:
        assert samples.dtype == "float32"
        assert not vad
        self.asked.append(options)
        return SimpleNamespace(words=self.words)


@pytest.fixture
def speech(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shards:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    write_shard(tmp_path, 0, [spoken(0), spoken(1, timed=False)])
    return open_shards([tmp_path])


def test_the_teacher_s_text_takes_the_place_of_the_transcript(speech: Shards) -> None:
    late = speech.places[0].count + 100
    teacher: Any = Teacher((Word(" It", 0, 100), Word(" rains.", 100, late)))
    counted: list[int] = []
    found = pseudo_labelled(teacher, speech, None, counted.append)
    assert [said.text for said in found] == ["It rains.", "It rains."]
    assert found[0].words == ((0, 100), (100, late - 100)), "no word ends after its recording"
    assert not found[0].exact
    assert counted == [1, 2]
    assert {options.language for options in teacher.asked} == {"en"}
    assert pseudo_labelled(teacher, speech, None).places == found.places
    assert len(teacher.asked) == 2, "what was heard once is kept"


def test_what_the_teacher_hears_nothing_in_is_left_out(speech: Shards) -> None:
    teacher: Any = Teacher(())
    assert len(pseudo_labelled(teacher, speech, "de")) == 0
