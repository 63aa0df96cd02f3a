"""What JSON made of values becomes these values again, of every type that is stored."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from each_row import each_row
from whispertide.methods.pilot.pilot import Scores
from whispertide.recipes.allocation import Allocation, Measured, Placement
from whispertide_lab.evaluation.items.commands import Way
from whispertide_lab.evaluation.items.offloading import Both
from whispertide_lab.evaluation.items.static_decoding import Speed
from whispertide_lab.evaluation.items.whisperkit_compression import Row
from whispertide_lab.evaluation.wer import Counts
from whispertide_lab.from_json import built
from whispertide_lab.training.latecontext.understood import CommandResult

ALONE, BESIDE = Allocation(Placement("cpu", 2)), Allocation(Placement("cpu", 1), Placement("cpu", 1))
VALUES: list[tuple[Any, Any]] = [
    (list[Speed], [Speed("steps", 10, 500.0, 9, 3.0)]),
    (list[Measured], [Measured(ALONE, 0.2, 0.1), Measured(BESIDE, 0.3, 0.2)]),
    (dict[str, dict[str, float]], {"convolutions": {"encoder": 1.5}}),
    (list[float], [1.0, 2.0]),
    (Way, Way([0.1], [(1, 10)], 0.5, [1.2], [(Scores((-0.5, -0.1), 0.3), 0.1)])),
    (list[Both], [Both(10, 4.0, {"perplexity": 1.5}, 1, 0.1, 0, 0.2)]),
    (list[Row], [Row("d750", "fp16", 10, 1.0, 0.0, {"whisperkit": Counts(5, substitutions=1)})]),
    (dict[str, list[CommandResult]], {"every 1 s": [CommandResult(1, 4, True, 2.0, None, 0.5, None, 1.5)]}),
    (tuple[int, ...] | None, (1, 2)),
    (tuple[int, ...] | None, None),
]


@each_row(("kind", "value"), VALUES)
def test_a_value_comes_back(kind: Any, value: Any) -> None:
    found = built(kind, json.loads(json.dumps(value, default=asdict)))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("value", [{"way": "steps"}, {"another": 1}, "steps", [1, 2]])
def test_what_is_no_such_value_is_refused(value: object) -> None:
    with pytest.raises((TypeError, KeyError)):
        built(Speed, value)
