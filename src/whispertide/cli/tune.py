"""`whispertide tune`: find the best settings for a checkpoint on this machine, without transcripts, and use them from
then on.
"""

import json
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.atomic import CHOOSE_CACHE, write_text, writing
from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.cli.output import check_file
from whispertide.cli.plugins import Lessons, find_teacher
from whispertide.errors import OptionError, OutputError
from whispertide.extras import how_to_install, not_installed

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.model.whisper import WhisperModel
    from whispertide.recipes.calibration import Calibration
    from whispertide.recipes.recipe import Recipe
    from whispertide.tuning.tune import Tuning
    from whispertide.types import FloatArray

WINDOWS = 1200  # that a checkpoint learns short windows from
# What training takes on a processor, in encodings of a padded window (lab/log, 2026-11-29).
ANSWER, UPDATE = 2.7, 9.5


@guarded
@arguments.group_options
def tune(
    *,
    model: arguments.MeasuredModel = None,
    option: arguments.ModelOption = None,
    audio: Annotated[
        list[Path] | None,
        typer.Argument(metavar="AUDIO...", help="Typical speech, 5 minutes or more. Default: the bundled recording."),
    ] = None,
    short: Annotated[bool, typer.Option("--short", help="Measure for at most 20 s.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Delete the result instead of measuring.")] = False,
    as_json: arguments.AsJson = False,
    train: Annotated[
        bool | None,
        typer.Option(
            "--train/--no-train",
            help="First train an adapter for short windows, if the model has none. Default: ask.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The page with the results. Default: next to them."),
    ] = None,
    engine: arguments.Engine,
    revision: arguments.Revision = None,
) -> ExitCode:
    """Find the framing, threads and step that suit a model on this machine. tide uses them from then on."""
    from whispertide.audio.file import duration_of, load_audio
    from whispertide.model.whisper import load_model
    from whispertide.recipes.calibration import recall

    if short and train:
        raise OptionError("expected --train or --short, which measures for 20 s; got both: leave out one")
    if option is not None and model is not None:  # so the first argument is audio, too
        audio, model = [Path(model), *(audio or ())], None
    name = arguments.model_argument(model, option)

    def load() -> "WhisperModel":
        return load_model(name, engine, revision=revision, announce=say)

    if not forget:  # what cannot be read or written is said before a model is loaded, let alone trained
        for path in audio or []:
            duration_of(path)
        if output is not None:
            check_file(output)
    loaded = load()
    if forget:
        say("forgotten" if _forget(loaded) else f"there is no result for {loaded.name}")
        return ExitCode.OK
    if train and loaded.knows_short:
        say(
            f"{loaded.name} knows short windows already, so --train has nothing to do; another adapter: "
            f"whispertide train short {loaded.checkpoint.argument} SPEECH"
        )
    if not short and not loaded.knows_short:
        code = _offer_training(loaded, audio or [], train)
        if code:
            return code
        if code is not None:
            loaded = load()  # it looks for an adapter anew
    found = _measure(loaded, [load_audio(path) for path in audio or []], short=short)
    if as_json:
        typer.echo(json.dumps(found.report(), indent=2))
    else:
        _show(found)
    before, path = recall(loaded.adapted_hash), save_tuning(loaded, found)
    if _keeps_earlier(before, found):
        say(f"the earlier result stays ({path}), because it comes from the long form; `--forget` removes it")
    else:
        say(f"{found.sentence}; kept in {path}")
    _write_page(found, output or _page_of(path), asked=output is not None)
    return ExitCode.OK


def _offer_training(model: "WhisperModel", audio: Sequence[Path], wanted: bool | None) -> ExitCode | None:
    """Train an adapter for short windows, if the option says so or a terminal answers yes.

    Says how long it takes. None: nobody wants it, or it cannot be asked; `INTERRUPTED`: the same command continues.
    Raises what training raises, `OptionError` where it is asked for and cannot be.
    """
    argument = model.checkpoint.argument
    if wanted is False:
        return None
    prepare = find_teacher("short")
    if wanted is None and (not audio or prepare is None or find_spec("torch") is None or not may_ask()):
        say(
            f"{model.name} has no adapter for short windows, with which tide is about twice as fast: "
            f"`whispertide tune {argument} SPEECH --train` makes one (needs torch: {how_to_install('train')})"
        )
        return None
    if prepare is None:
        raise OptionError(not_installed("train", "`whispertide tune --train`"))
    lessons = prepare(model.checkpoint, WINDOWS)
    about = "some minutes" if lessons.device == "cuda" else f"about {_training_minutes(model, lessons):.0f} minutes"
    question = f"train {model.name} for short windows first? It takes {about} on this machine; Ctrl-C saves"
    if wanted is None and not typer.confirm(question, err=True):
        return None
    say(f"training {model.name} for short windows: {about}; Ctrl-C saves, and the same command continues")
    return lessons.teach(audio)


def _training_minutes(model: "WhisperModel", lessons: Lessons) -> float:
    """The minutes of processor time that training takes, judged by the time of a padded window."""
    import numpy as np

    mel = np.zeros((model.dims.n_mels, 2 * model.dims.n_audio_ctx), np.float32)
    model.encode(mel)
    began = time.perf_counter()
    model.encode(mel)
    padded_s = time.perf_counter() - began
    return padded_s * (ANSWER * lessons.windows + UPDATE * lessons.updates) / 60


def _measure(model: "WhisperModel", recordings: "Sequence[FloatArray]", *, short: bool = False) -> "Tuning":
    """Measure on these recordings, or on the bundled one."""
    from whispertide.cli.bundled import bundled_audio
    from whispertide.cli.progress import counting
    from whispertide.tuning.tune import tune as measure

    with counting("steps") as advance:
        return measure(model, recordings or [bundled_audio()], short=short, advance=advance)


def _keeps_earlier(before: "Calibration | None", found: "Tuning") -> bool:
    """True if the earlier result stays: the new one found nothing, or is of the short form and the earlier was not."""
    return before is not None and bool(before.changes) and (found.chosen is None or (found.short and not before.short))


def save_tuning(model: "WhisperModel", found: "Tuning") -> Path:
    """Save the result, unless a better one was saved before; returns the path. Raises `OutputError`."""
    from whispertide.checkpoint.cache import cache_dir
    from whispertide.recipes.calibration import place, recall, remember

    before = recall(model.adapted_hash)
    if _keeps_earlier(before, found):
        return place(model.adapted_hash)
    with writing(cache_dir(), CHOOSE_CACHE):
        return remember(model.adapted_hash, found.calibration(before))


def tune_first(transcriber: "Transcriber", recipe: "Recipe", *, refused: bool) -> None:
    """Tune in the short form, before a live session with a checkpoint that nothing is known of.

    Nothing happens where the recipe names its framing or where something is known. Where it is refused, or nobody sits
    at a terminal to refuse it, a line says how it is done.
    """
    if recipe.framing.kind != "auto" or transcriber.is_known:
        return
    if refused or not may_ask():
        say(f"{transcriber.name} was never tuned; `whispertide tune {transcriber.model.checkpoint.argument}` does it")
        return
    say(f"tuning for {transcriber.name} (once, at most 20 s; --no-tune skips it)")
    found = _measure(transcriber.model, [], short=True)
    try:
        save_tuning(transcriber.model, found)
        transcriber.look_again()
    except OutputError as error:
        say(f"warning: {error}")
        transcriber.calibration = found.calibration()  # at least for this time


def may_ask() -> bool:
    """True if standard input is a terminal: a program that runs this one must not wait for an answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def _page_of(kept: Path) -> Path:
    """The default path of the page."""
    return kept.with_suffix(".html")


def _forget(model: "WhisperModel") -> bool:
    """Remove the result, and the page next to it; True if there was one."""
    from whispertide.recipes.calibration import forget, place

    try:
        _page_of(place(model.adapted_hash)).unlink(missing_ok=True)
        return forget(model.adapted_hash)
    except OSError as error:
        raise OutputError(f"cannot remove the result ({error})") from error


def _show(found: "Tuning") -> None:
    from whispertide.tuning.tune_page import text

    typer.echo(text(found))
    typer.echo()


def _write_page(found: "Tuning", path: Path, *, asked: bool) -> None:
    """Write the page, with a plot if the extra for plots is installed; an explicit page without it says how to install
    it.
    """
    if not asked and find_spec("matplotlib") is None:
        say(f"no page with a plot, which needs matplotlib; {how_to_install('plots')}")
        return
    from whispertide.tuning.tune_page import html

    with writing(path):
        write_text(path, html(found))
    say(f"the page: {path}")
