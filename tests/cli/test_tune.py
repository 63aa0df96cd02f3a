"""`whispertide tune`, and what `listen` does with a checkpoint that nobody knows. Nothing is measured here."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from command_line import Run, write_wav
from fake_transcriber import FakeTranscriber
from whispertide.atomic import CHOOSE_CACHE
from whispertide.checkpoint.cache import cache_dir
from whispertide.cli import plugins
from whispertide.cli import tune as command
from whispertide.cli.exit import ExitCode
from whispertide.model import whisper
from whispertide.options import EngineOptions
from whispertide.recipes import calibration
from whispertide.recipes.calibration import Calibration, Pace, place, recall, remember
from whispertide.recipes.catalogue import get_recipe
from whispertide.streaming.framing import BARE, PAD30
from whispertide.tuning import tune as measuring
from whispertide.tuning import tune_page
from whispertide.tuning.framing_choice import FramingResult
from whispertide.tuning.tune import Tuning

HASH = "c" * 64
TIDE = get_recipe("tide")


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """To draw a page takes longer than all else here; tests/tuning looks at one."""
    monkeypatch.setattr(tune_page, "html", lambda found: f"a page of {found.model}")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    checkpoint = SimpleNamespace(argument="m", tensors_hash="feed")
    model = SimpleNamespace(name="m", adapted_hash=HASH, checkpoint=checkpoint, knows_short=True)
    monkeypatch.setattr(whisper, "load_model", lambda *_, **__: model)
    return model


def found(chosen: int | None = 1, *, short: bool = False) -> Tuning:
    tried = tuple(FramingResult(framing, 20, 60, ends=5, seconds=[0.1]) for framing in (PAD30, BARE))
    return Tuning("m", tried, None if chosen is None else tried[chosen], None, short=short, options=EngineOptions())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], bool]]:
    """The lengths of the recordings of every measurement, and whether it was the short form."""
    calls: list[tuple[list[int], bool]] = []

    def tune(model: Any, recordings: Any, *, short: bool, advance: Any) -> Tuning:
        calls.append(([len(audio) for audio in recordings], short))
        return found(short=short)

    monkeypatch.setattr(measuring, "tune", tune)
    return calls


def test_what_is_found_is_shown_kept_and_drawn(run: Run, model: Any, asked: Any, tmp_path: Path) -> None:
    result = run("tune", "m", write_wav(tmp_path / "a.wav", 2), write_wav(tmp_path / "b.wav", 1))
    assert (result.exit_code, asked) == (0, [([32_000, 16_000], False)])
    assert "* bare windows" in result.stdout
    assert "tide uses bare windows with m from now on" in result.stderr
    kept = recall(HASH)
    assert kept is not None
    assert kept.changes == {"framing": "bare", "shift_guard": True, "short_s": 2.5}


def test_the_bundled_recording_will_do(run: Run, model: Any, asked: Any, tmp_path: Path) -> None:
    result = run("tune", "m", "--short", "--json", "-o", tmp_path / "page.html")
    assert result.exit_code == 0
    ((lengths, short),) = asked
    assert len(lengths) == 1
    assert short
    assert json.loads(result.stdout)["chosen"] == "bare"
    assert (tmp_path / "page.html").read_text() == "a page of m"


def test_a_page_that_cannot_be_written_is_said_before_measuring(
    run: Run, model: Any, asked: Any, tmp_path: Path
) -> None:
    result = run("tune", "m", "-o", tmp_path / "nowhere" / "page.html")
    assert (result.exit_code, asked) == (5, [])
    assert "does not exist; make it first" in result.stderr
    result = run("tune", "m", "-o", tmp_path)
    assert (result.exit_code, asked) == (5, [])
    assert "is a folder; choose another name" in result.stderr


@pytest.mark.parametrize("name", ["none.wav", "."])
def test_recordings_that_cannot_be_read_are_said_before_a_model_is_loaded(
    run: Run, monkeypatch: pytest.MonkeyPatch, asked: Any, tmp_path: Path, name: str
) -> None:
    """A folder, too: training takes one, and what was measured after it did not."""
    monkeypatch.setattr(whisper, "load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    result = run("tune", "m", tmp_path / name, "--train")
    assert (result.exit_code, asked) == (3, [])
    assert result.stderr.startswith("error: ")


def test_it_can_be_forgotten(run: Run, model: Any, asked: Any) -> None:
    remember(HASH, Calibration({"framing": "bare"}, "so"))
    assert "forgotten" in run("tune", "m", "--forget").stderr
    assert recall(HASH) is None
    assert "there is no result for m" in run("tune", "m", "--forget").stderr
    assert asked == []


def test_its_page_is_forgotten_with_it(run: Run, model: Any, asked: Any) -> None:
    assert run("tune", "m").exit_code == 0
    page = place(HASH).with_suffix(".html")
    assert page.exists()
    run("tune", "m", "--forget")
    assert not list(page.parent.iterdir())


def test_nothing_found_does_not_replace_something(model: Any) -> None:
    command.save_tuning(model, found())
    before = recall(HASH)
    command.save_tuning(model, found(None))
    assert recall(HASH) == before is not None


# --- an adapter that is trained here --------------------------------------------------------------------------------


@pytest.fixture
def taught(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The recordings of every training, on a machine where a padded window takes some moments."""
    calls: list[Any] = []
    model.knows_short = False
    model.dims = SimpleNamespace(n_mels=80, n_audio_ctx=1500)
    model.encode = lambda mel: None

    def teach(checkpoint: Any, audio: Any, options: Any, training: Any, device: str) -> ExitCode:
        calls.append((checkpoint.argument, audio, options.lessons))
        return ExitCode.OK

    monkeypatch.setattr("whispertide_lab.cli.train_short.teach", teach)
    monkeypatch.setattr("whispertide_lab.cli.train_short.train_device", lambda _: "cpu")
    monkeypatch.setitem(sys.modules, "whispertide_lab.training.short", SimpleNamespace(ShortOptions=SimpleOptions))
    return calls


class SimpleOptions:
    """What `ShortOptions` has; that needs torch."""

    def __init__(self, **given: Any) -> None:
        vars(self).update(steps=600, **given)


def test_a_model_without_an_adapter_is_taught_where_that_is_asked_for(
    run: Run, taught: list[Any], asked: Any, tmp_path: Path
) -> None:
    speech = write_wav(tmp_path / "a.wav", 2)
    said = run("tune", "m", speech, "--train").stderr
    assert taught == [("m", [Path(speech)], command.WINDOWS)]
    assert "about 0 minutes; Ctrl-C saves" in said
    assert len(asked) == 1, "and then it is tuned"


def test_who_asks_to_train_a_model_that_knows_short_windows_is_told_that_nothing_is_trained(
    run: Run, model: Any, taught: list[Any], asked: Any, tmp_path: Path
) -> None:
    """As base does; it was passed over."""
    model.knows_short = True
    said = run("tune", "m", write_wav(tmp_path / "a.wav", 2), "--train").stderr
    assert "m knows short windows already, so --train has nothing to do" in said
    assert "whispertide train short m SPEECH" in said
    assert (taught, len(asked)) == ([], 1)


def test_what_takes_20_s_teaches_nothing(run: Run, taught: list[Any], asked: Any, tmp_path: Path) -> None:
    result = run("tune", "m", write_wav(tmp_path / "a.wav", 2), "--train", "--short")
    assert (result.exit_code, taught, asked) == (2, [], [])
    assert "expected --train or --short" in result.stderr


def test_without_the_laboratory_nobody_teaches(
    run: Run, taught: list[Any], asked: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda **_: ())
    result = run("tune", "m", write_wav(tmp_path / "a.wav", 2), "--train")
    assert (result.exit_code, result.stdout, taught, asked) == (2, "", [], [])
    assert "the laboratory (whispertide-lab) for `whispertide tune --train`; it is not installed" in result.stderr
    assert "pip install './lab[train]'" in result.stderr
    assert "SPEECH --train` makes one" in run("tune", "m").stderr
    assert len(asked) == 1, "and it is tuned"


def test_without_a_terminal_a_line_says_how_it_is_taught(run: Run, taught: list[Any], asked: Any) -> None:
    said = run("tune", "m").stderr
    assert "`whispertide tune m SPEECH --train` makes one" in said
    assert (taught, len(asked)) == ([], 1)
    assert "--train" not in run("tune", "m", "--no-train").stderr
    assert "--train" not in run("tune", "m", "--short").stderr


@pytest.mark.parametrize(("answer", "times"), [(True, 1), (False, 0)])
def test_at_a_terminal_the_user_is_asked(
    run: Run, taught: list[Any], asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bool, times: int
) -> None:
    monkeypatch.setattr(command, "may_ask", lambda: True)
    monkeypatch.setattr(command, "find_spec", lambda name: object())
    questions: list[str] = []

    def confirm(question: str, *, err: bool) -> bool:
        questions.append(question)
        return answer

    monkeypatch.setattr("typer.confirm", confirm)
    run("tune", "m", write_wav(tmp_path / "a.wav", 2))
    assert questions == ["train m for short windows first? It takes about 0 minutes on this machine; Ctrl-C saves"]
    assert (len(taught), len(asked)) == (times, 1)


@pytest.mark.slow
def test_the_short_form_does_not_replace_the_long_one(run: Run, model: Any, asked: Any, tmp_path: Path) -> None:
    long = Calibration(
        {"framing": "zeros", "zeros_s": 1.0, "shift_guard": True, "rule": "1 2"}, "so", pace={"here": Pace(2, 0.5)}
    )
    remember(HASH, long)
    said = run("tune", "m", "--short", "-o", tmp_path / "page.html").stderr
    assert recall(HASH) == long
    assert "the earlier result stays" in said
    assert "from now on" not in said
    assert run("tune", "m", "-o", tmp_path / "page.html").exit_code == 0
    kept = recall(HASH)
    assert kept is not None
    assert (kept.changes, kept.pace) == ({"framing": "bare", "shift_guard": True, "short_s": 2.5}, {})


def test_the_model_may_be_an_option(run: Run, model: Any, asked: Any, tmp_path: Path) -> None:
    """As with other commands; then every argument is audio."""
    result = run("tune", "-m", "m", write_wav(tmp_path / "a.wav", 2), write_wav(tmp_path / "b.wav", 1))
    assert (result.exit_code, asked) == (0, [([32_000, 16_000], False)])
    assert run("tune", "-m", "m").exit_code == 0


def test_the_short_form_replaces_the_short_form(model: Any) -> None:
    command.save_tuning(model, found(0, short=True))
    command.save_tuning(model, found(1, short=True))
    kept = recall(HASH)
    assert kept is not None
    assert kept.changes["framing"] == "bare"


def test_what_is_not_measured_again_stays(model: Any) -> None:
    """The rule, and the paces of other machines, where the framing is the same."""
    before = replace(found().calibration(), pace={"elsewhere": Pace(2, 0.5)})
    remember(HASH, replace(before, changes={**before.changes, "rule": "1 2"}))
    command.save_tuning(model, found())
    kept = recall(HASH)
    assert kept is not None
    assert (kept.changes["rule"], kept.pace) == ("1 2", before.pace)


class Unknown(FakeTranscriber):
    def look_again(self) -> None:
        self.is_known = True


@pytest.fixture
def unknown(model: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(command, "may_ask", lambda: True)
    transcriber: Any = Unknown(name="m", is_known=False)
    transcriber.model = model
    return transcriber


def test_an_unknown_checkpoint_is_tried_once_before_its_first_live_use(unknown: Any, asked: Any, capsys: Any) -> None:
    for _ in range(2):
        command.tune_first(unknown, TIDE, refused=False)
    ((_, short),) = asked
    assert short
    said = capsys.readouterr().err
    assert said == "tuning for m (once, at most 20 s; --no-tune skips it)\n"


def test_what_cannot_be_kept_is_used_this_time(
    unknown: Any, asked: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(calibration, "remember", denied)
    command.tune_first(unknown, TIDE, refused=False)
    assert unknown.calibration == found(short=True).calibration()
    assert f"warning: {cache_dir()} cannot be written: read-only; {CHOOSE_CACHE}" in capsys.readouterr().err


@pytest.mark.parametrize("somebody", [True, False])
def test_it_can_be_refused_and_is_where_nobody_could(
    unknown: Any, asked: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch, somebody: bool
) -> None:
    monkeypatch.setattr(command, "may_ask", lambda: somebody)
    command.tune_first(unknown, TIDE, refused=somebody)
    assert asked == []
    assert "m was never tuned; `whispertide tune m` does it" in capsys.readouterr().err


def test_whoever_names_a_framing_is_not_asked(unknown: Any, asked: Any, capsys: Any) -> None:
    command.tune_first(unknown, TIDE.replace(framing="bare"), refused=False)
    command.tune_first(unknown, get_recipe("npusper"), refused=False)
    assert (asked, capsys.readouterr().err) == ([], "")


@pytest.mark.parametrize("terminal", [True, False])
def test_who_sits_at_a_terminal_may_refuse(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: terminal))
    assert command.may_ask() is terminal
    monkeypatch.setattr(sys, "stdin", None)
    assert not command.may_ask()
