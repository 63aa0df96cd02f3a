import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from whispertide.cli.output import FORMATS, Target, Writer, partial_path, plan_formats, plan_targets
from whispertide.errors import OptionError, OutputError
from whispertide.formats import files
from whispertide.options import WHISPER_JSON


def test_the_command_line_knows_every_format() -> None:
    assert set(FORMATS) == files.FORMATS.keys()


def test_the_default_is_text_on_standard_output() -> None:
    assert plan_targets(["a.wav"], None, None) == [Target(None, "txt")]
    assert plan_targets(["a.wav"], None, "srt") == [Target(None, "srt")]


@pytest.mark.parametrize(
    ("name", "form", "expected"),
    [
        ("a.srt", None, "srt"),
        ("a.VTT", None, "vtt"),
        ("a.out", "txt", "txt"),
        ("a", None, "txt"),
        ("a.srt", "srt", "srt"),
    ],
)
def test_the_format_follows_from_the_name_unless_it_is_given(
    tmp_path: Path, name: str, form: str | None, expected: str
) -> None:
    assert plan_targets(["x.wav"], str(tmp_path / name), form) == [Target(tmp_path / name, expected)]


def test_a_name_that_says_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"ends with .vtt for --format vtt; got 'a.b.srt': write to a.b.vtt, or"):
        plan_targets(["x.wav"], str(tmp_path / "a.b.srt"), "vtt")


@pytest.mark.parametrize("name", ["x.docx", "x.md", "x.SRTX"])
def test_an_unknown_extension_is_refused_unless_the_format_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match=r"ends with \.txt, .*--format"):
        plan_targets(["x.wav"], str(tmp_path / name), None)
    assert plan_targets(["x.wav"], str(tmp_path / name), "srt") == [Target(tmp_path / name, "srt")]


def test_a_format_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="got 'srt', a format: choose it with -f srt"):
        plan_targets(["x.wav"], str(tmp_path / "srt"), None)
    assert plan_targets(["x.wav"], str(tmp_path / "srt"), "srt") == [Target(tmp_path / "srt", "srt")]
    (tmp_path / "srt").mkdir()
    assert plan_targets(["x.wav"], str(tmp_path / "srt"), None) == [Target(tmp_path / "srt" / "x.txt", "txt")]


def test_a_folder_gets_a_file_per_input(tmp_path: Path) -> None:
    targets = plan_targets(["a/one.wav", "b/two.tar.mp3", "-"], str(tmp_path), "srt")
    assert [target.path for target in targets] == [tmp_path / name for name in ("one.srt", "two.tar.srt", "stdin.srt")]


def test_a_folder_may_end_as_windows_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sep", "\\")
    monkeypatch.chdir(tmp_path)
    (target,) = plan_targets(["talk.mp3"], "transcripts\\", "srt")
    assert target.path == Path("transcripts\\", "talk.srt")


def test_a_folder_is_made_if_its_parent_is_there(tmp_path: Path) -> None:
    plan_targets(["a.wav"], f"{tmp_path}/new/", None)
    assert (tmp_path / "new").is_dir()
    with pytest.raises(OutputError, match="make it first"):
        plan_targets(["a.wav"], f"{tmp_path}/no/such/", None)


def test_inputs_with_the_same_stem_do_not_share_an_output(tmp_path: Path) -> None:
    inputs = ["a/talk.wav", "b/talk.mp3", "c/talk.wav", "d/Talk.ogg", "other.wav"]
    names = [target.path.name for target in plan_targets(inputs, str(tmp_path), None) if target.path]
    assert names == ["talk.wav.txt", "talk.mp3.txt", "talk.wav-2.txt", "Talk.ogg.txt", "other.txt"]
    assert len({name.casefold() for name in names}) == len(inputs)


def test_several_files_do_not_fit_into_one(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="folder"):
        plan_targets(["a.wav", "b.wav"], str(tmp_path / "out.txt"), None)
    with pytest.raises(OptionError, match="srt"):
        plan_targets(["a.wav", "b.wav"], None, "srt")
    assert len(plan_targets(["a.wav", "b.wav"], None, "json")) == 2


def test_several_formats_go_into_a_folder(tmp_path: Path) -> None:
    found = plan_formats(["one.wav", "two.wav"], str(tmp_path), ["srt", "json"])
    names = [[target.path.name for target in targets if target.path] for targets in found]
    assert names == [["one.srt", "one.json"], ["two.srt", "two.json"]]
    assert plan_formats(["one.wav"], str(tmp_path / "a.vtt"), []) == [(Target(tmp_path / "a.vtt", "vtt"),)]
    for output in (None, str(tmp_path / "one.srt")):
        with pytest.raises(OptionError, match=r"a folder .* for 2 formats"):
            plan_formats(["one.wav"], output, ["srt", "json"])


def test_a_missing_parent_is_told_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist"):
        plan_targets(["a.wav"], str(tmp_path / "no" / "out.txt"), None)


def test_a_file_where_a_folder_belongs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(OutputError, match="is a file"):
        plan_targets(["a.wav"], f"{tmp_path}/out/", None)
    with pytest.raises(OutputError, match="out is a file"):
        plan_targets(["a.wav"], f"{tmp_path}/out/a.txt", None)


def test_a_folder_where_a_file_belongs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "talk.txt").mkdir()
    with pytest.raises(OutputError, match="is a folder"):
        plan_targets(["talk.wav"], str(tmp_path), None)


def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("precious")
    path.chmod(0o444)
    with pytest.raises(OutputError, match="read-only"):
        plan_targets(["a.wav"], str(path), None)
    assert path.read_text() == "precious"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which nobody may make files")
def test_a_folder_that_takes_no_files_is_refused() -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        plan_targets(["a.wav"], "/proc/self/out.txt", None)


@pytest.mark.parametrize(("name", "why"), [("loop", "symbolic links"), ("x" * 300, "too long")])
def test_a_name_that_leads_nowhere_is_refused(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OutputError, match=why):
        plan_targets(["a.wav"], str(tmp_path / name), None)


def test_an_output_must_not_be_an_input(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("audio, for all we know")
    with pytest.raises(OutputError, match="one of the inputs"):
        plan_targets([str(path)], str(path), None)
    assert path.read_text() == "audio, for all we know"


def test_nothing_is_there_until_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    writer = Writer(Target(path, "txt"))
    writer.write("new ")
    writer.write("text")
    assert path.read_text() == "old"
    assert writer.finish() == path
    assert path.read_text() == "new text"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_discarded_leaves_no_trace(tmp_path: Path) -> None:
    writer = Writer(Target(tmp_path / "out.txt", "txt"))
    writer.write("half a sen")
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_partial_transcript_has_a_name_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "out.srt"
    path.write_text("the whole one of yesterday")
    writer = Writer(Target(path, "srt"))
    writer.write("1\n")
    assert writer.finish(whole=False) == partial_path(path) == tmp_path / "out.partial.srt"
    assert path.read_text() == "the whole one of yesterday"
    assert partial_path(path).read_text() == "1\n"


@pytest.mark.parametrize("whole", [True, False])
def test_the_longest_name_can_be_written(tmp_path: Path, whole: bool) -> None:
    path = tmp_path / ("x" * 251 + ".txt")
    writer = Writer(plan_targets(["a.wav"], str(path), None)[0])
    writer.write("text")
    place = writer.finish(whole=whole)
    assert place is not None
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [(place.name, "text")]
    assert place == path if whole else place.name.endswith("x.partial.txt")


def test_a_transcript_without_text_is_an_empty_file(tmp_path: Path) -> None:
    Writer(Target(tmp_path / "out.txt", "txt")).finish()
    assert (tmp_path / "out.txt").read_bytes() == b""


def test_the_file_is_utf_8_with_plain_newlines(tmp_path: Path) -> None:
    writer = Writer(Target(tmp_path / "out.txt", "txt"))
    writer.write("Grüße\n")
    writer.finish()
    assert (tmp_path / "out.txt").read_bytes() == "Grüße\n".encode()


def test_a_replaced_file_keeps_its_mode_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    old = tmp_path / "old.txt"
    old.write_text("x")
    old.chmod(0o640)
    plain = tmp_path / "plain.txt"
    plain.touch()
    for path in (old, tmp_path / "new.txt"):
        writer = Writer(Target(path, "txt"))
        writer.write("y")
        writer.finish()
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert (tmp_path / "new.txt").stat().st_mode == plain.stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    writer = Writer(Target(link, "txt"))
    writer.write("new")
    writer.finish()
    assert link.is_symlink()
    assert real.read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    writer = Writer(plan_targets(["a.wav"], str(pipe), None)[0])
    writer.write("through")
    writer.finish()
    reader.join(timeout=60)
    assert received == ["through"]
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_output_error() -> None:
    writer = Writer(Target(Path("/dev/full"), "txt"))
    with pytest.raises(OutputError, match="No space left"):
        writer.write("x")
    writer.discard()


def denied(*_: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def test_a_file_system_without_modes_takes_a_transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", denied)
    writer = Writer(Target(tmp_path / "out.txt", "txt"))
    writer.write("text")
    assert writer.finish() == tmp_path / "out.txt"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.txt", "text")]


def test_a_transcript_that_cannot_take_its_name_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "replace", denied)
    writer = Writer(Target(tmp_path / "out.txt", "txt"))
    writer.write("hours of text")
    with pytest.raises(OutputError, match=r"cannot write .*out.txt: .*; the transcript is in ") as error:
        writer.finish()
    writer.discard()
    (kept,) = tmp_path.iterdir()
    assert str(error.value).endswith(str(kept))
    assert kept.read_text() == "hours of text"


def test_on_a_full_disk_what_was_written_before_is_kept(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    writer, limits = Writer(Target(tmp_path / "out.txt", "txt")), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        writer.write("hours\n")
        with pytest.raises(OutputError):
            writer.write("of text\n")
        place = writer.finish(whole=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert place == tmp_path / "out.partial.txt"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.partial.txt", "hours\nof t")]


def test_both_shapes_of_json_end_in_json(tmp_path: Path) -> None:
    for path in (tmp_path / "a.json", tmp_path / "b"):
        assert plan_targets(["x.wav"], str(path), WHISPER_JSON) == [Target(path, WHISPER_JSON)]
    assert plan_targets(["x.wav"], f"{tmp_path}/", WHISPER_JSON) == [Target(tmp_path / "x.json", WHISPER_JSON)]
    with pytest.raises(OptionError, match=r"ends with .json for --format whisper-json; got 'a.srt'"):
        plan_targets(["x.wav"], str(tmp_path / "a.srt"), WHISPER_JSON)
    with pytest.raises(OptionError, match="got both"):
        plan_formats(["x.wav"], f"{tmp_path}/", ["json", WHISPER_JSON])
