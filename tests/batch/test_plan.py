from pathlib import PurePosixPath

import pytest

from whispertide.batch.inputs import Found
from whispertide.batch.plan import plan
from whispertide.errors import OptionError


def found(name: str, place: str, size: int = 0) -> Found:
    return Found(name, PurePosixPath(place), size)


def test_every_recording_has_a_transcript_of_its_own_name() -> None:
    tasks = plan([found("/in/talk.v2.wav", "x/talk.v2"), found("/in/named.wav", "y/named.srt")], "srt")
    assert {(task.input, str(task.output)) for task in tasks} == {
        ("/in/talk.v2.wav", "x/talk.v2.srt"),
        ("/in/named.wav", "y/named.srt"),
    }


def test_the_largest_come_first() -> None:
    assert [task.size for task in plan([found("a", "a", 1), found("b", "b", 3), found("c", "c", 2)], "txt")] == [
        3,
        2,
        1,
    ]


@pytest.mark.parametrize("other", ["talk", "TALK"])
def test_two_recordings_with_one_transcript_are_refused(other: str) -> None:
    with pytest.raises(OptionError, match=r"talk.wav and talk.mp3 would both become .*\.txt"):
        plan([found("talk.wav", "talk"), found("talk.mp3", other)], "txt")


def test_both_shapes_of_json_end_in_json() -> None:
    assert [str(task.output) for task in plan([found("a.wav", "a")], "whisper-json")] == ["a.json"]


def test_a_translation_takes_a_name_as_well() -> None:
    recordings = [found("a/talk.mp3", "talk"), found("a/talk.fr.mp3", "talk.fr")]
    assert len(plan(recordings, "srt")) == 2
    with pytest.raises(OptionError, match=r"would both become talk\.fr\.srt"):
        plan(recordings, "srt", ["fr"])


@pytest.mark.parametrize("folder", ["x.txt", "X.txt/deep"])
def test_a_transcript_is_no_folder_of_another(folder: str) -> None:
    with pytest.raises(OptionError, match=r"a.wav would become the file .*, in which b.wav would have its transcript"):
        plan([found("a.wav", "x"), found("b.wav", f"{folder}/b")], "txt")
    assert len(plan([found("a.wav", "x"), found("b.wav", "x/b"), found("c.wav", "c")], "txt")) == 3
