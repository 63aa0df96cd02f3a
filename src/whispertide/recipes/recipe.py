"""Recipes: five choices. Each is a value that declares its own fields, next to the code that uses them.

    Recipe("tide", schedule=Adaptive(step_s=0.3), framing=AutoFraming(), search=Verified(beam=1), policy=Tide(...))

A change names a field (`step_s`, or `schedule.step_s` where two choices have one of that name) or a choice
(`search=beam`); a choice that is exchanged keeps the fields that both have. This module checks what goes together, and
reads changes as they are typed. It knows none of the published recipes and builds nothing.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, get_args

from whispertide.errors import OptionError
from whispertide.methods.agreement.held_agreement import HeldAgreement
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.grounded import Grounded
from whispertide.methods.attention.tide import Tide
from whispertide.methods.causal.blocks import Blocks
from whispertide.methods.causal.stable import Stable
from whispertide.methods.pilot.final import Final
from whispertide.methods.pilot.offramp import Hybrid
from whispertide.methods.pilot.pilots import Pilots
from whispertide.methods.short.masked import Masked
from whispertide.options import DecodeOptions
from whispertide.streaming.choice import Choice, field_types, parse_value
from whispertide.streaming.executors import Auto, ExecutorChoice, Pipelined, Serial
from whispertide.streaming.framing import AutoFraming, Bare, Buckets, Framing, Hush, Merged, Pad30, Zeros
from whispertide.streaming.policy import AnyPolicy
from whispertide.streaming.schedule import Adaptive, BestEffort, Fixed, Rounds
from whispertide.streaming.searches import Beam, Greedy, Pruned, Search, Verified


def _named(*choices: type[Choice]) -> dict[str, type[Choice]]:
    return {choice.kind: choice for choice in choices}


# Axis -> name -> choice. A new one is a line here; one that is only used as a value needs none.
CHOICES: Mapping[str, dict[str, type[Choice]]] = {
    "schedule": _named(Fixed, BestEffort, Adaptive, Pilots),
    "framing": _named(Pad30, Bare, Buckets, Zeros, Merged, Hush, Masked, AutoFraming, Blocks),
    "search": _named(Greedy, Beam, Pruned, Verified),
    "policy": _named(LocalAgreement, AlignAtt, Tide, Grounded, Stable, HeldAgreement, Final),
    "executor": _named(Serial, Pipelined, Hybrid, Auto),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """A way to turn a stream into rounds and rounds into words. Times in seconds, because a person sets them.

    schedule  when a round starts, and what ends an utterance
    framing   how a window of audio becomes encoder input
    search    how tokens are found
    policy    which words are confirmed when, and what audio and text the next round carries
    executor  where the work runs

    Raises `OptionError` for choices that do not go together.
    """

    name: str
    schedule: Rounds = field(default_factory=Fixed)
    framing: Framing = field(default_factory=Pad30)
    search: Search = field(default_factory=Beam)
    policy: AnyPolicy = field(default_factory=LocalAgreement)
    executor: ExecutorChoice = field(default_factory=Serial)

    def __post_init__(self) -> None:
        policy, search = self.policy, self.search
        if search.kind not in policy.searches:
            raise OptionError(
                f"expected search={' or '.join(policy.searches)} with policy={policy.kind}; got search={search.kind}. "
                "A search that follows the previous round's text needs rounds that decode the same audio again"
            )
        if policy.streams != self.framing.streams:
            raise OptionError(
                f"expected framing=blocks with policy=stable, and with no other; got framing={self.framing.kind} with "
                f"policy={policy.kind}. Blocks are pieces of one stream, which needs a causal encoder"
            )
        if self.executor.overlaps and not policy.overlaps:
            raise OptionError(
                f"expected policy=local-agreement with executor=pipelined; got policy={policy.kind}. It begins a round "
                "with the words that the last one confirmed, so rounds cannot overlap. Use executor=serial or auto"
            )
        if self.executor.ahead and policy.forces:
            raise OptionError(
                f"expected policy=final or local-agreement with executor={self.executor.kind}; got "
                f"policy={policy.kind}. It begins a round with the words that the last one confirmed, and here a round "
                "is planned before the last one is done. Use executor=serial or auto"
            )

    @property
    def choices(self) -> dict[str, Choice]:
        """The five, by axis."""
        return {axis: getattr(self, axis) for axis in CHOICES}

    @property
    def usual_window_s(self) -> float:
        """The usual limit of windows, in seconds without padding: that for which a round has to be computed."""
        return min(self.policy.usual_s + self.schedule.step_s, self.policy.hard_cap_s)

    def warn_of_ignored(self, options: DecodeOptions) -> None:
        """Warn of options that were set, and that a choice ignores."""
        usual = DecodeOptions()
        ignored = (name for choice in self.choices.values() for name in choice.ignores)
        if names := [name for name in ignored if getattr(options, name) != getattr(usual, name)]:
            warnings.warn(f"recipe {self.name}: options without effect: {', '.join(names)}", stacklevel=3)

    def settings(self) -> dict[str, Any]:
        """All of it, flat: the choices by name and their fields, as `replace` takes them."""
        flat: dict[str, Any] = {axis: choice.kind for axis, choice in self.choices.items()}
        for axis, choice in self.choices.items():
            flat |= {self.short(axis, name): getattr(choice, name) for name in field_types(type(choice))}
        return flat

    def short(self, axis: str, name: str) -> str:
        """The name of the field for people: alone, where it is unique among the five."""
        return name if len(self._owners(name)) == 1 else f"{axis}.{name}"

    def replace(self, **changes: Any) -> "Recipe":
        """The recipe with some choices or fields changed; fields that bound each other may come in any order. A wanted
        delay of words (`Tide.delay_s`) sets the step of rounds, too, where nothing else has set it.

        Raises `OptionError` for an unknown field or an impossible value.
        """
        name = changes.pop("name", self.name)
        given = {axis: _given(axis, changes.pop(axis, None), choice) for axis, choice in self.choices.items()}
        among = _Choices({axis: kind for axis, (kind, _) in given.items()})
        of_axis: dict[str, dict[str, Any]] = {axis: {} for axis in CHOICES}
        for key, value in changes.items():
            axis, item = among.locate(key)
            of_axis[axis][item] = value
        # All changes of a choice at once: fields that bound each other are checked together.
        changed: dict[str, Any] = {axis: kind.instead_of(was, **of_axis[axis]) for axis, (kind, was) in given.items()}
        recipe = Recipe(name, **changed)
        before_s, wanted_s = _step_for_delay(self.policy), _step_for_delay(recipe.policy)
        is_free = "step_s" not in of_axis["schedule"] and before_s in (0, self.schedule.step_s)
        return recipe.with_step(wanted_s) if is_free and wanted_s not in (0, before_s) else recipe

    def with_step(self, step_s: float) -> "Recipe":
        """With so long a step, and at least as long a longest one."""
        return replace(self, schedule=self.schedule.with_step(step_s))

    def has(self, name: str) -> bool:
        """True if a change of that name is one of the recipe."""
        return name in CHOICES or name == "name" or "." in name or bool(self._owners(name))

    def _owners(self, name: str) -> list[str]:
        return _Choices({axis: type(choice) for axis, choice in self.choices.items()}).owners(name)


def _step_for_delay(policy: AnyPolicy) -> float:
    """The step with which words have the wanted delay, in seconds; 0: any (`methods.attention.delay`)."""
    return policy.patience.step_s if isinstance(policy, Tide) and policy.delay_s else 0.0


@dataclass(frozen=True, slots=True)
class _Choices:
    """Five kinds of choices, in whose fields names are looked up."""

    by_axis: Mapping[str, type[Choice]]

    def owners(self, name: str) -> list[str]:
        return [axis for axis, choice in self.by_axis.items() if name in field_types(choice)]

    def locate(self, key: str) -> tuple[str, str]:
        """The axis and the field that a name means. Raises `OptionError` where it means none, or several."""
        axis, dot, name = key.rpartition(".")
        if dot:
            if axis in self.by_axis and name in field_types(self.by_axis[axis]):
                return axis, name
            raise self._unknown(key, axis)
        owners = self.owners(key)
        if len(owners) == 1:
            return owners[0], key
        if owners:
            raise OptionError(f"expected one of {', '.join(f'{axis}.{key}' for axis in owners)}; got {key}")
        raise self._unknown(key, None)

    def _unknown(self, key: str, axis: str | None) -> OptionError:
        """Says where the field is, if another choice has it, or else which there are."""
        name = key.rpartition(".")[2]
        elsewhere = [
            f"{one}={kind}"
            for one, named in CHOICES.items()
            for kind, choice in named.items()
            if name in field_types(choice)
        ]
        if axis is not None and axis in self.by_axis:
            chosen = self.by_axis[axis]
            there = ", ".join(field_types(chosen)) or "no fields"
            return OptionError(f"expected a field of {axis}={chosen.kind}; got {name!r}; it has {there}")
        if elsewhere:
            now = ", ".join(f"{one}={choice.kind}" for one, choice in self.by_axis.items())
            return OptionError(f"expected a field of this recipe ({now}); {name!r} belongs to {' or '.join(elsewhere)}")
        names = [*self.by_axis, *(item for choice in self.by_axis.values() for item in field_types(choice))]
        near = get_close_matches(key, names, n=3, cutoff=0.7)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(names)}"
        return OptionError(f"expected a field of a recipe; got {key!r}; {hint}")


def _given(axis: str, wanted: Any, now: Choice) -> tuple[type[Choice], Choice]:
    """The kind of choice that is wanted in place of `now`, and the choice whose fields it keeps; None: `now`."""
    if wanted is None or wanted == now.kind:
        return type(now), now
    if isinstance(wanted, Choice):
        return type(wanted), wanted
    named = CHOICES[axis]
    if not isinstance(wanted, str) or wanted not in named:
        raise OptionError(f"expected {axis} to be one of {', '.join(named)}; got {wanted!r}")
    return named[wanted], now


def divided(recipe: Recipe, changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Changes of the recipe, and changes of the decode options. How many hypotheses there are is the recipe's affair.

    Raises `OptionError` for what is in neither.
    """
    in_options = {item.name for item in fields(DecodeOptions)} - {"beam"}
    known = in_options | every_field().keys() | {"name"}
    if wrong := sorted(name for name in changes if name.rpartition(".")[2] not in known):
        there = ", ".join([*recipe.settings(), *sorted(in_options)])
        raise OptionError(f"expected settings that can change: {there}; got {', '.join(wrong)}")
    # Where both know the name it is the recipe's.
    of_options = {name: value for name, value in changes.items() if name in in_options and not recipe.has(name)}
    return {name: value for name, value in changes.items() if name not in of_options}, of_options


def every_field() -> dict[str, tuple[Any, ...]]:
    """Name -> what may be written after "=", where that has names; of all fields of all choices, and the axes."""
    known: dict[str, tuple[Any, ...]] = {axis: tuple(named) for axis, named in CHOICES.items()}
    for named in CHOICES.values():
        for choice in named.values():
            for name, kind in field_types(choice).items():
                known.setdefault(name, ("true", "false") if kind is bool else get_args(kind))
    return known


def parse_overrides(recipe: Recipe, settings: Iterable[str]) -> Recipe:
    """`recipe` with `settings` such as "step_s=0.5", "policy.margin_s=0.3" or "search=beam".

    Raises `OptionError` if one is not of the form FIELD=VALUE, names no field, or has a value that does not fit.
    """
    texts: dict[str, str] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise OptionError(f"expected FIELD=VALUE, for example step_s=0.5; got {setting!r}")
        key = name.strip().replace("-", "_")
        texts.pop(key, None)  # the last one counts, also where a field is given by both of its names
        texts[key] = text.strip()
    # Choices first: the type of a field is that of the choice which the changes lead to, in whatever order they come.
    chosen = {name: text for name, text in texts.items() if name in CHOICES or name == "name"}
    among = _Choices({axis: _given(axis, chosen.get(axis), choice)[0] for axis, choice in recipe.choices.items()})
    values: dict[str, Any] = dict(chosen)
    for key, text in texts.items():
        if key not in chosen:
            axis, name = among.locate(key)
            values[key] = parse_value(name, field_types(among.by_axis[axis])[name], text)
    return recipe.replace(**values)
