"""The voices that may be trained on, and how each speaks: at what rate and pitch, how lively.

A voice is named as "espeak-ng:en-us+m1", "flite:slt" or "festival:kdl". Those of `speech.voices.HELD_OUT`
are never among them, nor whatever is made from them: the accents, the variants on top of any other accent, variants
copied from these, and the same speaker in another synthesizer (festival's kal_diphone is flite's kal; kal16 is known
to be trained on). Knows nothing of how a synthesizer is called.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whispertide.errors import OptionError
from whispertide_lab.speech.voices import HELD_OUT

Dice = np.random.RandomState

# How often each synthesizer speaks: the shares of those asked for, scaled to 1.
SHARES = {"espeak-ng": 0.45, "flite": 0.4, "festival": 0.15}

_ACCENTS = ("en-us", "en-us", "en-us", "en")  # American as often as text is
_NAMES = """m1 m2 m4 m6 m7 m8 f1 klatt klatt3 klatt4 klatt5 croak steph steph2 steph3 belinda adam ed edward john max
    zac rob robert Alex Alicia Andrea Andy Annie Denis Diogo Gene Gene2 Henrique Hugo Jacky Lee Marco Mario Michael Mike
    Nguyen anika antonio benjamin boris caleb david grandma grandpa iven iven3 marcelo michel miguel norbert pablo paul
    pedro quincy sandro shelby travis victor"""
_VARIANTS = tuple(_NAMES.split())
_PLAIN = 6  # how much likelier an accent is without a variant than with any one of them

# Most of the formants of these are those of f2 or f4 (espeak-ng-data/voices/!v).
_COPIED = frozenset(("f5", "whisperf", "aunty", "linda"))
_SPEAKERS = {"kal": "kal_diphone"}  # flite's name -> festival's

VOICES = (
    *(f"espeak-ng:{accent}" for accent in dict.fromkeys(_ACCENTS)),
    *(f"espeak-ng:{accent}+{variant}" for accent in dict.fromkeys(_ACCENTS) for variant in _VARIANTS),
    *(f"flite:{voice}" for voice in ("slt", "rms", "awb", "kal16")),
    *(f"festival:{voice}" for voice in ("kdl", "slt")),
)


@dataclass(frozen=True, slots=True)
class Manner:
    """A voice, and how it speaks this time.

    `rate` and `pitch` are factors on the voice's own; `melody`, -1 to 1, is how lively its melody is (espeak-ng alone).
    """

    voice: str
    rate: float
    pitch: float
    melody: float


def is_held_out(voice: str) -> bool:
    """Whether a voice is for evaluation only, or made from one that is."""
    synthesizer, _, name = voice.partition(":")
    if synthesizer != "espeak-ng":
        names = {held.name for held in HELD_OUT if held.synthesizer == "flite"}
        return name in names or name in {_SPEAKERS[held] for held in names}
    held = [one.name.partition("+") for one in HELD_OUT if one.synthesizer == "espeak-ng"]
    variants = {variant for _, _, variant in held if variant} | _COPIED
    accents = {accent for accent, _, _ in held} - set(_ACCENTS)
    accent, _, variant = name.partition("+")
    return accent in accents or variant in variants


def choose_voices(asked: Sequence[str]) -> tuple[str, ...]:
    """The voices that are asked for, by synthesizer ("flite") or one by one ("flite:slt"); all where none is.

    Raises `OptionError` for one that is not known, or is held out for evaluation.
    """
    chosen: list[str] = []
    for name in asked or tuple(SHARES):
        found = [voice for voice in VOICES if name in (voice, voice.partition(":")[0])]
        if not found:
            held = " (it is held out for evaluation, or made from a voice that is)" if is_held_out(name) else ""
            raise OptionError(
                f"expected a voice to train on: {', '.join(SHARES)}, or one of theirs like {VOICES[2]} or flite:slt; "
                f"got {name!r}{held}"
            )
        chosen += found
    return tuple(dict.fromkeys(chosen))


def draw_manner(voices: Sequence[str], dice: Dice) -> Manner:
    """One of `voices` in a manner of its own; synthesizers by their shares, then voices of one alike."""
    kinds = list(dict.fromkeys(voice.partition(":")[0] for voice in voices))
    edges = np.cumsum([SHARES[kind] for kind in kinds])
    kind = kinds[int(np.searchsorted(edges, dice.random_sample() * edges[-1], side="right"))]
    theirs = [voice for voice in voices if voice.startswith(f"{kind}:")]
    weights = np.cumsum([_weight(voice) for voice in theirs])
    voice = theirs[int(np.searchsorted(weights, dice.random_sample() * weights[-1], side="right"))]
    return Manner(
        voice=voice,
        rate=0.75 + 0.55 * dice.random_sample(),
        pitch=float(2 ** np.clip(0.2 * dice.standard_normal(), -0.45, 0.45)),
        melody=2 * dice.random_sample() - 1,
    )


def _weight(voice: str) -> int:
    kind, _, name = voice.partition(":")
    if kind != "espeak-ng":
        return 1
    accent, plus, _ = name.partition("+")
    return _ACCENTS.count(accent) * (1 if plus else _PLAIN)
