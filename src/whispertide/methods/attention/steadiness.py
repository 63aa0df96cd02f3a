"""The chance that a word of a guess stays: a logistic model over what a round knows of it anyway.

Whether a word will still be there when the utterance is over is a prediction, and the answer is in every stream without
a transcript: record the rounds, look at the end. `facts_of` takes down what a round knows, a `Rule` turns that into a
chance, `likely_shown` chooses by it what of a guess is shown. `tuning.steadiness` fits the weights. Two rules come with
the package (`bundled/steadiness.json`): the general one was fitted to the project's own checkpoint, `base` to OpenAI's.

Pure functions over words; the arithmetic is a sum of products, so that it is the same everywhere. Times are samples.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from operator import mul

from whispertide.decoding.token_words import TokenWord
from whispertide.errors import OptionError
from whispertide.methods.attention.delay import DelayCurve, Patience
from whispertide.punctuation import ends_sentence
from whispertide.streaming.repetition import normalise
from whispertide.types import SAMPLE_RATE, Word, seconds

_SAME_PLACE = SAMPLE_RATE // 2  # two rounds mean the same word if their starts are no further apart
STALE = 2 * SAMPLE_RATE  # a shown word that rounds no longer hear stays so long
_SURE = 5.0  # log-odds: a probability of 0.9933; beyond it decoders are not told apart
GENERAL = "general"  # the rule of every checkpoint that has none of its own
FEATURES = (
    *("one", "frontier_1s", "frontier_0.5s", "frontier_0.2s", "ended_1s", "ended_0.3s", "width"),
    *("probability", "least", "weakest_before", "next", "probability_near"),
    *(
        "heard_twice",
        "heard_three_times",
        "heard_twice_near",
        "one_after",
        "more_after",
        "firm",
        "stop",
        "stop_near",
        "step",
    ),
)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that a round knows of a word of its guess.

    frontier     samples from where its last token attends to, to the end of the audio
    ended        samples from its end to the end of the audio
    width        frames of audio that its last token attends to at least half as much as to its strongest one
    probability, least   of its tokens: the mean, the smallest
    before       the smallest probability of the unconfirmed words before it (1: there are none)
    following    probability of the word after it (None: there is none)
    after        words after it
    rounds       rounds in a row that found it, this one included
    firm         whether the frontier's guard let it stand
    closes       whether it ends a sentence
    step         samples since the round before
    """

    frontier: int
    ended: int
    width: int
    probability: float
    least: float
    before: float
    following: float | None
    after: int
    rounds: int
    firm: bool
    closes: bool
    step: int

    def features(self) -> tuple[float, ...]:
        """The numbers in the order of `FEATURES`, each about 1 in size."""
        frontier, ended = max(seconds(self.frontier), 0.0), max(seconds(self.ended), 0.0)
        near = max(0.0, 1 - frontier / 0.5)  # 1 at the end of the audio, 0 from half a second on
        sure, twice = _log_odds(self.probability), float(self.rounds >= 2)
        return (
            1.0,
            # One distance on three scales: a sum of weighted numbers cannot bend by itself.
            min(frontier, 1.0),
            min(frontier / 0.5, 1.0),
            min(frontier / 0.2, 1.0),
            min(ended, 1.0),
            min(ended / 0.3, 1.0),
            min(self.width / 25, 1.0),
            sure,
            _log_odds(self.least),
            _log_odds(self.before),
            0.0 if self.following is None else _log_odds(self.following),
            sure * near,
            twice,
            float(self.rounds >= 3),
            twice * near,
            float(self.after >= 1),
            min(self.after, 4) / 4,
            float(self.firm),
            float(self.closes),
            float(self.closes) * near,
            min(seconds(self.step), 2.0),
        )


def _log_odds(probability: float) -> float:
    """The log-odds, as a share of the largest that count: -1 to 1."""
    least = 1 / (1 + math.exp(_SURE))
    kept = min(max(probability, least), 1 - least)
    return math.log(kept / (1 - kept)) / _SURE


def facts_of(
    words: Sequence[TokenWord],
    before: Sequence[TokenWord],
    rounds: Sequence[int],
    *,
    firm: int,
    end: int,
    step: int,
) -> tuple[Facts, ...]:
    """The facts of `words`, all after the confirmed ones; the first `firm` of them the guard let stand.

    `before` is the guess so far, each word of which so many `rounds` in a row found. The audio ends at `end`, and
    `step` samples of it came since the round before.
    """
    known = list(zip(before, rounds, strict=False))
    found, weakest = [], 1.0
    for number, one in enumerate(words):
        after = words[number + 1 :]
        least = one.word.probability if one.least is None else one.least
        # The longest count, where a word stands several times nearby.
        heard = max((count for other, count in known if same(one.word, other.word)), default=0)
        found.append(
            Facts(
                frontier=end - one.spoken_by,
                ended=end - one.end,
                width=one.width,
                probability=one.word.probability,
                least=least,
                before=weakest,
                following=after[0].word.probability if after else None,
                after=len(after),
                rounds=1 + heard,
                firm=number < firm,
                closes=ends_sentence(one.word.text),
                step=step,
            )
        )
        weakest = min(weakest, least)
    return tuple(found)


def same(word: Word, other: Word) -> bool:
    """True if they are one word, found twice: spelling aside the same text at about the same place."""
    return normalise(word.text) == normalise(other.text) and abs(word.start - other.start) <= _SAME_PLACE


@dataclass(frozen=True, slots=True)
class Rule:
    """A weight for each of `FEATURES`."""

    weights: tuple[float, ...]

    def chance(self, facts: Facts) -> float:
        """That the word will be in the final text, 0 to 1."""
        # `fsum` rounds once, so that the order of the features makes no difference.
        total = math.fsum(map(mul, self.weights, facts.features()))
        # Beyond 50 the chance is 0 or 1 for all purposes; far beyond `exp` would overflow.
        return 1 / (1 + math.exp(-min(max(total, -50.0), 50.0)))

    def chances(self, every: Sequence[Facts]) -> tuple[float, ...]:
        """That of each."""
        return tuple(map(self.chance, every))

    def text(self) -> str:
        """As a recipe's setting `rule` has it."""
        return " ".join(f"{weight:.4g}" for weight in self.weights)


@lru_cache(maxsize=64)
def read_rule(text: str) -> Rule:
    """The rule of that name in the package ("" is the general one), or the one that `Rule.text` wrote. Raises
    `OptionError`.
    """
    bundled = _bundled_rules()
    if (text or GENERAL) in bundled:
        return bundled[text or GENERAL].rule
    try:
        weights = tuple(map(float, text.split()))
    except ValueError:
        weights = ()
    if len(weights) != len(FEATURES) or not all(map(math.isfinite, weights)):
        raise OptionError(
            f"expected {' or '.join(bundled)}, or {len(FEATURES)} numbers as the rule, one for each of "
            f"{', '.join(FEATURES)}; got {text!r}: `whispertide train steadiness` prints them"
        )
    return Rule(weights)


def read_curve(text: str) -> DelayCurve:
    """How soon words stand by the rule of that text (`read_rule`). One that was never measured is taken to be as
    patient as the general one.
    """
    bundled = _bundled_rules()
    return bundled.get(text, bundled[GENERAL]).curve


@dataclass(frozen=True, slots=True)
class _Bundled:
    """A rule that comes with the package, and how soon words stand by it."""

    rule: Rule
    curve: DelayCurve


@lru_cache(maxsize=1)
def _bundled_rules() -> dict[str, _Bundled]:
    """Those of the package, by name: to what they were fitted, and by how much of it, the file says."""
    about = json.loads((files("whispertide") / "bundled" / "steadiness.json").read_text(encoding="utf-8"))
    return {
        name: _Bundled(
            Rule(tuple(float(each["weights"][feature]) for feature in FEATURES)),
            DelayCurve(tuple((delay, Patience(*settings)) for delay, *settings in each["delays"])),
        )
        for name, each in about.items()
    }


def likely_shown(
    shown: Sequence[Word],
    settled: Sequence[TokenWord],
    guess: Sequence[TokenWord],
    chances: Sequence[float],
    *,
    least: float,
    start: int,
    end: int,
) -> tuple[Word, ...]:
    """The part of a guess to show, after the words `shown` before: new words only if they are likely to stay.

    A word that stands there keeps its spelling while rounds find it. Where they find another one, it stands until that
    is likely enough, or until it is older than `STALE`. `settled` are the words that were confirmed in this round, in
    front of the guess; `start` is where its window begins, `end` where the audio does.
    """
    standing = list(shown)
    # By text as well as time: the last word of a text is placed over all that comes after it, until more is heard.
    for one in settled:
        _found(standing, one.word)
    confirmed = settled[-1].end if settled else start
    standing = [word for word in standing if word.lies_after(confirmed)]
    view: list[Word] = []
    for one, chance in zip(guess, chances, strict=True):
        known = _found(standing, one.word)
        if known is not None:
            view.append(replace(one.word, text=known.text))
        elif chance >= least:
            view.append(one.word)
            # A new word takes the place of whatever stood there.
            standing = [word for word in standing if word.lies_after(one.end)]
        else:
            break
    return (*view, *(word for word in standing if word.end > end - STALE))


def _found(standing: list[Word], word: Word) -> Word | None:
    """A word as it stands, and no longer does, nor what is in front of it: that is no longer heard there."""
    place = next((n for n, other in enumerate(standing) if same(other, word)), None)
    if place is None:
        return None
    found = standing[place]
    del standing[: place + 1]
    return found
