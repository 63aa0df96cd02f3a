"""Fit the rule that predicts which shown words will stay (`attention.steadiness`) to a checkpoint by its own streams.

Nobody has to have written anything down. A recipe is run with patience: every word waits for some audio after it, so
that the confirmed text is the best that the recipe can do, and guesses stand in many rounds. Then each word of each
guess is looked up in the final text. For a whole corpus:

    examples = [record_stream(transcriber, recipe, utterance.audio(), voice=utterance.group) for utterance in ...]
    rule = fit_rule(examples)

A word stayed if the final text has it at about that place, has no word between it and the one before it that the guess
had left out, and ends the sentence if the guess said so. Who confirms it would lose what was left out; and after a full
stop that is no end, the decoder that is shown it leaves out how the sentence goes on.

`fit_rule` is ridge logistic regression by Newton's method: numpy is all it takes, so that it also runs on a user's
machine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from whispertide.api import Transcriber
from whispertide.decoding.token_words import spoken
from whispertide.errors import OptionError
from whispertide.methods.attention.steadiness import FEATURES, Facts, Rule, same
from whispertide.methods.attention.tide import Tide, TideState
from whispertide.punctuation import ends_sentence
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.repetition import normalise
from whispertide.types import SAMPLE_RATE, FloatArray, Word

PATIENCE_S = 1.5  # every word waits for so much audio after what it attends to, while a stream is recorded
_BLOCK = SAMPLE_RATE // 20  # divides the steps of `tide`, so that rounds begin when they are due
PACES = (1.0, 0.5, 2.0)  # times the usual step: what `--delay` makes of it, and a busy machine
_NONE = 1e-12  # no word is so likely to stay
_RIDGE = 1.0
_ITERATIONS = 50
_ENOUGH = 100  # examples without which a rule would be made up


@dataclass(frozen=True, slots=True)
class Guess:
    """The guess of one round: the number of words confirmed before, the words, and the facts about each."""

    confirmed: int
    words: tuple[Word, ...]
    facts: tuple[Facts, ...]


@dataclass(frozen=True, slots=True)
class Examples:
    """Words of guesses: `facts` of each, and whether it `stayed`. `voice` is its speaker, `text` the transcript of a
    patient run.
    """

    facts: tuple[Facts, ...] = field(repr=False)
    stayed: tuple[bool, ...] = field(repr=False)
    voice: str = ""
    text: str = field(default="", repr=False)


def with_patience(recipe: Recipe) -> Recipe:
    """Make a recipe in which every word waits for `PATIENCE_S` of audio. Raises `OptionError` if the policy is not
    that of `tide`.
    """
    policy = recipe.policy
    if not isinstance(policy, Tide):
        raise OptionError(f"expected a recipe with policy=tide; got policy={policy.kind}")
    waiting = replace(policy, max_revision_rate=_NONE, min_shown_probability=0.0, settle_s=PATIENCE_S)
    return replace(recipe, policy=waiting)


def at_pace(recipe: Recipe, number: int) -> Recipe:
    """The recipe for recording `number`: steps as they are, half as long, and twice as long, in turn."""
    return recipe.with_step(recipe.schedule.step_s * PACES[number % len(PACES)])


def record_stream(transcriber: Transcriber, recipe: Recipe, audio: FloatArray, *, voice: str = "") -> Examples:
    """Collect every word of every guess in `audio` [n], 16 kHz, and whether it stayed.

    Raises `OptionError` for a recipe whose policy is not that of `tide`.
    """
    session = transcriber.session(with_patience(recipe))
    guesses: list[Guess] = []
    for start in range(0, len(audio), _BLOCK):
        session.ingest(audio[start : start + _BLOCK])
        guesses += _rounds(session)
    session.request("finish")
    guesses += _rounds(session)
    final = session.transcript.words
    stayed = tuple(outcome for guess in guesses for outcome in outcomes(guess, final))
    facts = tuple(facts for guess in guesses for facts in guess.facts)
    return Examples(facts, stayed, voice, session.transcript.text)


def replay_stream(transcriber: Transcriber, recipe: Recipe, audio: FloatArray) -> str:
    """Transcribe `audio` [n], 16 kHz, by the recipe as it is; returns the confirmed text."""
    session = transcriber.session(recipe)
    for start in range(0, len(audio), _BLOCK):
        session.push(audio[start : start + _BLOCK])
    session.finish()
    return session.transcript.text


def _rounds(session: Session) -> Iterator[Guess]:
    """Run the rounds that are due; yields the guess of each that more audio follows."""
    executor, policy = session.executor, session.recipe.policy
    assert executor is not None
    assert isinstance(policy, Tide)
    while (plan := session.due()) is not None:
        result = executor.run(plan, session.window(plan), session.options, session.encoder)
        utterance = session.snapshot().turns.utterance
        if result.heard is not None and not plan.is_last and utterance is not None:
            state: TideState = utterance.policy
            words = tuple(one.word for one in spoken(result.heard.words))
            yield Guess(len(session.transcript.words), words, policy.known(state, result.heard, plan))
        session.apply(result)


def outcomes(guess: Guess, final: Sequence[Word]) -> list[bool]:
    """Tell for each word of the guess whether it stayed in the `final` words (all of the stream)."""
    rest = final[guess.confirmed :]
    found: list[bool] = []
    next_at, before_stayed = 0, True
    for word in guess.words:
        place = next((n for n, said in enumerate(rest[next_at:], next_at) if same(word, said)), None)
        leaves_out = place is not None and before_stayed and any(normalise(said.text) for said in rest[next_at:place])
        goes_on = place is not None and ends_sentence(word.text) and not ends_sentence(rest[place].text)
        found.append(place is not None and not leaves_out and not goes_on)
        before_stayed = place is not None
        next_at = next_at if place is None else place + 1
    return found


def fit_rule(examples: Sequence[Examples], *, near: Rule | None = None) -> Rule:
    """Fit the rule of greatest likelihood with a penalty on large weights (but for the first).

    With `near` the penalty is on the distance from that rule, in all weights: little audio moves it little.

    Raises `OptionError` where there are too few examples, or all came out alike.
    """
    inputs, stayed = _matrix(examples)
    if len(stayed) < _ENOUGH or stayed.all() or not stayed.any():
        raise OptionError(
            f"expected at least {_ENOUGH} words, some of which stayed and some changed; got {len(stayed)}, of "
            f"which {int(stayed.sum())} stayed: use more audio"
        )
    origin = np.zeros(inputs.shape[1]) if near is None else np.array(near.weights)
    penalty = np.diag([1e-6 if near is None else _RIDGE, *[_RIDGE] * (len(origin) - 1)])
    weights = origin.copy()
    for _ in range(_ITERATIONS):
        chance = _chance(inputs @ weights)
        slope = inputs.T @ (stayed - chance) - penalty @ (weights - origin)
        curve = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + penalty
        step = np.linalg.solve(curve, slope)
        weights += step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
        if float(np.abs(step).max()) < 1e-6:
            break
    return Rule(tuple(float(weight) for weight in weights))


def _matrix(examples: Sequence[Examples]) -> tuple[np.ndarray, np.ndarray]:
    rows = [facts.features() for part in examples for facts in part.facts]
    stayed = [outcome for part in examples for outcome in part.stayed]
    return np.array(rows, np.float64).reshape(-1, len(FEATURES)), np.array(stayed, np.float64)


def _chance(score: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1 / (1 + np.exp(-np.clip(score, -50, 50)))
    return found


def squared_error(chances: Sequence[float], stayed: Sequence[bool]) -> float:
    """The mean squared error of predictions (Brier score)."""
    return float(np.mean((np.asarray(chances, np.float64) - np.asarray(stayed, np.float64)) ** 2))


def held_out(examples: Sequence[Examples], *, near: Rule | None = None) -> tuple[list[float], list[bool]]:
    """Predict every word by a rule that was fitted without its voice; returns the probabilities, and whether each
    stayed; `near`: `fit_rule`.

    Where there is one voice only, each half of it is predicted from the other.
    """
    if len({part.voice for part in examples}) == 1:
        examples = [half for part in examples for half in _halves(part)]
    chances: list[float] = []
    stayed: list[bool] = []
    for voice in sorted({part.voice for part in examples}):
        rule = fit_rule([part for part in examples if part.voice != voice], near=near)
        for part in (part for part in examples if part.voice == voice):
            chances += rule.chances(part.facts)
            stayed += part.stayed
    return chances, stayed


def _halves(part: Examples) -> tuple[Examples, Examples]:
    middle = len(part.facts) // 2
    first = Examples(part.facts[:middle], part.stayed[:middle], "first half")
    return first, Examples(part.facts[middle:], part.stayed[middle:], "second half")
