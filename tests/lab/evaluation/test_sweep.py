from pathlib import Path

from evaluation_cells import make_cell, results_in
from whispertide_lab.evaluation.sweep import best_step


def test_the_best_step_is_the_soonest_of_those_that_hear_well(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    quick_but_deaf = make_cell(results, step_s=0.25, late_s=0.5, wer=0.111)
    good = make_cell(results, step_s=0.5, late_s=1.0, wer=0.109)
    slow = make_cell(results, step_s=1.0, late_s=2.0, wer=0.1)
    assert best_step([quick_but_deaf, slow, good]) == good
    assert best_step([quick_but_deaf]) == quick_but_deaf
    unheard = make_cell(results, step_s=2.0, score={"wer": None, "confirmed_mean_s": None})
    assert best_step([unheard]) is None
    assert best_step([unheard, slow]) == slow
