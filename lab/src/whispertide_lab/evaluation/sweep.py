"""The best step of a recogniser, from cells that differ in nothing else.

A short step shows words sooner and hears them worse. The best one is the soonest of those that hear well: among the
steps whose word error rate is at most a point above the lowest of the sweep, the one with the lowest mean confirmed
latency. Chosen on the audio that is reported, for ours and for other programs alike.
"""

from collections.abc import Sequence

from whispertide_lab.evaluation.store import Cell

TOLERANCE = 0.01  # of the word error rate


def best_step(cells: Sequence[Cell]) -> Cell | None:
    """The cell with the best step; None where no cell has both a word error rate and a latency."""
    known = [cell for cell in cells if None not in (cell.score.get("wer"), cell.score.get("confirmed_mean_s"))]
    if not known:
        return None
    lowest = min(float(cell.score["wer"]) for cell in known)
    good = [cell for cell in known if float(cell.score["wer"]) <= lowest + TOLERANCE]
    return min(good, key=lambda cell: float(cell.score["confirmed_mean_s"]))
