"""A search that goes on from what was found with less audio. On scripted logits, checked against exhaustive search."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scripted_decoder import (
    EOT,
    NO_TIMESTAMPS,
    SIZE,
    SOT,
    SOT_PREV,
    SPECIALS,
    VOCABULARY,
    Script,
    ScriptedDecoder,
    one_hot,
    random_script,
    telling,
)
from whispertide.decoding.accept import GREEDY, Beam
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules, log_softmax
from whispertide.decoding.search import Hypothesized, SearchResult, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.methods.causal.stable_search import Rule, Scored, StableSearch
from whispertide.types import FloatArray

PROMPT = Prompt((SOT_PREV, 2, SOT), sot_index=2, limit=9)
# Text alone, as a round without timestamps has it.
RULES = Rules(VOCABULARY, suppressed=(*SPECIALS, NO_TIMESTAMPS, *range(NO_TIMESTAMPS + 1, SIZE)))


@dataclass
class Rewinding(ScriptedDecoder):
    """Counts the tokens that are taken back: those that were not stable, or came after one that was not."""

    dropped: int = 0

    def rewind(self, drop: int) -> None:
        self.dropped += drop
        super().rewind(drop)


def searched(
    script: Script, earlier: Sequence[Scored] = (), beam: int = 1, last: int = 2, rule: Rule = "either"
) -> tuple[SearchResult, Rewinding]:
    decoder = Rewinding(script)
    search = StableSearch(PROMPT, RULES, Beam(beam), earlier, last=last, rule=rule)
    return run_search(search, decoder), decoder


def logprob(script: Script, tokens: Sequence[int], token: int) -> float:
    logits = script((*PROMPT.tokens, *tokens)) + RULES.suppression([tokens])
    return float(RULES.log_probabilities(np.atleast_2d(logits))[0, token])


def at_odds(tokens: Sequence[int], script: Script, by: float = 0.0) -> Scored:
    """`tokens` with the scores that `script` gives them, but `by` more."""
    return Scored(
        tuple(tokens), tuple(logprob(script, tokens[:place], token) + by for place, token in enumerate(tokens))
    )


# --- greedy -----------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 100_000))
def test_without_earlier_text_it_is_the_plain_search(seed: int) -> None:
    script = random_script(seed, eot_bonus=2.0)
    plain = run_search(TokenSearch(PROMPT, RULES, GREEDY), ScriptedDecoder(script))
    found, _ = searched(script)
    assert (found.best, found.steps) == (plain.best, plain.steps)


@given(seed=st.integers(0, 100_000), last=st.integers(0, 4))
def test_the_same_audio_finds_the_same_in_one_run_more_than_none(seed: int, last: int) -> None:
    script = random_script(seed, eot_bonus=2.0)
    first, _ = searched(script)
    assume(first.best.stop == "end_of_text")
    again, decoder = searched(script, [Scored.of(first.best)], last=last)
    assert again.best.tokens == first.best.tokens
    assert decoder.dropped == 0
    assert len(decoder.requests) == 1  # which says that the text ends
    assert again.best.sum_logprob == pytest.approx(first.best.sum_logprob, abs=1e-4)


def test_new_words_come_after_the_old_ones() -> None:
    _, decoder = searched(telling(PROMPT.tokens, [1, 2, 3, 4, 5]), [Scored((1, 2, 3), (-9.0, -9.0, -9.0))])
    assert decoder.requests[0].tokens.tolist() == [[*PROMPT.tokens, 1, 2, 3]]
    assert [request.tokens.tolist() for request in decoder.requests[1:]] == [[[4]], [[5]]]
    assert len(decoder.requests[0].logits_at) == 4  # start of transcript, and the last two tokens with what follows


def test_an_unstable_token_goes_with_all_after_it() -> None:
    script = telling(PROMPT.tokens, [1, 2, 7, 8, 9])
    found, decoder = searched(script, [Scored((1, 2, 3, 4), (0.0, 0.0, 0.0, 0.0))])
    assert decoder.dropped == 2
    assert found.best.tokens == (1, 2, 7, 8, 9)
    assert decoder.requests[1].tokens.tolist() == [[7]]


def test_what_is_older_than_the_last_tokens_stays_whatever_it_is() -> None:
    found, _ = searched(telling(PROMPT.tokens, [7, 7, 3, 4]), [Scored((1, 2, 3, 4), (0.0,) * 4)])
    assert found.best.tokens[:4] == (1, 2, 3, 4)


def unsure(likely: int, other: int) -> Script:
    """Says `likely` rather than `other` after one token, then ends."""

    def script(seen: tuple[int, ...]) -> FloatArray:
        if len(seen) == len(PROMPT.tokens):
            return one_hot(1)
        if len(seen) > len(PROMPT.tokens) + 1:
            return one_hot(EOT)
        logits = np.full(SIZE, -9.0, np.float32)
        logits[[likely, other]] = 1.0, 0.5
        return logits

    return script


@pytest.mark.parametrize(("by", "stays"), [(-0.1, True), (0.1, False)])
def test_a_token_that_is_not_the_likeliest_stays_as_long_as_it_does_not_get_less_likely(by: float, stays: bool) -> None:
    script = unsure(5, 6)
    found, _ = searched(script, [at_odds([1, 6], script, by)])
    assert found.best.tokens == ((1, 6) if stays else (1, 5))


def test_the_likeliest_token_stays_even_where_it_was_likelier_before() -> None:
    script = unsure(5, 6)
    assert searched(script, [at_odds([1, 5], script, by=0.2)])[0].best.tokens == (1, 5)
    assert searched(script, [at_odds([1, 5], script, by=0.2)], last=1, rule="both")[1].dropped == 1


@given(seed=st.integers(0, 100_000), data=st.data())
def test_the_end_is_what_greedy_search_finds_after_what_stays(seed: int, data: st.DataObject) -> None:
    """Locally optimal: from the first token that is not stable on, nothing but the audio so far decides."""
    before, script = random_script(seed, eot_bonus=1.0), random_script(seed + 1, eot_bonus=1.5)
    earlier = Scored.of(searched(before)[0].best)
    found, decoder = searched(script, [earlier])
    keep = len(earlier.tokens) - decoder.dropped
    assert found.best.tokens[:keep] == earlier.tokens[:keep]
    forced = Prompt((*PROMPT.tokens, *earlier.tokens[:keep]), PROMPT.sot_index, PROMPT.limit - keep)
    if forced.limit:
        greedy = run_search(TokenSearch(forced, RULES, GREEDY), ScriptedDecoder(script))
        assert found.best.tokens[keep:] == greedy.best.tokens


# --- beams ------------------------------------------------------------------------------------------------------------


def few_words(seed: int, words: int, length: int) -> Script:
    """A text of so many tokens, each one of the first `words`, as likely as what stands before it says."""

    def script(seen: tuple[int, ...]) -> FloatArray:
        if len(seen) == len(PROMPT.tokens) + length:
            return one_hot(EOT)
        logits = np.full(SIZE, -np.inf, np.float32)
        logits[:words] = np.random.default_rng([seed, *seen]).normal(0.0, 1.0, words)
        return logits

    return script


def likelihood(script: Script, tokens: Sequence[int]) -> float:
    return sum(logprob(script, tokens[:place], token) for place, token in enumerate(tokens))


def exhaustive(script: Script, fixed: Sequence[tuple[int, ...]], length: int, tokens: Sequence[int]) -> tuple[int, ...]:
    """Of all ways to go on from `fixed` by `length` of these tokens, the likeliest."""
    ways = [(*start, *more) for start in fixed for more in product(tokens, repeat=length)]
    return max(ways, key=lambda way: likelihood(script, way))


@given(seed=st.integers(0, 100_000))
def test_a_wide_beam_finds_what_exhaustive_search_finds(seed: int) -> None:
    """Three words are possible and two are to come; a beam of nine holds all ways to say them."""
    script = few_words(seed, 3, 4)
    earlier = [at_odds(tokens, script) for tokens in [(0, 1), (1, 1), (2, 0)]]
    found, decoder = searched(script, earlier, beam=9, rule="best")
    assert decoder.dropped == 0
    assert found.best.tokens == exhaustive(script, [each.tokens for each in earlier], 2, range(3))


@given(seed=st.integers(0, 100_000))
def test_with_other_audio_a_narrow_beam_still_finds_what_exhaustive_search_finds(seed: int) -> None:
    """A beam of three holds a third of the ways to go on by two of three words, and the likeliest is among them."""
    before, script = few_words(seed, 3, 4), few_words(seed + 1, 3, 4)
    earlier = Scored.of(searched(before, beam=3)[0].best).cut(3)
    found, decoder = searched(script, [earlier], beam=3, last=1, rule="both")
    keep = len(earlier.tokens) - decoder.dropped
    assert found.best.tokens == exhaustive(script, [earlier.tokens[:keep]], 4 - keep, range(3))


def improvable(seed: int, beam: int) -> bool:
    """Whether, after other audio has come, another token in one place after the cut would make the text likelier."""
    before, script = few_words(2 * seed, 4, 5), few_words(2 * seed + 1, 4, 5)
    first = searched(before, beam=beam)[0]
    earlier = [Scored.of(each).cut(3) for each in (first.best, *first.others)]
    found, decoder = searched(script, earlier, beam=beam, rule="both" if beam > 1 else "either")
    text, keep = found.best.tokens, 3 - decoder.dropped
    assert len(text) == 5
    reached = likelihood(script, text)
    others = ((*text[:place], token, *text[place + 1 :]) for place in range(keep, 5) for token in range(4))
    return any(likelihood(script, other) > reached + 1e-6 for other in others)


@pytest.mark.slow
def test_no_other_token_in_one_place_makes_a_beams_text_likelier() -> None:
    """Locally optimal, by a beam of three of the up to 256 ways to go on. It is no theorem: greedy search is not."""
    count = {beam: sum(improvable(seed, beam) for seed in range(40)) for beam in (1, 3)}
    assert count[3] == 0 < count[1]


def test_all_hypotheses_are_cut_where_the_best_gets_unstable() -> None:
    script = telling(PROMPT.tokens, [1, 2, 3, 9])
    earlier = [Scored((1, 2, 4), (0.0, 0.0, 0.0)), Scored((1, 2, 3), (-9.0, -9.0, -9.0))]
    found, decoder = searched(script, earlier, beam=2, rule="both")
    assert decoder.dropped >= 1
    assert decoder.requests[0].tokens.shape[0] == 2
    assert found.best.tokens == (1, 2, 3, 9)


def test_the_best_is_not_cut_where_another_gets_unstable() -> None:
    script = telling(PROMPT.tokens, [1, 2, 3, 9])
    earlier = [Scored((1, 2, 3), (-9.0, -9.0, -9.0)), Scored((1, 2, 4), (0.0, 0.0, 0.0))]
    found, decoder = searched(script, earlier, beam=2, rule="both")
    assert (decoder.dropped, found.best.tokens) == (0, (1, 2, 3, 9))
    assert decoder.requests[0].tokens.shape[0] == 2


def test_a_beam_does_not_end_with_an_end_that_is_not_the_likeliest() -> None:
    """The end of the text is the second best at first, and three words come after the best."""

    def script(seen: tuple[int, ...]) -> FloatArray:
        said = len(seen) - len(PROMPT.tokens)
        logits = one_hot(said + 1 if said < 3 else EOT).copy()
        if not said:
            logits[EOT] = logits.max() - 0.5
        return logits

    found, decoder = searched(script, beam=3)
    assert found.best.tokens == (1, 2, 3)
    assert len(decoder.requests) == 4  # and no longer than until the best has ended


def test_the_mean_says_which_is_the_best() -> None:
    """After one token the text ends, or goes on with two that are likelier than that end, but not both together."""
    chances = {(1,): {EOT: 0.45, 2: 0.5}, (1, 2): {3: 0.55, 4: 0.3}}

    def script(seen: tuple[int, ...]) -> FloatArray:
        said = seen[len(PROMPT.tokens) :]
        logits = np.full(SIZE, -9.0, np.float32)
        for token, chance in chances.get(said, {EOT: 1.0} if said else {1: 1.0}).items():
            logits[token] = np.log(chance)
        return logits

    found, decoder = searched(script, beam=2)
    short = next(each for each in found.others if each.tokens == (1,))
    assert found.best.tokens == (1, 2, 3)
    assert found.best.sum_logprob < short.sum_logprob
    assert len(decoder.requests) == 3  # and the sum says when it ends


def test_what_a_cut_made_equal_is_one_hypothesis() -> None:
    script = random_script(3, eot_bonus=-5.0)
    earlier = [Scored((1, 2, 3), (9.0,) * 3), Scored((1, 2, 4), (9.0,) * 3), Scored((1, 5, 6), (9.0,) * 3)]
    decoder = ScriptedDecoder(script)
    search = StableSearch(PROMPT, RULES, Beam(3), earlier, last=1, rule="both")
    search.feed(decoder.run(search.next()))
    found = search.result()
    going = [hypothesis.tokens for hypothesis in (found.best, *found.others)]
    assert len(set(going)) == len(going) == 3
    assert {tokens[:2] for tokens in going} <= {(1, 2), (1, 5)}


def test_hypotheses_are_cut_to_the_length_of_the_best_and_shorter_ones_go() -> None:
    script = telling(PROMPT.tokens, [1, 2, 3])
    earlier = [Scored((1, 2), (0.0,) * 2), Scored((1, 4, 3), (0.0,) * 3), Scored((1,), (0.0,))]
    found, decoder = searched(script, earlier, beam=3)
    assert decoder.requests[0].tokens.tolist() == [[*PROMPT.tokens, 1, 2], [*PROMPT.tokens, 1, 4]]
    assert found.best.tokens == (1, 2, 3)


@given(seed=st.integers(0, 100_000), beam=st.integers(1, 4), rule=st.sampled_from(["either", "both", "best"]))
def test_the_cache_follows_the_hypotheses(seed: int, beam: int, rule: Rule) -> None:
    """The scripted decoder tells logits by all that was fed: a wrong row or length would change the scores."""
    before, script = random_script(seed, eot_bonus=1.0), random_script(seed + 1, eot_bonus=1.0)
    first, _ = searched(before, beam=beam)
    earlier = [Scored.of(each) for each in (first.best, *first.others)]
    found, decoder = searched(script, earlier, beam=beam, rule=rule)
    keep = len(earlier[0].tokens) - decoder.dropped
    for each in (found.best, *found.others):
        expected = [logprob(script, each.tokens[:place], token) for place, token in enumerate(each.tokens)]
        assert each.logprobs[keep:] == pytest.approx(expected[keep:], abs=1e-4)


def test_scores_are_log_probabilities() -> None:
    """Logits shift from run to run and mean nothing: a shift changes no decision."""
    script = unsure(5, 6)
    earlier = [at_odds([1, 6], script, -0.01)]

    def shifted(seen: tuple[int, ...]) -> FloatArray:
        return script(seen) - np.float32(3.0)

    assert searched(script, earlier)[0].best.tokens == searched(shifted, earlier)[0].best.tokens == (1, 6)
    assert log_softmax(np.zeros(4, np.float32)) == pytest.approx(-np.log(4))


def test_nothing_of_a_hypothesis_is_lost_on_the_way() -> None:
    found = Hypothesized((1, 2), (-0.5, -0.25), -1.0)
    assert Scored.of(found) == Scored((1, 2), (-0.5, -0.25))
    assert Scored.of(found).cut(1) == Scored((1,), (-0.5,))
