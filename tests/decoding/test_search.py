"""What searching has cost adds up."""

from whispertide.decoding.search import NO_STEPS, Hypothesized, Steps


def test_runs_of_one_row_are_narrow() -> None:
    assert Steps.run(1) == Steps(runs=1, rows=1, narrow=1)
    assert Steps.run(5) == Steps(runs=1, rows=5, narrow=0)
    assert Steps.run(1, prompt=True) + Steps.run(2) == Steps(runs=2, rows=3, narrow=1, prompts=1)


def test_costs_add_up() -> None:
    assert sum((Steps.run(rows) for rows in (1, 5, 5, 1)), NO_STEPS) == Steps(runs=4, rows=12, narrow=2)


def test_what_a_guard_leaves_of_a_text() -> None:
    whole = Hypothesized((1, 2, 3), (-1.0, -2.0, -3.0), -7.0)
    assert whole.cut(2) == Hypothesized((1, 2), (-1.0, -2.0), -3.0, "guard")
