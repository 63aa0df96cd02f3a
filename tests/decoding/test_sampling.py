"""Temperature sampling on scripted logits."""

import numpy as np
import pytest

from scripted_decoder import EOT, SOT, SOT_PREV, SPECIALS, VOCABULARY, ScriptedDecoder, random_script
from whispertide.decoding.accept import GREEDY, Sampling, sample
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules, log_softmax
from whispertide.decoding.search import SearchResult, Steps, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.errors import GraphError

PROMPT = Prompt((SOT_PREV, 5, SOT), sot_index=2, limit=8)
PLAIN = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,))


class TestSample:
    def test_draws_from_the_tempered_distribution(self) -> None:
        logprobs = log_softmax(np.log(np.array([[0.5, 0.3, 0.0, 0.2]], np.float32) + 1e-30))
        rng = np.random.default_rng(0)
        draws = [sample(logprobs, 0.5, rng)[0] for _ in range(4000)]
        expected = np.array([0.25, 0.09, 0.0, 0.04]) / 0.38
        np.testing.assert_allclose(np.bincount(draws, minlength=4) / 4000, expected, atol=0.03)

    def test_never_draws_the_impossible(self) -> None:
        logprobs = np.array([[-np.inf, 0.0, -np.inf]], np.float32).repeat(500, axis=0)
        assert set(sample(logprobs, 1.0, np.random.default_rng(1))) == {1}


def test_a_model_that_computes_no_numbers_is_found_out() -> None:
    with pytest.raises(GraphError, match="output is not a number"):
        sample(np.full((1, 5), np.nan, np.float32), 0.4, np.random.default_rng(0))


def sampling(seed: int, rows: int = 4, temperature: float = 1.0) -> tuple[SearchResult, ScriptedDecoder]:
    decoder = ScriptedDecoder(random_script(11, eot_bonus=4.0))
    search = TokenSearch(PROMPT, PLAIN, Sampling(temperature, rows, np.random.default_rng(seed)))
    return run_search(search, decoder), decoder


class TestSampling:
    def test_the_same_seed_gives_the_same_result_and_others_differ(self) -> None:
        results = [sampling(seed)[0].best.tokens for seed in (1, 1, 2, 3, 4, 5)]
        assert results[0] == results[1]
        assert len(set(results)) > 1

    def test_the_best_row_by_mean_log_probability_wins(self) -> None:
        result, _ = sampling(2)
        every = [result.best, *result.others]
        assert len(every) == 4
        scores = [each.sum_logprob / max(len(each.tokens), 1) for each in every]
        assert scores[0] == max(scores)

    def test_rows_that_have_ended_are_no_longer_run(self) -> None:
        result, decoder = sampling(2)
        rows = [len(request.tokens) for request in decoder.requests]
        assert rows[0] == 1
        assert max(rows) <= 4
        assert rows[1:] == sorted(rows[1:], reverse=True)
        assert len(set(rows[1:])) > 1, "the script is to end rows at different times"
        assert result.steps == Steps(len(rows), sum(rows), rows.count(1), prompts=1)

    def test_every_row_is_scored_by_its_own_history(self) -> None:
        result, decoder = sampling(2)
        for each in (result.best, *result.others):
            seen: tuple[int, ...] = PROMPT.tokens
            for place, token in enumerate(each.tokens):
                logits = decoder.script(seen) + PLAIN.suppression([each.tokens[:place]])
                assert each.logprobs[place] == pytest.approx(log_softmax(logits[None])[0, token], abs=1e-4)
                seen = (*seen, token)

    def test_low_temperature_is_nearly_greedy(self) -> None:
        greedy = run_search(TokenSearch(PROMPT, PLAIN, GREEDY), ScriptedDecoder(random_script(11, eot_bonus=4.0)))
        assert sampling(0, temperature=0.01)[0].best.tokens == greedy.best.tokens

    def test_temperature_zero_is_refused(self) -> None:
        with pytest.raises(ValueError, match="temperature > 0"):
            Sampling(temperature=0.0, rows=1, rng=np.random.default_rng())
