"""Why a round does not confirm a word that it heard: the reason that the policy had, in a few words.

Looks at a policy's state before the result is applied. Only AlignAtt and `tide` have more than one reason; of the
learned rule the part of its features is named by which the chance falls shortest of that of a word that has long been
settled.
"""

from typing import Any

from whispertide.decoding.token_words import spoken
from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.steadiness import FEATURES, Facts, Rule, read_rule
from whispertide.methods.attention.tide import Tide, TideState
from whispertide.session import Session
from whispertide.streaming.round import RoundResult

ANOTHER_ROUND = "a second round must agree"
NEAR_THE_END = "too close to the end of the audio"
UNSURE = "the model is not sure yet"
HEARD_ONCE = "in the text of too few rounds"
GOES_ON = "the word may not be complete"
REASONS = (NEAR_THE_END, UNSURE, HEARD_ONCE, GOES_ON, ANOTHER_ROUND)

_PARTS = {  # of a rule; the others are about how often the word was heard, and the text after it
    NEAR_THE_END: ("frontier_1s", "frontier_0.5s", "frontier_0.2s", "ended_1s", "ended_0.3s", "width", "firm"),
    UNSURE: ("probability", "least", "weakest_before", "next", "probability_near", "stop", "stop_near"),
    HEARD_ONCE: ("heard_twice", "heard_three_times", "heard_twice_near", "one_after", "more_after", "step"),
}
_SETTLED = Facts(
    frontier=16_000,
    ended=16_000,
    width=2,
    probability=0.999,
    least=0.999,
    before=1.0,
    following=0.999,
    after=4,
    rounds=3,
    firm=True,
    closes=False,
    step=4_800,
)


def holds_back(session: Session, result: RoundResult[Any]) -> str:
    """Why the first word that the round heard and does not confirm has to wait; "" where none does."""
    policy, heard = session.recipe.policy, result.heard
    if heard is None or result.plan.is_last:
        return ""
    if isinstance(policy, AlignAtt) and isinstance(heard, HeardWords):
        return _by_thresholds(policy, heard)
    if not isinstance(policy, Tide) or not isinstance(heard, HeardWords):
        return ANOTHER_ROUND
    utterance = session.snapshot().turns.utterance
    return "" if utterance is None else _by_rule(policy, utterance.policy, heard, result)


def _by_rule(policy: Tide, state: TideState, heard: HeardWords, result: RoundResult[Any]) -> str:
    rule, facts = read_rule(policy.rule), policy.known(state, heard, result.plan)
    firm = policy.stands(facts, rule.chances(facts))
    if firm < len(facts):
        return furthest_short(rule, facts[firm])
    return GOES_ON if heard.word_ended is False and facts else ""


def furthest_short(rule: Rule, facts: Facts) -> str:
    """The part of the features that takes most from the word's chance."""
    gaps = [w * (best - x) for w, best, x in zip(rule.weights, _SETTLED.features(), facts.features(), strict=True)]
    missing = dict(zip(FEATURES, gaps, strict=True))
    return max(_PARTS, key=lambda part: sum(missing[name] for name in _PARTS[part]))


def _by_thresholds(policy: AlignAtt, heard: HeardWords) -> str:
    """What is after the frontier is not heard at all; a last word may still be spoken."""
    return "" if policy.firm(heard) == len(spoken(heard.words)) else GOES_ON
