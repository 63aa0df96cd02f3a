"""Recipes: the published systems as choices of schedule, framing, search, policy and executor, under their names.

A recipe is flat, so that an ablation is a change of one field. This module checks recipes and builds their schedules,
policies and gates; framing, search and executor are built where the model is. It knows no model and no audio.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from dataclasses import replace as replace_fields
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from whispertide.audio.vad import GateOptions, SpeechGate
from whispertide.errors import OptionError, UnknownRecipeError
from whispertide.options import DecodeOptions
from whispertide.streaming.local_agreement import Boundary, Compare, LocalAgreement, Trim
from whispertide.streaming.policy import AnyPolicy
from whispertide.streaming.schedule import BestEffort, FixedStep, Schedule
from whispertide.types import CHUNK_SECONDS, to_samples


def _check_type(name: str, kind: Any, value: Any) -> None:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise OptionError(f"expected {name} to be one of {', '.join(get_args(kind))}; got {value!r}")
        return
    accepted = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise OptionError(f"expected {name} to be of type {kind.__name__}; got {value!r}")


def _check_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise OptionError(f"expected {name} between {least:g} and {most:g}; got {value:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a stream is turned into rounds and rounds into words. Times in seconds, because a person sets them.

    schedule      "fixed": a round when `step_s` seconds have arrived; "best-effort": when the previous one is done and
                  `step_s` seconds have arrived. Both take all that has arrived.
    framing       "pad30": every window is padded to 30 s; "bare": as long as it is
    search        "beam" (of `beam` hypotheses) or "greedy"
    policy        "local-agreement": `agreement` rounds must hear a word
    compare       "normalised": without case and punctuation; "exact": as written
    boundary      how words heard again are recognised: "align" or, as in whisper_streaming, by "time"
    trim          windows longer than `trim_s` are cut at a confirmed "segment" or "sentence" end
    hard_cap_s    windows never get longer; then words are confirmed without agreement
    no_speech     segments whose no-speech probability is higher are dropped
    prompt_chars  how much confirmed text precedes the window as prompt (0 = none)
    loop_guard    cut down repetition loops before they can be confirmed
    vad           whether a voice gate keeps silence out; `vad_pause_s` of it ends an utterance, `vad_pre_roll_s` before
                  the first speech is kept
    executor      "serial": one round after the other
    lag_s         more audio than this behind the last round is reported as lag
    """

    name: str
    schedule: Literal["fixed", "best-effort"] = "fixed"
    step_s: float = 1.0
    framing: Literal["pad30", "bare"] = "pad30"
    search: Literal["greedy", "beam"] = "beam"
    beam: int = 5
    policy: Literal["local-agreement"] = "local-agreement"
    agreement: int = 2
    compare: Compare = "normalised"
    boundary: Boundary = "align"
    trim: Trim = "segment"
    trim_s: float = 15.0
    hard_cap_s: float = 28.0
    no_speech: float = 0.9
    prompt_chars: int = 200
    loop_guard: bool = True
    vad: bool = True
    vad_pause_s: float = 0.5
    vad_pre_roll_s: float = 1.0
    executor: Literal["serial"] = "serial"
    lag_s: float = 5.0

    def __post_init__(self) -> None:
        for name, kind in field_types().items():
            _check_type(name, kind, getattr(self, name))
        _check_range("step_s", self.step_s, 0.02, CHUNK_SECONDS)
        _check_range("beam", self.beam, 1, 64)
        _check_range("agreement", self.agreement, 2, 10)
        _check_range("hard_cap_s", self.hard_cap_s, 4, CHUNK_SECONDS)
        _check_range("trim_s", self.trim_s, 1, self.hard_cap_s)
        _check_range("no_speech", self.no_speech, 0, 1)
        _check_range("prompt_chars", self.prompt_chars, 0, 2000)
        _check_range("vad_pause_s", self.vad_pause_s, 0.1, CHUNK_SECONDS)
        _check_range("vad_pre_roll_s", self.vad_pre_roll_s, 0, CHUNK_SECONDS)
        _check_range("lag_s", self.lag_s, 0.1, 3600)

    def replace(self, **changes: Any) -> "Recipe":
        """The recipe with some fields changed. Raises `OptionError` for an unknown field or an impossible value."""
        if unknown := changes.keys() - field_types().keys():
            raise OptionError(
                f"expected fields of a recipe ({', '.join(field_types())}); got {', '.join(sorted(unknown))}"
            )
        return replace_fields(self, **changes)


def field_types() -> Mapping[str, Any]:
    """Name -> type of every field of a recipe, in order."""
    return _FIELD_TYPES


_hints = get_type_hints(Recipe)
_FIELD_TYPES: Mapping[str, Any] = MappingProxyType({item.name: _hints[item.name] for item in fields(Recipe)})

DEFAULT_RECIPE = "whisper-streaming"
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {recipe.name: recipe for recipe in (Recipe(name="whisper-streaming", schedule="fixed", step_s=1.0, beam=5),)}
)


def get_recipe(name: str) -> Recipe:
    """The recipe of that name. Raises `UnknownRecipeError`, which lists those that exist."""
    if name not in RECIPES:
        raise UnknownRecipeError(f"expected a recipe among {', '.join(RECIPES)}; got {name!r}")
    return RECIPES[name]


def parse_overrides(recipe: Recipe, settings: Iterable[str]) -> Recipe:
    """`recipe` with `settings` such as "step_s=0.5" applied in order.

    Raises `OptionError` if one is not of the form FIELD=VALUE, names no field, or has a value that does not fit.
    """
    changes: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise OptionError(f"expected FIELD=VALUE, for example step_s=0.5; got {setting!r}")
        if name not in field_types():
            raise OptionError(f"expected a field of a recipe ({', '.join(field_types())}); got {name!r}")
        changes[name] = _parse(name, field_types()[name], text.strip())
    return recipe.replace(**changes)


def make_schedule(recipe: Recipe) -> Schedule:
    """When rounds start."""
    step = to_samples(recipe.step_s)
    return FixedStep(step) if recipe.schedule == "fixed" else BestEffort(step)


def make_policy(recipe: Recipe) -> AnyPolicy:
    """What is confirmed when."""
    return LocalAgreement(
        agreement=recipe.agreement,
        compare=recipe.compare,
        boundary=recipe.boundary,
        trim_at=recipe.trim,
        trim=to_samples(recipe.trim_s),
        hard_cap=to_samples(recipe.hard_cap_s),
        no_speech=recipe.no_speech,
        prompt_chars=recipe.prompt_chars,
        guard=recipe.loop_guard,
    )


def make_gate(recipe: Recipe) -> SpeechGate | None:
    """The voice gate, or None if the recipe has none. Raises `CheckpointError` if its weights are missing."""
    if not recipe.vad:
        return None
    pad = min(GateOptions().post_pad, recipe.vad_pause_s)
    return SpeechGate(GateOptions(min_silence=recipe.vad_pause_s, pre_roll=recipe.vad_pre_roll_s, post_pad=pad))


def decode_options(recipe: Recipe, options: DecodeOptions) -> DecodeOptions:
    """`options` with the recipe's search: `beam` is the recipe's affair, what is written down the user's."""
    return replace_fields(options, beam=recipe.beam if recipe.search == "beam" else 1)


_SWITCH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _parse(name: str, kind: Any, text: str) -> Any:
    """`text` as a value of the field's type; a text that is none is an `OptionError`."""
    if kind is bool:
        if text.lower() not in _SWITCH:
            raise OptionError(f"expected {name} to be true or false; got {text!r}")
        return _SWITCH[text.lower()]
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            expected = "a whole number" if kind is int else "a number"
            raise OptionError(f"expected {name} to be {expected}; got {text!r}") from None
    return text
