"""Which cells a benchmark has: recipes, peers, models, corpora and steps in every combination.

Only names and settings are looked at; nothing is loaded and nothing is measured here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from whispertide.errors import OptionError
from whispertide.methods.short.hush import HushWord
from whispertide.options import EngineOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe, parse_overrides
from whispertide.recipes.short_windows import as_tuned
from whispertide.streaming.choice import parse_value
from whispertide_lab.evaluation.corpora.parts import PIECES

if TYPE_CHECKING:
    from whispertide_lab.evaluation.peers import Peer

OFFLINE = "offline"
QUICK_S = 60.0  # of audio: with the bundled model a quick run ends within two minutes on two slow cores
PEER = "peer:"  # before the names of other programs, some of which are called like our recipes
TUNED = "tuned"  # beside the recipe in the name of a row
_NAMED_APART = ("name", "step_s")  # fields of a recipe that a cell shows in columns of their own


@dataclass(frozen=True, slots=True)
class Setup:
    """What all cells of a run share.

    excerpt_s   only so much of each corpus, infinity: all of it; None: a minute in a quick run, else `usual_s`
    pieces      of each excerpt, in as many voices
    usual_s     how much of a corpus is measured where nobody asked; None: all
    hush        hush words in place of those next to the checkpoint: the first for recipes, all to be compared
    align       words without exact times are placed by forced alignment
    aligner     the model that does it; empty: the first model
    """

    clock: str = "simulated"
    quick: bool = False
    excerpt_s: float | None = None
    seed: int = 0
    engine: EngineOptions = field(default_factory=EngineOptions)
    models: tuple[str, ...] = ("nano.en",)
    align: bool = False
    aligner: str = ""
    pieces: int = PIECES
    usual_s: float | None = None
    hush: tuple[HushWord, ...] = ()

    @property
    def length_s(self) -> float | None:
        """How much of each corpus is measured; None means all."""
        usual = QUICK_S if self.quick else self.usual_s
        length = usual if self.excerpt_s is None else self.excerpt_s
        return None if length is None or math.isinf(length) else length


@dataclass(frozen=True, slots=True)
class CellRequest:
    """A cell that is wanted. `recipe` is None for a peer, which has `settings` instead, and for offline
    transcription.
    """

    recogniser: str
    model: str
    corpus: str
    recipe: Recipe | None = None
    step_s: float | None = None
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)


def grid(
    recipes: Sequence[str],
    models: Sequence[str],
    corpora: Sequence[str],
    steps: Sequence[float],
    settings: Sequence[str],
    peers: Sequence[str] = (),
) -> list[CellRequest]:
    """Every combination, models outermost so that each is loaded once. `steps` empty: each recipe's own.

    `settings` ("field=value") change every recipe; a recipe may be "offline", which has no steps, and `peers` "all".
    Each peer has a cell at its defaults and one for each of its variants. The voice gate is on or off for all alike:
    `vad` is a setting of peers, too.
    Raises `UnknownRecipeError` or `OptionError`, before anything is measured.
    """
    chosen = [_variants(name, steps, settings) for name in recipes]
    chosen_peers = _known_peers(peers)
    gate = _gate_of(settings)
    requests = []
    for model, corpus in product(models, corpora):
        for name, variants in zip(recipes, chosen, strict=True):
            requests += [CellRequest(name, model, corpus, variant, variant.schedule.step_s) for variant in variants]
            requests += [CellRequest(OFFLINE, model, corpus)] * (name == OFFLINE)
        for peer in chosen_peers:
            peer_steps = steps if "step_s" in peer.defaults and steps else (None,)
            requests += [
                CellRequest(PEER + peer.name, model, corpus, step_s=step, settings={**variant, **_among(peer, gate)})
                for variant, step in product(({}, *peer.variants), peer_steps)
            ]
    if not requests:
        raise OptionError("expected at least one recipe or peer, one model and one corpus; got none of one of them")
    return requests


def _variants(name: str, steps: Sequence[float], settings: Sequence[str]) -> list[Recipe]:
    if name == OFFLINE:
        return []
    recipe = parse_overrides(get_recipe(name), settings)
    return [recipe.replace(step_s=step) for step in steps] or [recipe]


def _known_peers(names: Sequence[str]) -> "tuple[Peer, ...]":
    if not names:
        return ()
    from whispertide_lab.evaluation.peers import PEERS, get_peer

    return tuple(PEERS.values()) if "all" in names else tuple(get_peer(name) for name in names)


def _gate_of(settings: Sequence[str]) -> dict[str, bool]:
    """What the settings of recipes say of the voice gate, as a setting of a peer; empty if they say nothing."""
    for setting in settings:
        name, _, value = setting.partition("=")
        if name.strip() in ("vad", "schedule.vad"):
            return {"vad": parse_value("vad", bool, value.strip())}
    return {}


def _among(peer: "Peer", settings: Mapping[str, bool]) -> dict[str, bool]:
    """Those settings that a peer has."""
    return {name: value for name, value in settings.items() if name in peer.defaults}


def changes_of(recipe: Recipe) -> tuple[str, ...]:
    """The fields in which a recipe differs from the one of its name, as "field=value"; the step is not among them.

    A framing that is left open counts as the one that the recipe was tuned with.
    """
    recipe, original = as_tuned(recipe), as_tuned(get_recipe(recipe.name))
    before = original.settings()
    return tuple(
        f"{name}={text_of(value)}"
        for name, value in recipe.settings().items()
        if name not in _NAMED_APART and (name not in before or value != before[name])
    )


def text_of(value: object) -> str:
    """A setting as it would be typed."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
