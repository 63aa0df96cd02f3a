"""`tide` played with scripted words, for the tests."""

from typing import Any

from policy_rounds import Attended
from whispertide.methods.attention.steadiness import FEATURES, Rule
from whispertide.methods.attention.tide import Tide, TideState

FRAMES = 150
# What the frontier's guard let stand is confirmed, and nothing else.
BY_FRONTIER = Rule(tuple({"firm": 60.0, "one": -30.0}.get(name, 0.0) for name in FEATURES)).text()
BARE: dict[str, Any] = {
    "rule": BY_FRONTIER,
    "margin_s": 0.5,
    "margin_last_s": 0.08,
    "rewind_s": 4.0,
    "window_s": 5.0,
    "waiting_marks": False,
    "settle_s": 30.0,
    **dict.fromkeys(("min_shown_probability", "guess_least", "backward_s", "attention_floor", "silence_s"), 0.0),
    **dict.fromkeys(("rescue_logprob", "reopen_s", "overload_s"), 0.0),
    "lookahead_tokens": 0,
}


BY_PROBABILITY = Rule(tuple(10.0 if name == "probability" else 0.0 for name in FEATURES)).text()
Play = Attended[TideState]


def tide(**settings: Any) -> Tide:
    """The policy with nothing on but what a test sets."""
    return Tide(**BARE | settings)
