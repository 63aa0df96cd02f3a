"""Each of Whisper's rules on its own, then all of them against openai-whisper's logit filters."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from scripted_decoder import EOT, NO_TIMESTAMPS, SIZE, SPECIALS, TIME, TIMES, VOCABULARY
from whispertide.checkpoint.generation import GenerationConfig
from whispertide.decoding.rules import (
    NON_SPEECH,
    Rules,
    build_rules,
    initial,
    log_softmax,
    monotone,
    pairing,
    step_request,
    suppressed_tokens,
    timestamp_outweighs_text,
)
from whispertide.errors import OptionError
from whispertide.options import DecodeOptions

ALL_TIMES = (TIME, SIZE)


def allowed(rules: Rules, *sampled: int) -> set[int]:
    return set(np.flatnonzero(np.isfinite(rules.suppression([sampled]))).tolist())


class TestPairing:
    def test_says_nothing_after_text_and_at_the_start(self) -> None:
        assert pairing([], VOCABULARY) == ()
        assert pairing([TIME, 3], VOCABULARY) == ()

    def test_text_follows_an_opening_timestamp(self) -> None:
        assert pairing([TIME], VOCABULARY) == (ALL_TIMES,)
        assert pairing([TIME, 3, TIME + 2, TIME + 2], VOCABULARY) == (ALL_TIMES,)

    def test_no_text_follows_a_closing_timestamp(self) -> None:
        assert pairing([TIME, 3, TIME + 2], VOCABULARY) == ((0, EOT),)
        assert pairing([3, TIME + 2], VOCABULARY) == ((0, EOT),)  # also where the prompt opened the segment


class TestMonotone:
    def test_says_nothing_before_the_first_timestamp(self) -> None:
        assert monotone([1, 2], VOCABULARY) == ()

    def test_a_segment_may_begin_where_the_last_one_ended(self) -> None:
        assert monotone([TIME, 3, TIME + 4], VOCABULARY) == ((TIME, TIME + 4),)
        assert monotone([3, TIME + 4], VOCABULARY) == ((TIME, TIME + 4),)

    def test_a_segment_may_not_end_where_it_began(self) -> None:
        assert monotone([TIME, 3, TIME + 4, TIME + 4, 5], VOCABULARY) == ((TIME, TIME + 5),)


class TestInitial:
    def test_the_first_token_is_an_early_timestamp(self) -> None:
        assert initial([], VOCABULARY, 5) == ((0, TIME), (TIME + 6, SIZE))
        assert initial([], VOCABULARY, None) == ((0, TIME),)

    def test_a_bound_beyond_the_window_forbids_no_timestamp(self) -> None:
        assert initial([], VOCABULARY, 1000) == ((0, TIME), (SIZE, SIZE))

    def test_says_nothing_later(self) -> None:
        assert initial([TIME], VOCABULARY, 5) == ()


class TestRules:
    def test_a_blank_may_not_come_first_but_may_later(self) -> None:
        rules = Rules(VOCABULARY, blank=(7, EOT))
        assert not {7, EOT} & allowed(rules)
        assert {7, EOT} <= allowed(rules, 3)

    def test_suppressed_tokens_never_come(self) -> None:
        rules = Rules(VOCABULARY, suppressed=SPECIALS)
        assert not set(SPECIALS) & (allowed(rules) | allowed(rules, 3))

    def test_tokens_that_are_none_are_refused(self) -> None:
        for wrong in (-1, VOCABULARY.size):
            with pytest.raises(OptionError, match=f"from 0 to {VOCABULARY.size - 1}; got {wrong}"):
                Rules(VOCABULARY, suppressed=(3, wrong))

    def test_without_timestamps_nothing_is_known_about_them(self) -> None:
        assert allowed(Rules(VOCABULARY), TIME) == set(range(SIZE))

    def test_with_timestamps_the_no_timestamps_token_never_comes(self) -> None:
        assert NO_TIMESTAMPS not in allowed(Rules(VOCABULARY, timestamps=True), TIME, 3)

    def test_all_rules_of_timestamps_hold_together(self) -> None:
        rules = Rules(VOCABULARY, timestamps=True, max_initial_index=5)
        assert allowed(rules) == set(range(TIME, TIME + 6))
        assert allowed(rules, TIME + 1, 3, TIME + 4) == {EOT, *range(TIME + 4, SIZE)} | set(range(EOT, TIME)) - {
            NO_TIMESTAMPS
        }

    def test_only_timestamps_need_the_whole_distribution(self) -> None:
        for timestamps, need in ((False, "top"), (True, "times")):
            rules = Rules(VOCABULARY, timestamps=timestamps)
            assert step_request([(1,)], rules, parents=(0,)).need == need

    def test_rows_in_the_same_state_share_one_vector_and_it_is_not_rebuilt(self) -> None:
        rules = Rules(VOCABULARY, timestamps=True)
        vector = rules.suppression([[TIME, 3], [TIME, 4]])
        assert vector.shape == (SIZE,)
        assert rules.suppression([[TIME, 5, 6]]) is vector

    def test_rows_in_different_states_get_their_own_vectors(self) -> None:
        rules = Rules(VOCABULARY, timestamps=True)
        vectors = rules.suppression([[TIME, 3], [TIME + 4, 3]])
        assert vectors.shape == (2, SIZE)
        assert np.isfinite(vectors[0, TIME + 1])
        assert np.isinf(vectors[1, TIME + 1])

    def test_the_cache_of_vectors_does_not_grow_without_bound(self) -> None:
        rules = Rules(VOCABULARY, timestamps=True)
        vectors = [rules.suppression([[TIME + last, 3]]).copy() for last in range(TIMES)]
        vectors += [rules.suppression([[TIME + last, 3, TIME + last + 1]]).copy() for last in range(TIMES - 1)]
        assert len(rules._vectors) <= 16
        again = rules.suppression([[TIME, 3]])
        np.testing.assert_array_equal(again, vectors[0])


class TestTimestampMass:
    def test_many_weak_timestamps_outweigh_one_text_token(self) -> None:
        logits = np.full((1, SIZE), -20.0, np.float32)
        logits[0, 3] = 0.0
        logits[0, TIME:] = -1.0  # 15 exp(-1) = 5.5 > 1
        assert timestamp_outweighs_text(logits, TIME).tolist() == [True]
        logits[0, TIME:] = -4.0  # 15 exp(-4) = 0.27 < 1
        assert timestamp_outweighs_text(logits, TIME).tolist() == [False]

    def test_forbidden_timestamps_weigh_nothing(self) -> None:
        logits = np.zeros((1, SIZE), np.float32)
        logits[0, TIME:] = -np.inf
        assert timestamp_outweighs_text(logits, TIME).tolist() == [False]

    def test_such_a_row_must_sample_a_timestamp_and_others_are_left_alone(self) -> None:
        logits = np.full((2, SIZE), -20.0, np.float32)
        logits[:, 3] = 0.0
        logits[0, TIME:] = -1.0
        logprobs = Rules(VOCABULARY, timestamps=True).log_probabilities(logits)
        assert np.isinf(logprobs[0, 3])
        np.testing.assert_allclose(np.exp(logprobs).sum(axis=-1), 1.0, rtol=1e-5)
        assert logprobs[1].argmax() == 3


def test_log_softmax_keeps_the_impossible_impossible() -> None:
    logprobs = log_softmax(np.array([[0.0, -np.inf, np.log(3.0)]], np.float32))
    np.testing.assert_allclose(np.exp(logprobs), [[0.25, 0.0, 0.75]], rtol=1e-6)
    assert logprobs.dtype == np.float32


def test_log_softmax_is_one_in_all() -> None:
    values = log_softmax(np.array([[1e4, 0.0, -1e4], [0.0, 0.0, 0.0]], np.float32))
    assert np.allclose(np.exp(values).sum(axis=-1), 1)
    assert np.allclose(values[1], -math.log(3))


def test_log_softmax_of_a_row_does_not_depend_on_the_others() -> None:
    logits = np.array([[1.0, 2.0, 3.0], [-500.0, -499.0, -498.0]], np.float32)
    np.testing.assert_allclose(log_softmax(logits)[1], log_softmax(logits[:1])[0], rtol=1e-6)


class TestSuppressedTokens:
    tokenizer: Any = SimpleNamespace(
        transcribe=100, translate=101, sot=102, sot_prev=103, sot_lm=104, no_speech=105, non_speech_tokens=(1, 2),
        added_tokens=range(0),
    )  # fmt: skip
    always = (100, 101, 102, 103, 104, 105)

    def test_the_users_list_comes_first(self) -> None:
        assert suppressed_tokens(self.tokenizer, (9, 0), (8,)) == (0, 9, *self.always)
        assert suppressed_tokens(self.tokenizer, (), (8,)) == self.always

    def test_then_the_checkpoints_even_if_it_is_empty(self) -> None:
        assert suppressed_tokens(self.tokenizer, None, (8,)) == (8, *self.always)
        assert suppressed_tokens(self.tokenizer, None, ()) == self.always

    def test_then_what_nobody_says(self) -> None:
        assert suppressed_tokens(self.tokenizer, None, None) == (1, 2, *self.always)

    def test_minus_one_stands_for_what_nobody_says(self) -> None:
        assert suppressed_tokens(self.tokenizer, (-1, 9), None) == (1, 2, 9, *self.always)


class TestBuildRules:
    """From a model with a window of 30 encoder frames, hence one a second."""

    model: Any = SimpleNamespace(
        dims=SimpleNamespace(n_audio_ctx=30, n_vocab=SIZE),
        generation=GenerationConfig(suppress_tokens=(4,)),
        tokenizer=SimpleNamespace(
            eot=EOT, no_speech=SPECIALS[2], no_timestamps=NO_TIMESTAMPS, timestamp_begin=TIME, blank_tokens=(7, EOT),
            transcribe=SPECIALS[0], translate=SPECIALS[0], sot=SPECIALS[0], sot_prev=SPECIALS[1], sot_lm=SPECIALS[0],
            non_speech_tokens=(1, 2), added_tokens=range(0),
        ),
    )  # fmt: skip

    def rules(self, **options: Any) -> Rules:
        return build_rules(self.model, DecodeOptions(**options))

    def test_they_know_the_vocabulary(self) -> None:
        assert self.rules().vocabulary == VOCABULARY

    def test_the_first_timestamp_has_a_limit_in_seconds(self) -> None:
        assert allowed(self.rules(max_initial_timestamp=5.0)) == set(range(TIME, TIME + 6))
        assert allowed(self.rules(max_initial_timestamp=30.0)) == set(range(TIME, SIZE))

    @pytest.mark.parametrize(
        ("of_checkpoint", "given", "index"), [(None, None, 1), (3, None, 3), (0, None, 0), (3, 5.0, 5)]
    )
    def test_the_limit_is_the_users_else_the_checkpoints_else_whispers(
        self, of_checkpoint: int | None, given: float | None, index: int
    ) -> None:
        generation = GenerationConfig(max_initial_timestamp_index=of_checkpoint)
        model: Any = SimpleNamespace(**{**vars(self.model), "generation": generation})
        rules = build_rules(model, DecodeOptions(max_initial_timestamp=given))
        assert allowed(rules) == set(range(TIME, TIME + index + 1))

    @pytest.mark.parametrize("given", [-1.0, 30.5, float("nan")])
    def test_a_limit_outside_the_window_is_refused(self, given: float) -> None:
        with pytest.raises(OptionError, match="max_initial_timestamp between 0 and 30;"):
            self.rules(max_initial_timestamp=given)

    @pytest.mark.parametrize("timestamps", [True, False])
    def test_no_token_after_the_timestamps_is_taken_for_one(self, timestamps: bool) -> None:
        """A model that was fine-tuned with more tokens than Whisper has: here the last two of its vocabulary."""
        tokenizer = SimpleNamespace(**{**vars(self.model.tokenizer), "added_tokens": range(SIZE - 2, SIZE)})
        model: Any = SimpleNamespace(**{**vars(self.model), "tokenizer": tokenizer})
        rules = build_rules(model, DecodeOptions(timestamps=timestamps, max_initial_timestamp=30.0))
        assert max(allowed(rules)) == SIZE - 3

    def test_without_timestamps_text_may_come_first_but_no_blank(self) -> None:
        never = {4, *SPECIALS}
        assert allowed(self.rules(timestamps=False)) == set(range(SIZE)) - never - {7, EOT}
        assert allowed(self.rules(timestamps=False, suppress_blank=False)) == set(range(SIZE)) - never
        mine = self.rules(timestamps=False, suppress_blank=False, suppress_tokens=(NON_SPEECH,))
        assert allowed(mine) == set(range(SIZE)) - {1, 2, *SPECIALS}


sampled_tokens = st.lists(st.integers(0, SIZE - 1), max_size=6)


@pytest.mark.slow
@quick(50)
@given(sampled=sampled_tokens, seed=st.integers(0, 10_000), max_index=st.none() | st.integers(1, TIMES))
def test_equals_openai_whisper(sampled: list[int], seed: int, max_index: int | None) -> None:
    import torch
    from whisper import decoding

    tokenizer = SimpleNamespace(eot=EOT, no_timestamps=NO_TIMESTAMPS, timestamp_begin=TIME, encode=lambda text: [7])
    prompt = [1, 2]
    logits = np.random.default_rng(seed).normal(0, 3, (1, SIZE)).astype(np.float32)
    theirs = torch.from_numpy(logits.copy())
    tokens = torch.tensor([[*prompt, *sampled]])
    decoding.SuppressBlank(tokenizer, len(prompt)).apply(theirs, tokens)
    decoding.SuppressTokens(SPECIALS).apply(theirs, tokens)
    decoding.ApplyTimestampRules(tokenizer, len(prompt), max_index).apply(theirs, tokens)

    rules = Rules(VOCABULARY, suppressed=SPECIALS, blank=(7, EOT), timestamps=True, max_initial_index=max_index)
    if not np.isfinite(theirs.numpy()).any():
        return  # sequences that the rules themselves exclude can leave nothing to say
    ours = rules.log_probabilities(logits + rules.suppression([sampled]))
    np.testing.assert_allclose(ours, theirs.log_softmax(-1).numpy(), atol=1e-5)
