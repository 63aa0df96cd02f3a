"""A table or figure of a paper: what it needs, what makes it, what it came to, what it still lacks here; what the paper
says of it, and whether that held.

What is missing is worked out from the recipes that exist, so an item cannot claim more than there is. Which there are
is in `papers`; how an item is measured is in `items`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Literal, get_args

from whispertide.errors import OptionError
from whispertide.recipes.catalogue import RECIPES
from whispertide.recipes.recipe import every_field
from whispertide.tuning.drawing import Drawing
from whispertide.tuning.page import Table
from whispertide.understand.checkpoint import Kind

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner

State = Literal["whole", "part", "missing"]
Verdict = Literal["confirmed", "refuted", "not decidable here", "not measured yet"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
DECIDED: tuple[Verdict, ...] = ("confirmed", "refuted")


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawn figure."""

    drawing: Drawing
    caption: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an item came to."""

    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    note: str = ""


Measure = Callable[["Runner"], Outcome]
_TRAINING = "training."


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of a paper (`published`) next to what was measured `here`, and the verdict with its reason.

    `result` is "FILE: heading", FILE as seen from lab/docs/, `command` what measured it; both are empty
    where nothing is stored. `own`: it was measured with a checkpoint of our own or on synthetic speech, so it decides
    nothing of what a paper says of Whisper and people.
    """

    published: str
    verdict: Verdict
    why: str
    here: str = ""
    result: str = ""
    command: str = ""
    own: bool = False

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise OptionError(f"expected a verdict among {', '.join(VERDICTS)}; got {self.verdict!r}")
        if not (self.published and self.why):
            raise OptionError(f"expected what the paper says and a reason; got {self.published!r} and {self.why!r}")
        if bool(self.here) != bool(self.result) or bool(self.result) != bool(self.command):
            raise OptionError(f"expected figures with result and command, or none of the three; got {self}")
        if self.verdict in DECIDED and not self.result:
            raise OptionError(f"expected a stored result for {self.verdict!r}; got none: {self.published}")
        if self.own and (self.verdict in DECIDED or not self.here):
            raise OptionError(f"expected figures of our own, and no verdict by them; got {self}")


@dataclass(frozen=True, slots=True)
class Item:
    """A table or figure, with the statements of the paper about it: `source` is where the paper has it, `stand_in` what
    ours is measured on. `needs` are features that its complete form takes, written "field=value" for a recipe's
    field, "recipe NAME" for a recipe, "network KIND" for a network that `train latecontext` can train, else in words
    for what nothing here can provide. `measure` names the function that makes it, in part or whole: "module.function"
    of `items`, or "training.module.function"; `covers` says which part. `corpora`: what it is made on, one after the
    other, where nobody asks for others, and `usual_s` how much of each, in seconds, if it is not as much as of every
    item. `timed`: it compares times of computing, so the processor's count (`Runner.timed_fairly`). `extra` is the
    laboratory's extra that it needs.
    """

    id: str
    title: str
    source: str
    stand_in: str
    needs: tuple[str, ...] = ()
    measure: str = ""
    covers: str = ""
    corpora: tuple[str, ...] = ("talks",)
    usual_s: float | None = None
    timed: bool = False
    extra: str = ""
    claims: tuple[Claim, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Those needs that are not met."""
        return tuple(need for need in self.needs if not _is_there(need))

    @property
    def state(self) -> State:
        """How much of it can be made."""
        if not self.measure:
            return "missing"
        return "part" if self.missing else "whole"

    @property
    def lacks(self) -> str:
        """One line: what is missing."""
        if self.missing:
            return ", ".join(self.missing)
        return "" if self.measure else "its measurement"

    def function(self) -> Measure | None:
        """What makes it."""
        if not self.measure:
            return None
        module, _, name = self.measure.rpartition(".")
        wing = "" if module.startswith(_TRAINING) else "evaluation.items."
        found: Measure = getattr(import_module(f"whispertide_lab.{wing}{module}"), name)
        return found


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper and the items of its evaluation; `summary` says in a paragraph what holds on real Whisper."""

    name: str
    title: str
    summary: str
    items: tuple[Item, ...]


def joined(outcomes: Mapping[str, Outcome]) -> Outcome:
    """What an item came to on several corpora, by their names: each table, plot and note says on which. A table that is
    the same on all, such as the paper's own, is there once.
    """
    if len(outcomes) == 1:
        return next(iter(outcomes.values()))
    first, *others = outcomes.values()
    same = [table for table in first.tables if all(table in other.tables for other in others)]
    tables, plots, notes = list[Table](), list[Plot](), list[str]()
    for name, outcome in outcomes.items():
        own = [table for table in outcome.tables if table not in same]
        tables += [replace(one, title=f"{name}: {one.title}" if one.title else name) for one in own]
        plots += [replace(one, caption=f"{one.caption}: {name}") for one in outcome.plots]
        notes += [f"{name}: {outcome.note}"] if outcome.note else []
    return Outcome((*tables, *same), tuple(plots), " ".join(notes))


def missing_line(item: Item) -> str:
    """What `bench paper` says of an item that it cannot make, or makes in part."""
    if item.state == "missing":
        return f"{item.id} ({item.title}): not yet; missing: {item.lacks}"
    return f"{item.id} ({item.title}): in part ({item.covers}); missing: {item.lacks}" if item.lacks else ""


def _is_there(need: str) -> bool:
    if need.startswith("recipe "):
        return need.removeprefix("recipe ") in RECIPES
    if need.startswith("network "):
        return need.removeprefix("network ") in get_args(Kind)
    field, equals, value = need.partition("=")
    return bool(equals) and value in every_field().get(field, ())
