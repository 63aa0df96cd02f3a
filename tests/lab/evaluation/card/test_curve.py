"""Word errors against hours of training."""

import pytest

from card_values import RIGHT, WRONG, make_card, make_result
from whispertide_lab.evaluation.card.curve import curve_table, draw_curve, points
from whispertide_lab.evaluation.card.sets import UNPADDED


@pytest.mark.slow
def test_errors_against_hours() -> None:
    more = make_card(make_result([RIGHT] * 30), name="more", hours=100)
    less = make_card(make_result([WRONG] * 30), make_result([WRONG] * 30, mode=UNPADDED.name), name="less", hours=10.0)
    found = points([more, make_card(make_result([WRONG] * 30), name="unknown"), less])
    assert [(point.model, point.hours) for point in found] == [("less", 10.0), ("more", 100.0)]
    assert found[0].wer == pytest.approx(0.3)
    assert curve_table(found).rows[1] == ("trained voices, grammar", "100", "100", "0.0", "0.0 to 0.0", "more")
    again = make_card(make_result([WRONG] * 30), name="again", hours=10.0, hours_heard=300)
    assert [(point.model, point.hours) for point in points([more, again])] == [("more", 100.0), ("again", 300.0)]
    assert "<img" in draw_curve(found)
