"""What a recipe's search says of itself: hypotheses, what it follows, and what it is in place of another."""

import pytest

from each_row import each_row
from whispertide.decoding.draft import Reference
from whispertide.recipes.recipe import CHOICES
from whispertide.streaming.searches import Beam, Greedy, Pruned, Search, Verified


@each_row(
    ("search", "hypotheses"),
    [(Greedy(), 1), (Beam(), 5), (Beam(beam=7), 7), (Pruned(beam=3), 3), (Verified(beam=1), 1)],
)
def test_hypotheses_at_most(search: Search, hypotheses: int) -> None:
    assert search.hypotheses == hypotheses


@each_row(
    ("search", "reuse"),
    [
        (Greedy(), None),
        (Beam(), None),
        (Pruned(), Reference(align="bigram", recover=True)),
        (Pruned(align="first", recover=False), Reference(align="first", recover=False)),
        (Verified(), Reference(align="bigram", recover=True, block=True)),
        (Verified(align="time", recover=False), Reference(align="time", recover=False, block=True)),
    ],
)
def test_what_follows_the_text_of_an_earlier_round(search: Search, reuse: Reference | None) -> None:
    assert search.reuse == reuse


@pytest.mark.parametrize("search", [Beam(), Beam(beam=2), Pruned(), Verified()])
def test_a_machine_that_is_too_slow_searches_greedily(search: Search) -> None:
    assert search.narrowed() == Greedy()


@pytest.mark.parametrize("search", [Greedy(), Beam(beam=1), Verified(beam=1, align="time")])
def test_what_has_one_hypothesis_stays_as_it_is(search: Search) -> None:
    assert search.narrowed() is search


@each_row(
    ("now", "wanted", "found"),
    [
        (Greedy(), Beam, Beam()),
        (Beam(beam=3), Greedy, Greedy()),
        (Beam(beam=3), Pruned, Pruned(beam=3)),
        (Pruned(beam=3, align="time", recover=False), Verified, Verified(beam=3, align="time", recover=False)),
        (Pruned(beam=3, align="time"), Beam, Beam(beam=3)),
        (Verified(beam=1, align="time"), Pruned, Pruned(beam=5, align="time")),
        (Verified(beam=1), Beam, Beam(beam=5)),
        (Verified(beam=2), Beam, Beam(beam=2)),
        (Greedy(), Verified, Verified()),
    ],
)
def test_what_both_have_stays_but_a_beam_of_one(now: Search, wanted: type[Search], found: Search) -> None:
    assert wanted.instead_of(now) == found


def test_every_search_has_its_name() -> None:
    assert {name: kind.kind for name, kind in CHOICES["search"].items()} == {
        name: name for name in ("greedy", "beam", "pruned", "verified")
    }
