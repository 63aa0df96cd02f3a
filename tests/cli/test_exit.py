import errno

import pytest
import typer

from each_row import each_row
from whispertide import errors
from whispertide.cli.exit import HELP, ExitCode, code_for, combine, guarded, report, say, speaking_through, wrapped


def test_every_error_has_the_code_of_its_kind() -> None:
    expected = {
        errors.AudioError: 3,
        errors.AudioFileError: 3,
        errors.AudioDeviceError: 3,
        errors.TruncatedAudioError: 6,
        errors.CheckpointError: 4,
        errors.CheckpointNotFoundError: 4,
        errors.DownloadError: 4,
        errors.UnreachableError: 4,
        errors.DiskSpaceError: 4,
        errors.GraphError: 4,
        errors.ProviderError: 4,
        errors.OptionError: 2,
        errors.UnknownRecipeError: 2,
        errors.UnknownLanguageError: 2,
        errors.OutputError: 5,
        errors.KeyboardError: 5,
        errors.AddressError: 7,
        errors.SessionError: 1,
        errors.TranscriptError: 1,
        errors.CorpusError: 3,
        errors.WhispertideError: 1,
    }
    tree = {item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, Exception)}
    assert tree == expected.keys()
    assert {kind: int(code_for(kind("x"))) for kind in tree} == expected
    assert code_for(KeyboardInterrupt()) == 130
    assert code_for(ZeroDivisionError()) == 1
    assert (code_for(OSError(errno.ENOSPC, "full")), code_for(OSError(errno.EIO, "broken"))) == (5, 1)


def test_the_help_names_every_code() -> None:
    assert all(f"{int(code)} " in HELP for code in ExitCode)


def test_an_error_is_one_line_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(errors.AudioFileError("talk.wav: there is no such file"), about="talk.wav") == 3
    assert capsys.readouterr().err == "error: talk.wav: there is no such file\n"
    report(errors.AudioError("it is empty"), about="talk.wav")
    assert capsys.readouterr().err == "error: talk.wav: it is empty\n"


def test_an_unforeseen_error_says_how_to_see_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert report(ZeroDivisionError("division by zero")) == 1
    text = capsys.readouterr().err
    assert text.startswith("error: ZeroDivisionError: division by zero")
    assert "WHISPERTIDE_DEBUG" in text
    monkeypatch.setenv("WHISPERTIDE_DEBUG", "1")
    report(ZeroDivisionError("division by zero"))
    assert "ZeroDivisionError: division by zero\nerror:" in capsys.readouterr().err
    report(MemoryError())
    assert "not enough memory" in capsys.readouterr().err


def test_a_body_leaves_with_its_code() -> None:
    with pytest.raises(typer.Exit) as left:
        guarded(lambda: ExitCode.OUTPUT)()
    assert left.value.exit_code == 5


def test_an_error_in_a_body_becomes_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> ExitCode:
        raise errors.DownloadError("no network")

    with pytest.raises(typer.Exit) as left:
        guarded(body)()
    assert left.value.exit_code == 4
    assert capsys.readouterr().err == "error: no network\n"


def test_a_warning_in_a_body_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> ExitCode:
        import warnings

        warnings.warn("3 samples were not numbers", stacklevel=1)
        return ExitCode.OK

    with pytest.raises(typer.Exit):
        guarded(body)()
    assert capsys.readouterr().err == "warning: 3 samples were not numbers\n"


@pytest.mark.parametrize(("answered", "code"), [(KeyboardInterrupt, 130), (EOFError, None)])
def test_ctrl_c_at_a_question_is_an_interrupt(
    answered: type[BaseException],
    code: int | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where there is nobody to answer, typer says that it was broken off."""

    def answer(_: str) -> str:
        raise answered

    @guarded
    def ask() -> ExitCode:
        typer.confirm("really?", err=True)
        return ExitCode.OK

    monkeypatch.setattr("typer._click.termui.visible_prompt_func", answer)
    with pytest.raises(typer.Exit if code else typer.Abort) as left:
        ask()
    assert getattr(left.value, "exit_code", None) == code
    assert ("interrupted" in capsys.readouterr().err) is (code is not None)


@pytest.mark.parametrize("kind", [typer.Exit, typer.Abort, BrokenPipeError])
def test_what_typer_handles_passes_through(kind: type[Exception]) -> None:
    def body() -> ExitCode:
        raise BrokenPipeError(32, "Broken pipe") if kind is BrokenPipeError else kind()

    with pytest.raises(kind):
        guarded(body)()


@each_row(
    ("codes", "expected"),
    [([], 0), ([0, 0], 0), ([0, 6], 6), ([6, 3], 3), ([3, 4], 3), ([0, 3, 130], 130), ([6, 0], 6)],
)
def test_several_files_have_one_code(codes: list[int], expected: int) -> None:
    assert combine([ExitCode(code) for code in codes]) == expected


def test_whoever_draws_can_take_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    with speaking_through(heard.append):
        say("inside")
    say("outside")
    assert (heard, capsys.readouterr().err) == (["inside"], "outside\n")


def test_a_message_on_a_terminal_does_not_break_inside_words() -> None:
    message = "error: expected one of " + ", ".join(f"long-name-{n}" for n in range(20)) + "\nand a second line"
    assert wrapped(message, None) == message
    lines = wrapped(message, 40).splitlines()
    assert all(len(line) < 40 for line in lines)
    assert " ".join(lines).split() == message.split()
    path = "/a/path/that/is/longer/than/the/terminal/is/wide/talk.wav"
    assert f"{path}:" in wrapped(f"error: {path}: there is no such file", 30).splitlines(), "a path stays whole"
