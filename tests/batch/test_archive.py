import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from whispertide.atomic import replacing
from whispertide.batch.archive import Archive, Provenance, check_folder, open_archive, report_path
from whispertide.batch.plan import Task
from whispertide.batch.worker import Outcome
from whispertide.errors import AddressError, DiskSpaceError, OutputError

MADE = Provenance("nano.en", "abc", "int8", "txt", None, "transcribe", "")
ONE, TWO = Task("/in/one.wav", PurePosixPath("x/one.txt")), Task("/in/two.wav", PurePosixPath("two.txt"))
TASKS = [ONE, TWO]
FINE = Outcome("done", "Hello.\n", audio_s=1.5)


@contextmanager
def archive(folder: Path, tasks: list[Task] | None = None, made: Provenance = MADE) -> Iterator[Archive]:
    with open_archive(folder, made, tasks or TASKS) as found:
        yield found


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in report_path(folder).read_text().splitlines()]


def test_what_is_kept_is_whole_and_reported_and_not_made_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with archive(out) as first:
        assert first.remaining(TASKS) == TASKS
        first.keep(ONE, FINE)
        assert first.remaining(TASKS) == [TWO]
    assert (out / "x/one.txt").read_text() == "Hello.\n"
    assert lines(out) == [{"input": ONE.input, "output": "x/one.txt", "state": "done", "reason": "", "audio_s": 1.5}]
    with archive(out) as second:
        assert second.remaining(TASKS) == [TWO]
        assert [entry.state for entry in second.entries(TASKS)] == ["done"]


@pytest.mark.skipif(os.name == "nt", reason="needs names of any bytes")
def test_a_name_that_is_not_utf_8_is_kept(tmp_path: Path) -> None:
    odd = Task(os.fsdecode(b"/in/caf\xe9.wav"), PurePosixPath(os.fsdecode(b"caf\xe9.txt")))
    with archive(tmp_path / "out", [odd]) as first:
        first.keep(odd, FINE)
    with archive(tmp_path / "out", [odd]) as second:
        assert second.remaining([odd]) == []


def test_what_failed_is_tried_again_and_the_last_line_counts(tmp_path: Path) -> None:
    with archive(tmp_path / "out") as first:
        first.keep(ONE, Outcome("unusable", reason="no audio"))
    with archive(tmp_path / "out") as second:
        assert second.remaining(TASKS) == TASKS
        second.keep(ONE, Outcome("cut off", "Hel\n", "cut off"))
    with archive(tmp_path / "out") as third:
        assert third.remaining(TASKS) == [TWO]
        assert [(entry.state, entry.reason) for entry in third.entries(TASKS)] == [("cut off", "cut off")]


def test_a_transcript_that_was_removed_is_made_again(tmp_path: Path) -> None:
    with archive(tmp_path / "out") as first:
        first.keep(TWO, FINE)
    (tmp_path / "out/two.txt").unlink()
    with archive(tmp_path / "out") as second:
        assert second.remaining(TASKS) == TASKS


def test_a_run_that_was_killed_in_mid_line_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with archive(out) as first:
        first.keep(ONE, FINE)
        first.keep(TWO, FINE)
    whole = report_path(out).read_text()
    report_path(out).write_text(whole[:-20])  # the line of TWO is torn
    part = out / f".two.txt.{os.getpid() + 1}.part"
    part.write_text("Hel")
    translation = out / f".two.fr.txt.{os.getpid() + 1}.part"
    translation.write_text("Sal")
    other = out / ".mine.txt.123.part"
    other.touch()
    with archive(out) as second:
        assert second.remaining(TASKS) == [TWO]
        second.keep(TWO, FINE)
    assert (part.exists(), translation.exists(), other.exists()) == (False, False, True)
    with archive(out) as third:
        assert third.remaining(TASKS) == []


def test_what_a_killed_run_left_of_a_long_name_is_removed(tmp_path: Path) -> None:
    long = Task("/in/long.wav", PurePosixPath("x" * 251 + ".txt"))
    out = tmp_path / "out"
    with archive(out, [long]):
        pass
    with replacing(out / long.output) as unfinished:
        unfinished.touch()
        left = unfinished.with_name(unfinished.name.replace(str(os.getpid()), "1"))
        left.touch()
    (out / long.output).unlink()
    with archive(out, [long]):
        assert not left.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "srt"},
        {"weights": "def"},
        {"language": "de"},
        {"prompt": "Ada"},
        {"beam": 5},
        {"keyterms": "Ada"},
        {"multichannel": True},
    ],
)
def test_other_options_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with archive(tmp_path / "out"):
        pass
    (name,) = change
    with (
        pytest.raises(OutputError, match=f"made with other options .{name}: .* then, .* now"),
        archive(tmp_path / "out", made=replace(MADE, **change)),
    ):
        pass


def test_a_transcript_of_another_recording_is_not_taken_for_this_one(tmp_path: Path) -> None:
    with archive(tmp_path / "out") as first:
        first.keep(TWO, FINE)
    other = Task("/elsewhere/two.wav", TWO.output)
    with (
        pytest.raises(OutputError, match=r"two.txt is the transcript of /in/two.wav"),
        archive(tmp_path / "out", [other]),
    ):
        pass


def test_a_file_that_no_batch_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_text("mine")
    with pytest.raises(OutputError, match="no batch made it"), archive(tmp_path):
        pass
    assert (tmp_path / "two.txt").read_text() == "mine"


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        archive(tmp_path / "out"),
        pytest.raises(OutputError, match="another run writes into"),
        archive(tmp_path / "out"),
    ):
        pass


def test_a_folder_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist"), archive(tmp_path / "misspelt/out"):
        pass


def test_a_folder_called_as_that_of_the_report_is_refused(tmp_path: Path) -> None:
    task = Task("/in/a.wav", PurePosixPath("_batch/a.txt"))
    with pytest.raises(OutputError, match="is for the report"), archive(tmp_path / "out", [task]):
        pass


@pytest.mark.parametrize("place", ["_batch/options.json", "_Batch/report.jsonl"])
def test_no_transcript_replaces_the_report_or_the_options_in_a_later_run(tmp_path: Path, place: str) -> None:
    with archive(tmp_path / "out") as first:
        first.keep(ONE, FINE)
    before = lines(tmp_path / "out")
    more = [*TASKS, Task("/in/a.wav", PurePosixPath(place))]
    with pytest.raises(OutputError, match="is for the report"), archive(tmp_path / "out", more):
        pass
    assert lines(tmp_path / "out") == before


TRANSLATED = replace(MADE, translate_to="fr", correct=True, translator="llm")


@pytest.mark.parametrize("name", ["two.fr.txt", "two.corrected.txt"])
def test_a_file_that_no_batch_made_is_no_place_for_a_translation(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(OutputError, match="no batch made it"), archive(tmp_path, made=TRANSLATED):
        pass
    assert (tmp_path / name).read_text() == "mine"
    with archive(tmp_path):
        pass


def test_a_later_run_writes_over_no_translation_of_another_recording(tmp_path: Path) -> None:
    french, lone = Task("/in/two.fr.wav", PurePosixPath("two.fr.txt")), Task("/in/two.wav", PurePosixPath("two.txt"))
    with archive(tmp_path / "one", [lone], TRANSLATED) as first:
        first.keep(lone, replace(FINE, others={"fr": "Salut.\n", "corrected": "Hello!\n"}))
    with (
        pytest.raises(OutputError, match=r"two.fr.txt is a translation of /in/two.wav"),
        archive(tmp_path / "one", [french], TRANSLATED),
    ):
        pass
    with archive(tmp_path / "other", [french], TRANSLATED) as second:
        second.keep(french, FINE)
    with (
        pytest.raises(OutputError, match=r"two.fr.txt is the transcript of /in/two.fr.wav"),
        archive(tmp_path / "other", [lone], TRANSLATED),
    ):
        pass
    in_one = replace(TRANSLATED, format="json")
    with archive(tmp_path / "json", [Task("/in/two.wav", PurePosixPath("two.json"))], in_one) as third:
        third.keep(Task("/in/two.wav", PurePosixPath("two.json")), FINE)
    with archive(tmp_path / "json", [Task("/in/two.fr.wav", PurePosixPath("two.fr.json"))], in_one):
        pass


def test_what_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    with archive(tmp_path / "out") as found:
        (tmp_path / "out/x").write_text("a file where a folder should be")
        with pytest.raises(OutputError, match="cannot be written"):
            found.keep(ONE, FINE)
        assert found.remaining(TASKS) == TASKS


def test_a_report_that_cannot_grow_is_an_output_error(tmp_path: Path) -> None:
    """What closes the report finds the same fault once more."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    long = replace(FINE, reason="no" * 1000, text=None, state="failed")

    def kept() -> None:
        with archive(tmp_path / "out") as found:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
            found.keep(ONE, long)

    try:
        with pytest.raises(OutputError, match="cannot be written: File too large"):
            kept()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("problem", [AddressError("no cluster"), DiskSpaceError("no room"), ChildProcessError("gone")])
def test_what_goes_wrong_elsewhere_is_not_the_folders_fault(tmp_path: Path, problem: OSError) -> None:
    with pytest.raises(OSError, match=str(problem)) as caught, archive(tmp_path / "out"):
        raise problem
    assert caught.value is problem


def test_a_name_that_is_too_long_fails_alone(tmp_path: Path) -> None:
    file = Task("/in/long.wav", PurePosixPath("x" * 300 + ".txt"))
    folder = Task("/in/deep.wav", PurePosixPath("y" * 300) / "deep.txt")
    tasks = [file, folder, ONE]
    for left in ([file, folder, ONE], [file, folder]):
        with archive(tmp_path / "out", tasks) as found:
            assert found.remaining(tasks) == left
            for task in left:
                entry = found.keep(task, FINE)
                assert ("too long" in entry.reason) == (entry.state == "failed")
    assert [line["state"] for line in lines(tmp_path / "out")] == ["failed", "failed", "done", "failed", "failed"]


def test_a_folder_where_nothing_can_be_kept_is_told_beforehand(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, said in {"file": "file cannot be written", "misspelt/out": "does not exist"}.items():
        with pytest.raises(OutputError, match=said):
            check_folder(tmp_path / name)
    check_folder(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_translations_lie_next_to_the_transcript_and_with_others_it_does_not_go_on(tmp_path: Path) -> None:
    out, made = tmp_path / "out", replace(MADE, translate_to="fr", translator="nllb")
    with archive(out, made=made) as first:
        first.keep(ONE, replace(FINE, others={"fr": "Salut.\n"}))
    assert (out / "x/one.txt").read_text() == "Hello.\n"
    assert (out / "x/one.fr.txt").read_text() == "Salut.\n"
    with pytest.raises(OutputError, match="translate_to"), archive(out):
        pass
