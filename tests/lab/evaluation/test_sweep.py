from pathlib import Path

from evaluation_cells import make_cell, results_in
from whispertide.lab.evaluation.sweep import best_step, sweeps


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


def test_a_sweep_differs_in_nothing_but_the_step(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    steps = [make_cell(results, step_s=step) for step in (0.5, 1.0)]
    others = [
        make_cell(results, changes=("framing=bare",)),
        make_cell(results, clock="free"),
        make_cell(results, model="base.en"),
        make_cell(results, recogniser="peer:whisper-streaming"),
    ]
    offline = make_cell(results, recogniser="offline", step_s=None, streaming=False)
    assert sweeps([*steps, *others, offline]) == [steps, *([cell] for cell in others)]
