"""Rounds of one decode, on the bundled model and on small random ones with two and four decoder layers."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from random_models import small_multilingual
from single_pass_rounds import CLIP, START, hear, listened, plain, text
from slow_rows import slow_but
from whispertide import features
from whispertide.audio.file import load_audio
from whispertide.decoding.draft import Reference
from whispertide.decoding.guards import Frontier
from whispertide.decoding.prompt import MARGIN_TOKENS
from whispertide.decoding.rules import NON_SPEECH
from whispertide.features import raw_columns
from whispertide.methods.attention.backward_shift import BackwardShift
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.model.engine import LAST_LAYER, DecodeRequest
from whispertide.model.runtime import in_runtime
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, FRAMINGS, PAD30, Buckets, Framing, get_framing
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, FloatArray, Span


def test_words_lie_in_the_window_in_order() -> None:
    result = plain()
    words = listened(result).words
    assert len(words) > 5
    assert all(START <= word.start <= word.end <= result.plan.window.end for word in words)
    assert all(a.start <= b.start for a, b in pairwise(words))
    assert result.heard.tokens == tuple(token for word in words for token in word.tokens)
    assert result.stats.encode_s > 0
    assert {cost.stage for cost in result.costs} == {"encode", "decode", "align"}


@pytest.mark.parametrize("beam", slow_but([1, 3], 1))
def test_text_after_the_frontier_is_dropped(executor: SerialExecutor, beam: int) -> None:
    whole = listened(plain(beam))
    margin = whole.frames // 2
    part = listened(hear(executor, SinglePass(watch=(Frontier(margin=margin),)), beam=beam))
    assert part.halt is not None
    assert part.halt.reason == "frontier"
    assert part.firm == len(part.words) < len(whole.words)
    assert part.last_frame is not None
    assert part.frames - part.last_frame <= margin
    if beam == 1:
        *before, last = (word.tokens for word in part.words)
        assert before == [word.tokens for word in whole.words[: part.firm - 1]]
        assert last == whole.words[part.firm - 1].tokens[: len(last)]  # its full stop may lie after the frontier


def test_a_guess_follows_where_it_is_wanted(executor: SerialExecutor) -> None:
    cut = listened(hear(executor, SinglePass(watch=(Frontier(margin=200),))))
    more = listened(hear(executor, SinglePass(watch=(Frontier(margin=200, lookahead_tokens=4),))))
    assert more.halt == cut.halt
    assert len(more.words) > len(cut.words)
    assert text(more.words[: more.firm]) == text(cut.words[: more.firm])


def test_a_forced_prefix_is_not_heard_again(executor: SerialExecutor) -> None:
    whole = listened(plain()).words
    prefix = tuple(token for word in whole[:3] for token in word.tokens)
    rest = listened(hear(executor, SinglePass(), prefix=prefix)).words
    assert [word.tokens for word in rest] == [word.tokens for word in whole[3:]]
    assert rest[0].start >= whole[1].start


def test_a_reference_is_verified_not_believed(executor: SerialExecutor) -> None:
    tokens = plain().heard.tokens
    right = hear(executor, SinglePass(), reference=Reference.exactly(tokens))
    assert right.heard.tokens == tokens
    assert right.stats.decoder_runs < plain().stats.decoder_runs
    wrong = hear(executor, SinglePass(), reference=Reference.exactly(tokens[:2] + tokens[:1]))
    assert wrong.heard.tokens == tokens


def test_all_heads_of_the_last_layer_are_watched(executor: SerialExecutor, model: WhisperModel) -> None:
    rule = BackwardShift(near_end=10_000, median=1, average=1)  # whatever comes first is near the end
    heads = rule.heads(model)
    assert heads == tuple((model.dims.n_text_layer - 1, head) for head in range(model.dims.n_text_head))
    result = hear(executor, SinglePass(watch=(rule,), keep_attention=True))
    found = listened(result)
    assert found.halt is not None
    assert found.halt.reason == "near-end"
    assert len(found.words) == 1
    assert result.heard.attention is not None
    rows = sorted({*model.alignment_heads, *heads})
    opening = len(model.tokenizer.sot_sequence(None, "transcribe", False))
    seen = result.heard.attention[:, opening - 1 + found.halt.index, : found.frames]
    assert found.last_frame == seen[[rows.index(head) for head in heads]].mean(axis=0).argmax()


def test_only_text_is_said_and_something_where_it_must(executor: SerialExecutor, model: WhisperModel) -> None:
    free, forced = (executor.resources.rules(DecodeOptions(), must_speak) for must_speak in (False, True))
    eot, (blank,) = model.tokenizer.eot, model.tokenizer.encode(" ")
    for rules in (free, forced):
        later = rules.suppression([[1000]])
        assert np.isneginf(later[eot + 1 :]).all()
        assert (later[[eot, blank]] == 0).all()
    assert (free.suppression([[]])[[eot, blank]] == 0).all()
    assert np.isneginf(forced.suppression([[]])[[eot, blank]]).all()
    strict = executor.resources.rules(DecodeOptions(suppress_tokens=(NON_SPEECH,)), False).suppression([[]])
    assert np.isneginf(strict[list(model.tokenizer.non_speech_tokens)]).all()


@pytest.mark.slow
def test_prompt_and_prefix_leave_room_for_text(executor: SerialExecutor, model: WhisperModel) -> None:
    listen = SinglePass(context_tokens=448, max_tokens=1, keep_attention=True, loop_guard=False)
    full = model.dims.n_text_ctx - MARGIN_TOKENS
    for about in ({"prompt": "word " * 1000}, {"prompt": "word " * 1000, "prefix": (1000,) * 300}):
        result = hear(executor, listen, **about)
        assert result.heard.attention is not None
        assert full - 2 <= result.heard.attention.shape[1] <= full
    crowded = hear(executor, replace(listen, max_tokens=224), prefix=(1000,) * 600)
    assert crowded.heard.attention is not None
    assert crowded.heard.attention.shape[1] <= model.dims.n_text_ctx


@pytest.mark.slow
def test_a_short_window_is_not_decoded_unless_it_is_the_last(executor: SerialExecutor) -> None:
    listen = SinglePass(least=16_000)
    assert hear(executor, listen, count=8_000).heard is None
    assert hear(executor, listen, count=8_000, is_last=True).heard is not None
    assert hear(executor, listen, count=100, is_last=True).heard is None


@pytest.mark.slow
def test_silence_after_the_last_window_counts_for_nothing_but_the_end(executor: SerialExecutor) -> None:
    listen = SinglePass(silence=8_000, keep_attention=True)
    open_ended = hear(executor, replace(listen, silence=0), count=40_000, is_last=True)
    closed = hear(executor, listen, count=40_000, is_last=True)
    assert listened(closed).frames == listened(open_ended).frames == 125
    assert all(word.end <= closed.plan.window.end for word in listened(closed).words)
    going_on = hear(executor, listen, count=40_000)
    np.testing.assert_array_equal(
        going_on.heard.attention, open_ended.heard.attention
    )  # only the last window is closed
    assert closed.heard.attention is not None
    assert open_ended.heard.attention is not None
    assert closed.heard.attention.shape[-1] == open_ended.heard.attention.shape[-1]  # padded to 30 s both


def test_only_the_last_window_is_followed_by_silence(model: WhisperModel) -> None:
    executor = SerialExecutor(RoundResources(model, BARE))
    for is_last, encoded in ((False, 125), (True, 150)):  # 2.5 s, and half a second of silence
        result = hear(executor, SinglePass(silence=8_000), count=40_000, is_last=is_last)
        assert [cost.pieces for cost in result.costs if cost.stage == "encode"] == [((encoded, None),)]


@pytest.mark.slow
def test_silence_is_left_out_where_the_window_is_full(model: WhisperModel) -> None:
    executor = SerialExecutor(RoundResources(model, BARE))
    samples = np.tile(load_audio(CLIP), 5)[: 30 * 16_000 - 100]
    plan = RoundPlan(0, Span(0, len(samples)), is_last=True, hearing=SinglePass(silence=8_000, max_tokens=2))
    assert listened(executor.run(plan, samples, DecodeOptions())).frames == 1500


def test_silence_by_probability_says_nothing(executor: SerialExecutor) -> None:
    assert listened(hear(executor, SinglePass(no_speech=-1.0))).words == ()


@pytest.mark.slow
def test_the_prompt_comes_before(executor: SerialExecutor) -> None:
    unprompted = plain().heard.avg_logprob
    prompted = hear(executor, SinglePass(), prompt="The worst of all the days of the summer is the last.")
    none = hear(executor, SinglePass(context_tokens=0), prompt="The worst of all the days.")
    assert prompted.heard.avg_logprob != unprompted
    samples = load_audio(CLIP)
    plan = RoundPlan(7, Span(0, len(samples)), hearing=SinglePass(), prompt="The worst of all the days.")
    alone: Any = executor.run(plan, samples, DecodeOptions(condition_on_previous_text=False))
    assert alone.heard.avg_logprob == unprompted
    assert none.heard.avg_logprob == unprompted


class Detector:
    """Fires as told; remembers what it was shown."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.shapes: list[tuple[int, ...]] = []

    def fires(self, hidden: Any) -> bool:
        self.shapes.append(hidden.shape)
        return self.answer


@pytest.mark.slow
@pytest.mark.parametrize("answer", [True, False])
def test_the_detector_is_asked_about_the_real_audio(model: WhisperModel, answer: bool) -> None:
    detector = Detector(answer)
    executor = SerialExecutor(RoundResources(model, PAD30, detector=detector))
    result = listened(hear(executor, SinglePass(detect_end=True)))
    assert detector.shapes == [(result.frames, model.dims.n_audio_state)]
    assert result.word_ended is answer
    assert listened(hear(executor, SinglePass(max_tokens=3))).word_ended is None


@pytest.mark.slow
def test_the_detector_is_not_asked_about_a_word_that_others_follow(model: WhisperModel) -> None:
    detector = Detector(answer=False)
    executor = SerialExecutor(RoundResources(model, PAD30, detector=detector))
    guessed = listened(hear(executor, SinglePass(detect_end=True, watch=(Frontier(margin=200, lookahead_tokens=4),))))
    assert guessed.firm < len(guessed.words)
    assert (guessed.word_ended, detector.shapes) == (None, [])


def test_attention_is_kept_where_it_is_wanted(executor: SerialExecutor) -> None:
    result = hear(executor, SinglePass(keep_attention=True))
    assert result.heard.attention is not None
    assert result.heard.attention.shape[1] >= len(result.heard.tokens)
    assert plain().heard.attention is None


# --- framings ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("framing", [*map(get_framing, FRAMINGS), Buckets(masked=True)], ids=str)
def test_every_framing_hears_the_clip(model: WhisperModel, framing: Framing) -> None:
    result = listened(hear(SerialExecutor(RoundResources(model, framing)), SinglePass()))
    assert result.frames == -(-len(load_audio(CLIP)) // FRAME_SAMPLES)
    assert len(result.words) > 3


def test_a_masked_bucket_is_the_bare_window(model: WhisperModel) -> None:
    mel = np.random.default_rng(1).normal(size=(80, 250)).astype(np.float32)
    exact, masked = (framing(model, mel, taps=(LAST_LAYER,)) for framing in (BARE, Buckets(masked=True)))
    leaky = Buckets()(model, mel, taps=(LAST_LAYER,))
    assert (masked.frames, masked.valid_frames, leaky.valid_frames) == (150, 125, 125)
    np.testing.assert_allclose(masked.taps[LAST_LAYER][:125], exact.taps[LAST_LAYER], atol=2e-3)
    assert (
        np.abs(leaky.taps[LAST_LAYER][:125] - exact.taps[LAST_LAYER]).max() > 1e-2
    )  # padding leaks through the encoder


@pytest.mark.parametrize("masked", [False, True])
def test_the_decoder_does_not_see_the_padding(model: WhisperModel, masked: bool) -> None:
    """Padded and masked against the same encoder output cropped to the audio."""
    mel = np.random.default_rng(2).normal(size=(80, 250)).astype(np.float32)
    padded = Buckets(masked=masked)(model, mel)
    valid = padded.valid_frames
    assert (padded.frames, valid) == (150, 125)
    keys = tuple(np.ascontiguousarray(key.numpy()[..., :valid]) for key in padded.cross_k)
    contents = tuple(np.ascontiguousarray(content.numpy()[:, :, :valid]) for content in padded.cross_v)
    cropped = in_runtime(replace(padded, cross_k=keys, cross_v=contents, frames=valid))
    seen = replace(padded, valid_frames=padded.frames)  # nothing masked
    request = DecodeRequest(np.array([[50257, 50362, 464]]), (2,), need="logits")
    hidden, exact, leaky = (model.decoder(window).run(request).logits for window in (padded, cropped, seen))
    assert hidden is not None
    assert exact is not None
    assert leaky is not None
    np.testing.assert_allclose(hidden, exact, atol=1e-3, rtol=0)
    assert np.abs(leaky - exact).max() > 1e-2


# --- other models -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("layers", [2, 4])
def test_few_decoder_layers_and_a_language_without_spaces(layers: int, tmp_path: Path) -> None:
    """As in distil models and large-v3-turbo: no alignment heads are named, and they are chosen by the rule."""
    executor = SerialExecutor(RoundResources(small_multilingual(tmp_path / "model", layers), BARE))
    samples = load_audio(CLIP)[:48_000]
    plan = RoundPlan(0, Span(0, len(samples)), SinglePass())
    for watch in (Frontier(margin=20), BackwardShift(near_end=30)):
        listen = SinglePass(watch=(watch,), max_tokens=20, keep_attention=True)
        result: Any = executor.run(replace(plan, hearing=listen), samples, DecodeOptions(language="zh"))
        assert result.language == "zh"
        words = listened(result).words
        assert "\ufffd" not in "".join(word.word.text for word in words)[-1:]
        assert all(0 <= word.start <= word.end <= len(samples) for word in words)
        assert result.heard.attention is not None
        assert (
            result.heard.attention.shape[0] == (layers - layers // 2) * 1
        )  # the later half of the layers, one head each
    queries = []
    for said in ("", "今天天气很好我们去公园散步然后回家吃饭看书睡觉"):
        listen = SinglePass(max_tokens=1, context_tokens=20, keep_attention=True)
        result = executor.run(replace(plan, prompt=said, hearing=listen), samples, DecodeOptions(language="zh"))
        assert result.heard.attention is not None
        queries.append(result.heard.attention.shape[1])
    assert 15 < queries[1] - queries[0] <= 21, "what fits of a text without spaces precedes the window"
    detected = executor.run(replace(plan, hearing=SinglePass(max_tokens=5)), samples, DecodeOptions())
    assert detected.language is not None
    assert detected.language_probability < 1


@pytest.mark.slow
def test_a_round_after_another_finds_what_it_would_find_alone(
    model: WhisperModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = SerialExecutor(RoundResources(model, BARE))
    samples, listen = load_audio(CLIP), SinglePass(silence=SAMPLE_RATE)
    options, frames = DecodeOptions(), []

    def window(start: int, end: int, *, is_last: bool = False) -> tuple[RoundPlan, FloatArray]:
        plan = RoundPlan(7, Span(START + start, START + end), hearing=listen, is_last=is_last)
        return plan, samples[start:end]

    plan, audio = window(0, 40_000)
    state = executor.run(plan, audio, options).state
    assert state is not None

    def counted(samples: FloatArray, n_mels: int, first: int, count: int) -> FloatArray:
        frames.append(count)
        return raw_columns(samples, n_mels, first, count)

    monkeypatch.setattr(features, "raw_columns", counted)
    for plan, audio in (window(0, 41_000), window(6_400, 50_123), window(6_400, len(samples), is_last=True)):
        alone = executor.run(plan, audio, options)
        computed_alone, frames[:] = sum(frames), []
        after = executor.run(plan, audio, options, state)
        assert after.heard == alone.heard
        assert sum(frames) < computed_alone - 150, "most of the log-mel is known"
        state, frames[:] = after.state, []
