"""Greedy search, a beam of one, on scripted logits."""

import numpy as np
import pytest

from scripted_decoder import (
    EOT,
    NO_SPEECH,
    SIZE,
    SOT,
    SOT_PREV,
    SPECIALS,
    TIME,
    VOCABULARY,
    ScriptedDecoder,
    one_hot,
    random_script,
    telling,
)
from whispertide.decoding.accept import GREEDY
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules, log_softmax
from whispertide.decoding.search import SearchResult, Steps, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.types import FloatArray

PROMPT = Prompt((SOT_PREV, 5, SOT), sot_index=2, limit=8)
PLAIN = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,))


def greedy(decoder: ScriptedDecoder, rules: Rules = PLAIN, prompt: Prompt = PROMPT, **options: object) -> SearchResult:
    return run_search(TokenSearch(prompt, rules, GREEDY, **options), decoder)  # type: ignore[arg-type]


class StopAfter:
    """Keeps `keep` tokens once there are `count`; remembers what attention it was shown."""

    def __init__(self, count: int, keep: int) -> None:
        self.count, self.keep = count, keep
        self.attention: list[float] = []

    def check(self, tokens: object, attention: FloatArray | None, logprob: float) -> int | None:
        if attention is not None:
            self.attention.append(float(attention[0, -1, 0]))
        return self.keep if len(tokens) >= self.count else None  # type: ignore[arg-type]


class TestGreedy:
    def test_says_what_is_likeliest_until_the_end_of_text(self) -> None:
        result = greedy(ScriptedDecoder(telling(PROMPT.tokens, [3, 1, 4])))
        assert result.best.tokens == (3, 1, 4)
        assert result.best.stop == "end_of_text"
        assert result.steps == Steps(4, 4, 4, prompts=1)

    def test_feeds_the_prompt_once_then_one_token_at_a_time(self) -> None:
        decoder = ScriptedDecoder(telling(PROMPT.tokens, [3, 1]))
        greedy(decoder)
        assert [request.tokens.tolist() for request in decoder.requests] == [[list(PROMPT.tokens)], [[3]], [[1]]]
        assert decoder.requests[0].suppress is None
        assert decoder.requests[1].need == "top"

    def test_log_probabilities_are_those_after_suppression(self) -> None:
        script = random_script(4, eot_bonus=2.0)
        result = greedy(ScriptedDecoder(script))
        assert result.best.stop == "end_of_text"
        assert len(result.best.tokens) > 1
        seen = PROMPT.tokens
        expected = []
        for place, token in enumerate((*result.best.tokens, EOT)):
            logits = script(seen) + PLAIN.suppression([result.best.tokens[:place]])
            expected.append(log_softmax(logits[None])[0, token])
            seen = (*seen, token)
        np.testing.assert_allclose(result.best.logprobs, expected[:-1], atol=1e-5)
        assert result.best.sum_logprob == pytest.approx(sum(expected), abs=1e-4)
        assert result.best.avg_logprob == pytest.approx(np.mean(expected), abs=1e-4)

    def test_no_speech_is_read_at_start_of_transcript_before_suppression(self) -> None:
        def script(seen: tuple[int, ...]) -> FloatArray:
            return one_hot(NO_SPEECH, 4.0) if seen == PROMPT.tokens[:3] else one_hot(EOT)

        expected = np.exp(4.0) / (np.exp(4.0) + SIZE - 1)
        assert greedy(ScriptedDecoder(script)).no_speech_prob == pytest.approx(expected, rel=1e-4)

    def test_no_speech_is_not_read_at_the_end_of_a_longer_prompt(self) -> None:
        prompt = Prompt((SOT, 3, 4), sot_index=0, limit=8)

        def script(seen: tuple[int, ...]) -> FloatArray:
            return one_hot(NO_SPEECH, 4.0) if seen == (SOT,) else one_hot(EOT)

        expected = np.exp(4.0) / (np.exp(4.0) + SIZE - 1)
        assert greedy(ScriptedDecoder(script), prompt=prompt).no_speech_prob == pytest.approx(expected, rel=1e-4)

    def test_stops_at_the_limit(self) -> None:
        result = greedy(ScriptedDecoder(lambda seen: one_hot(3)))
        assert result.best.tokens == (3,) * PROMPT.limit
        assert result.best.stop == "length"

    def test_a_guard_truncates_and_ends(self) -> None:
        guard = StopAfter(3, keep=2)
        result = greedy(ScriptedDecoder(telling(PROMPT.tokens, [3, 1, 4, 5])), guards=[guard])
        assert result.best.tokens == (3, 1)
        assert result.best.stop == "guard"
        assert result.best.sum_logprob == pytest.approx(sum(result.best.logprobs))

    def test_the_strictest_guard_decides(self) -> None:
        guards = [StopAfter(3, keep=2), StopAfter(3, keep=1)]
        assert greedy(ScriptedDecoder(telling(PROMPT.tokens, [3, 1, 4])), guards=guards).best.tokens == (3,)

    def test_a_guard_sees_the_attention_that_predicted_the_newest_token(self) -> None:
        guard = StopAfter(99, keep=0)
        decoder = ScriptedDecoder(
            telling(PROMPT.tokens, [3, 1]), attend=lambda seen: np.array([[len(seen)]], np.float32)
        )
        greedy(decoder, guards=[guard])
        assert guard.attention == [3.0, 4.0]  # the prompt's last query predicts the first token

    def test_timestamps_are_forced_where_they_outweigh_text(self) -> None:
        def script(seen: tuple[int, ...]) -> FloatArray:
            if len(seen) == len(PROMPT.tokens):
                return one_hot(TIME)
            if seen[-1] != 3:
                return one_hot(3) if len(seen) == 4 else one_hot(EOT)
            logits = np.full(SIZE, -20.0, np.float32)
            logits[4], logits[TIME:], logits[TIME + 6] = 0.0, -1.0, -0.5
            return logits

        rules = Rules(VOCABULARY, suppressed=SPECIALS, timestamps=True)
        assert greedy(ScriptedDecoder(script), rules).best.tokens == (TIME, 3, TIME + 6)
        assert greedy(ScriptedDecoder(script)).best.tokens == (TIME, 3, 4)

    def test_a_search_that_was_broken_off_still_has_a_result(self) -> None:
        search = TokenSearch(PROMPT, PLAIN, GREEDY)
        decoder = ScriptedDecoder(telling(PROMPT.tokens, [3, 1, 4]))
        for _ in range(2):
            search.feed(decoder.run(search.next()))
        assert search.result().best.tokens == (3, 1)
        assert search.result().best.stop == "aborted"
