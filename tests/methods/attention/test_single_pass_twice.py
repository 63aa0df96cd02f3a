"""What a model hears a second time, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from single_pass_rounds import CLIP, START, hear, listened, plain, text
from whispertide.audio.file import load_audio
from whispertide.checkpoint.generation import Head
from whispertide.decoding.guards import Frontier, Halt, Scene
from whispertide.decoding.rules import NON_SPEECH, Rules
from whispertide.decoding.token_search import build_search
from whispertide.methods.attention import single_pass
from whispertide.methods.attention.backward_shift import BackwardShift
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import UNHEARD, AttendedDecode, SinglePass
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, PAD30, Framing
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import FloatArray, Span


def unheard(executor: SerialExecutor, heard_to: int | None, **rule: Any) -> HeardWords:
    """The last round of the clip under a frontier that ends the decode far too early."""
    listen = SinglePass(watch=(Frontier(**rule),), unheard_from=heard_to)
    return listened(hear(executor, listen, is_last=True))


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 3])
def test_a_decode_that_a_guard_ends_before_the_audio_ends_is_done_again_without(
    executor: SerialExecutor, beam: int
) -> None:
    whole = text(listened(plain(beam)).words)
    nothing = SinglePass(watch=(Frontier(margin=10_000),))
    assert text(listened(hear(executor, nothing, beam=beam)).words) == ""
    assert text(listened(hear(executor, replace(nothing, unheard_from=START), beam=beam)).words) == whole


@pytest.mark.slow
def test_a_decode_that_ends_where_the_audio_ends_is_not_done_again(executor: SerialExecutor) -> None:
    whole = listened(plain()).words
    end = START + len(load_audio(CLIP))
    assert unheard(executor, None, margin=10_000).words == ()
    assert unheard(executor, end - UNHEARD, margin=10_000).words == ()
    assert len(unheard(executor, end - UNHEARD - 1, margin=10_000).words) == len(whole)
    half = unheard(executor, None, margin=150)
    assert 0 < len(half.words) < len(whole), "the rule leaves some words"
    assert len(unheard(executor, START, margin=150).words) == len(whole)


def test_the_same_halt_again_leads_to_a_padded_decode(model: WhisperModel) -> None:
    executor = SerialExecutor(RoundResources(model, BARE))
    listen = SinglePass(watch=(BackwardShift(near_end=10_000),))
    halt = listened(hear(executor, listen)).halt
    assert halt is not None
    other = listened(hear(executor, replace(listen, retry=Halt("backward-shift", 99, 0))))
    assert not other.retried
    again = hear(executor, replace(listen, retry=halt))
    assert listened(again).retried
    assert [cost.pieces for cost in again.costs if cost.stage == "encode"][-1] == ((1500, None),)
    assert len(listened(again).words) > 3


@dataclass(frozen=True)
class Shifting:
    """Takes the token at `index` for a backward shift."""

    index: int

    def heads(self, model: WhisperModel) -> tuple[Head, ...]:
        return ()

    def guard(self, scene: Scene, model: WhisperModel) -> "ShiftingGuard":
        return ShiftingGuard(self.index)


class ShiftingGuard:
    last_frame = None

    def __init__(self, index: int) -> None:
        self.index = index
        self.halt: Halt | None = None

    def check(self, tokens: Sequence[int], attention: FloatArray | None, logprob: float) -> int | None:
        if len(tokens) <= self.index:
            return None
        self.halt = Halt("backward-shift", self.index, tokens[self.index])
        return self.index


@pytest.mark.slow
@pytest.mark.parametrize(("frame", "other"), [(BARE, PAD30), (PAD30, BARE)])
def test_what_shifts_backward_is_heard_once_more_in_the_other_framing(
    model: WhisperModel, frame: Framing, other: Framing
) -> None:
    """After the same prefix, and watched as the plan says for that."""
    executor = SerialExecutor(RoundResources(model, frame))
    whole = listened(hear(executor, SinglePass())).words
    prefix = tuple(token for word in whole[:2] for token in word.tokens)
    cut = hear(executor, SinglePass(watch=(Shifting(2),)), prefix=prefix)
    assert len(cut.heard.tokens) == 2
    assert not listened(cut).retried
    again = hear(executor, SinglePass(watch=(Shifting(2),), again=()), prefix=prefix)
    assert listened(again).retried
    padded = [cost.pieces == ((1500, None),) for cost in again.costs if cost.stage == "encode"]
    assert padded == [frame == PAD30, other == PAD30]
    assert (
        again.heard.tokens
        == hear(SerialExecutor(RoundResources(model, other)), SinglePass(), prefix=prefix).heard.tokens
    )
    watched = hear(executor, SinglePass(watch=(Shifting(2),), again=(Shifting(4),)), prefix=prefix)
    assert watched.heard.tokens == again.heard.tokens[:4]
    assert listened(watched).halt == Halt("backward-shift", 4, again.heard.tokens[4])


def test_another_halt_is_no_reason_to_hear_it_again(executor: SerialExecutor) -> None:
    result = hear(executor, SinglePass(watch=(Frontier(margin=200),), again=()))
    found = listened(result)
    assert found.halt is not None
    assert found.halt.reason == "frontier"
    assert not found.retried
    assert not listened(hear(executor, SinglePass(again=()))).retried


class Asked(RoundResources):
    """Remembers which tokens were suppressed, and whether something had to be said."""

    asked: ClassVar[tuple[object, bool]] = (None, False)

    def rules(self, options: DecodeOptions, must_speak: bool) -> Rules:
        Asked.asked = (options.suppress_tokens, must_speak)
        return super().rules(options, must_speak)


def heard_again(executor: SerialExecutor, listen: SinglePass, **about: Any) -> Any:
    """The window once more, after it halted at the same place before."""
    listen = replace(listen, watch=(BackwardShift(near_end=10_000),))
    halt = listened(hear(executor, listen, **about)).halt
    assert halt is not None
    again = hear(executor, replace(listen, retry=halt), **about)
    assert listened(again).retried
    return again


@pytest.mark.slow
def test_the_padded_decode_has_no_prefix_and_no_annotations_and_speaks(model: WhisperModel) -> None:
    executor = SerialExecutor(Asked(model, BARE))
    whole = listened(hear(executor, SinglePass())).words
    prefix = tuple(token for word in whole[:3] for token in word.tokens)
    again = listened(heard_again(executor, SinglePass(), prefix=prefix))
    assert text(again.words).split()[:3] == text(whole).split()[:3]
    assert Asked.asked == ((NON_SPEECH,), True)


@pytest.mark.slow
def test_the_padded_decode_does_not_end_before_there_are_tokens_for_its_length(model: WhisperModel) -> None:
    listen = SinglePass(no_speech=1.0, loop_guard=False, must_speak=True)
    executor = SerialExecutor(RoundResources(model, BARE))
    samples = np.pad(load_audio(CLIP)[:32_000], (0, 8 * 16_000))

    def run(listen: SinglePass) -> Any:
        return executor.run(RoundPlan(0, Span(0, len(samples)), hearing=listen), samples, DecodeOptions(beam=1))

    halted = replace(listen, watch=(BackwardShift(near_end=10_000),))
    again = run(replace(halted, retry=listened(run(halted)).halt))
    assert listened(again).retried
    assert len(again.heard.tokens) >= 15  # 1.5 per second
    assert len(run(listen).heard.tokens) < 15


@pytest.mark.slow
def test_an_unlikely_decode_is_tried_again_with_beams_and_the_better_one_counts(executor: SerialExecutor) -> None:
    rescue = SinglePass(rescue=-0.001, rescue_beam=3)
    ways = (SinglePass(), 1), (SinglePass(), 3), (rescue, 1)
    greedy, beams, rescued = (hear(executor, listen, count=40_000, beam=beam) for listen, beam in ways)
    assert rescued.stats.decoder_runs == greedy.stats.decoder_runs + beams.stats.decoder_runs
    better, worse = rescued.heard.avg_logprob, greedy.heard.avg_logprob
    assert worse + 0.03 < better == beams.heard.avg_logprob
    assert listened(rescued).words == listened(beams).words


@pytest.mark.slow
def test_a_text_that_was_not_watched_while_beams_found_it_is_watched_afterwards(
    executor: SerialExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that ended without ever having led."""
    rule = Frontier(margin=listened(plain()).frames // 2)
    with_guards = listened(hear(executor, SinglePass(watch=(rule,)), beam=3))
    monkeypatch.setattr(
        single_pass, "build_search", lambda *args, **more: build_search(*args, **{**more, "guards": ()})
    )
    without = listened(hear(executor, SinglePass(watch=(rule,)), beam=3))
    assert without.halt is not None
    assert with_guards.halt is not None
    assert without.halt.reason == "frontier"
    assert without.firm == len(without.words) > 0
    assert abs(without.firm - with_guards.firm) <= 1


@pytest.mark.slow
def test_a_second_attempt_that_lost_its_place_does_not_count(
    executor: SerialExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lost:
        halt, last_frame = Halt("rewind", 0, 0), None

    def lose(decode: Any, *_: object) -> list[Lost]:
        decode.found = replace(decode.found, best=decode.found.best.cut(0))
        return [Lost()]

    greedy = listened(plain())
    monkeypatch.setattr(AttendedDecode, "_watched_anew", lose)
    rescued = listened(hear(executor, SinglePass(rescue=-0.001, rescue_beam=3)))
    assert (rescued.words, rescued.halt) == (greedy.words, None)
