"""The log of a run as a picture: losses, learning rate, throughput. Matplotlib is imported when something is drawn."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from whispertide.atomic import replacing, writing
from whispertide.errors import OptionError
from whispertide.tuning.drawing import check_picture, new_figure
from whispertide_lab.training.loop import LOG, Figures, read_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "log.png"
_LOSSES = {
    "next": "next token",
    "held_out": "held out, averaged weights",
    "ctc": "letters (CTC, weighted)",
    "guide": "attention (weighted)",
}


def plot(run: Path, output: Path | None = None) -> Path:
    """Draw the log of a run into `output`, by default RUN/log.png; returns it. An older picture is replaced whole.

    Raises `OptionError` where matplotlib is not installed, the log is empty or the ending is unknown; `OutputError`.
    """
    output = output or run / PICTURE
    check_picture(output)
    if not run.is_dir():
        raise OptionError(f"expected the folder of a run; there is no {run}: check the path")
    log = read_log(run / LOG)
    if not log:
        raise OptionError(f"expected a run with a log in {run}; there is nothing in {LOG} yet: train on")
    with new_figure(figsize=(9, 7)) as figure:
        losses, gradient, rate, speed = figure.subplots(2, 2).flat
        for name, label in _LOSSES.items():
            _curve(losses, log, name, label)
        losses.set_yscale("log")
        _curve(gradient, log, "norm", "norm of the gradient")
        _curve(rate, log, "rate", "learning rate")
        _curve(speed, log, "speech_per_s", "seconds of speech per second")
        for axes in (losses, gradient, rate, speed):
            axes.set_xlabel("update")
            if axes.lines:  # a run of few updates has nothing to show in some
                axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)  # above the curves, not on them
    figure.suptitle(run.resolve().name)
    with writing(output), replacing(output) as unfinished:
        figure.savefig(unfinished, format=output.suffix[1:])
    return output


def _curve(axes: "Axes", log: Sequence[Figures], name: str, label: str) -> None:
    points = [(figures["step"], figures[name]) for figures in log if name in figures]
    if points:
        steps, values = zip(*points, strict=True)
        axes.plot(steps, values, label=label, marker="." if len(points) < 30 else "")
