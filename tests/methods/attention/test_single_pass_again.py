"""When SinglePass hears a window once more: cut words, texts that stop short, unlikely ones."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scripted_model import ScriptedModel, Story, story, telling
from scripted_single_pass import OTHER, SECONDS, START, TOKENS, WALK, Detector, Stop, hear, listened
from whispertide.decoding.guards import Halt, HaltReason
from whispertide.methods.attention.single_pass import RETRY_TOKENS_PER_S, UNHEARD, SinglePass
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, PAD30, Framing, Zeros
from whispertide.types import FloatArray


class TestTheLastWord:
    LONG = story((" we", 10), (" Shet", 40), ("land", 70))

    def ended(self, told: Story, stop: Stop | None, detect: bool = True) -> bool | None:
        listen = SinglePass(detect_end=detect, watch=(stop,) if stop else ())
        return listened(hear(telling(told), listen, detector=Detector())).word_ended

    @pytest.mark.parametrize(("reason", "ended"), [("frontier", False), ("backward-shift", False), ("rewind", True)])
    def test_it_goes_on_if_the_token_that_was_dropped_belongs_to_it(self, reason: HaltReason, ended: bool) -> None:
        at = len(self.LONG) - 1
        assert self.ended(self.LONG, Stop(at, reason)) is ended

    def test_else_the_detector_is_asked(self) -> None:
        assert self.ended(WALK, Stop(2)) is True  # a new word was dropped
        assert self.ended(WALK, None) is True
        assert self.ended(WALK, Stop(1, keep=1)) is None  # a guess follows
        assert self.ended(WALK, None, detect=False) is None
        assert listened(hear(telling(WALK), SinglePass(detect_end=True))).word_ended is None

    def test_it_sees_the_real_audio(self) -> None:
        detector = Detector()
        hear(telling(WALK), SinglePass(detect_end=True, silence=3200), detector=detector, frame=PAD30, is_last=True)
        assert [hidden.shape for hidden in detector.seen] == [(100, 4)]


def by_window(first: Story, second: Story) -> ScriptedModel:
    """Says one thing in the first encoded window, another in the second."""
    # By what it holds: a round adds to it what is kept for the next one.
    model = ScriptedModel(lambda encoded: first if encoded.taps is model.windows[0].taps else second)
    return model


class TestOnceMore:
    @pytest.mark.parametrize(
        ("short", "is_last", "frames"),
        [(SECONDS, True, 1500), (SECONDS - 1, True, 100), (SECONDS, False, 100), (0, True, 100)],
    )
    def test_a_short_utterance_is_heard_padded_in_the_end(self, short: int, is_last: bool, frames: int) -> None:
        model = telling(WALK)
        hear(model, SinglePass(short=short), is_last=is_last)
        assert [window.frames for window in model.windows] == [frames]

    @pytest.mark.parametrize(("frame", "again"), [(BARE, 100), (Zeros(), 150), (PAD30, 100)])
    def test_where_it_shifted_it_is_heard_again_as_windows_usually_are(self, frame: Framing, again: int) -> None:
        model, stop = by_window(WALK, OTHER), Stop(2, "backward-shift")
        hear(model, SinglePass(short=SECONDS, watch=(stop,), again=()), frame=frame, is_last=True)
        assert [window.frames for window in model.windows] == [1500, again]

    @pytest.mark.parametrize(("frame", "frames"), [(BARE, [100, 1500]), (PAD30, [1500, 100])])
    def test_in_the_other_framing(self, frame: Framing, frames: list[int], clock: None) -> None:
        model = by_window(WALK, OTHER)
        stop = Stop(2, "backward-shift")
        result = hear(model, SinglePass(watch=(stop,), again=(), detect_end=True), frame=frame, detector=Detector())
        assert [window.frames for window in model.windows] == frames
        assert result.heard.tokens == tuple(token for token, _ in OTHER)
        found = listened(result)
        assert (found.retried, found.halt, found.frames, found.word_ended) == (True, None, 100, None)
        assert [(cost.stage, cost.seconds, cost.pieces) for cost in result.costs] == [
            ("encode", 2, ((frames[0], None),)), ("decode", 1, ()), ("align", 1, ()),
            ("encode", 1, ((frames[1], None),)), ("decode", 1, ()), ("align", 1, ()),
        ]  # fmt: skip
        stats = result.stats
        assert (stats.encode_s, stats.features_s, stats.decode_s, stats.align_s) == (3, 1, 2, 2)
        assert model.mels[1].shape[1] == 2 * frames[1]

    def test_watched_by_others(self) -> None:
        stop = Stop(2, "backward-shift")
        result = hear(by_window(WALK, OTHER), SinglePass(watch=(stop,), again=(Stop(1, "backward-shift"),)))
        assert result.heard.tokens == (OTHER[0][0],)  # and not a third time
        assert listened(result).halt == Halt("backward-shift", 1, OTHER[1][0])
        for halted in (Stop(2, "rewind"), Stop(9)):
            assert not listened(hear(by_window(WALK, OTHER), SinglePass(watch=(halted,), again=()))).retried
        for halted, retried in ((Stop(2, "rewind"), True), (Stop(2), False)):
            listen = SinglePass(watch=(halted,), again=(), believes_jumps=True)
            assert listened(hear(by_window(WALK, OTHER), listen)).retried is retried
        assert hear(by_window(WALK, OTHER), SinglePass(watch=(stop,))).heard.tokens == TOKENS[:2]

    def test_after_the_same_prefix(self) -> None:
        stop = Stop(1, "backward-shift")
        model = by_window(WALK, OTHER)
        result = hear(model, SinglePass(watch=(stop,), again=()), prefix=TOKENS[:1])
        assert result.heard.tokens == tuple(token for token, _ in OTHER[1:])

    def test_the_fallback_is_padded_and_has_no_prefix_and_must_speak(self) -> None:
        """The halt at the same place again, as NPUsper does it."""
        stop = Stop(1, "backward-shift")
        for frame in (BARE, PAD30):
            model = by_window(WALK, OTHER)
            listen = SinglePass(watch=(stop,), retry=Halt("backward-shift", 1, TOKENS[2]), real_end=False)
            result = hear(model, listen, frame=frame, prefix=TOKENS[:1])
            assert [window.frames for window in model.windows][1] == 1500
            assert result.heard.tokens[:4] == tuple(token for token, _ in OTHER)
            assert listened(result).retried
        other = replace(listen, retry=Halt("backward-shift", 2, TOKENS[2]))
        assert not listened(hear(by_window(WALK, OTHER), other, prefix=TOKENS[:1])).retried

    @pytest.mark.parametrize(("seconds", "least"), [(10, 15), (3, 4)])
    def test_the_fallback_has_tokens_for_its_length(self, seconds: int, least: int) -> None:
        assert int(RETRY_TOKENS_PER_S * seconds) == least
        stop = Stop(1, "backward-shift")
        listen = SinglePass(watch=(stop,), retry=Halt("backward-shift", 1, TOKENS[1]), loop_guard=False)
        result = hear(by_window(WALK, WALK[:1]), listen, samples=seconds * 16_000)
        assert listened(result).retried
        assert len(result.heard.tokens) == least

    def test_the_fallback_ends_with_the_text_and_asks_no_detector(self) -> None:
        """Three seconds, four tokens at least; and the text begins with one that speaks."""
        stop, detector, far = Stop(1, "backward-shift"), Detector(), OTHER[2][0]
        listen = SinglePass(
            watch=(stop,), retry=Halt("backward-shift", 1, TOKENS[1]), real_end=False, detect_end=True, loop_guard=False
        )
        model = by_window(WALK, OTHER)
        model.next_best = far
        result = hear(model, listen, samples=3 * 16_000, detector=detector)
        assert (result.heard.tokens, result.heard.stop) == (tuple(token for token, _ in OTHER), "end_of_text")
        assert len(detector.seen) == 1  # in the first decode
        model = by_window(WALK, [])
        model.next_best = far
        assert hear(model, listen, samples=1600, detector=detector).heard.tokens == (far,)  # something is said
        blank = model.tokenizer.encode(" ")[0]
        assert hear(by_window(WALK, [(blank, 5), *OTHER]), listen).heard.tokens[0] != blank

    def test_what_is_heard_once_more_asks_no_detector(self) -> None:
        detector = Detector()
        hear(
            by_window(WALK, OTHER),
            SinglePass(watch=(Stop(2, "backward-shift"),), again=(), detect_end=True),
            detector=detector,
        )
        assert len(detector.seen) == 1  # in the first decode

    def test_after_a_hush_word_it_is_heard_without(self) -> None:
        model = by_window(WALK, [*OTHER, *story((" on", 110))])
        stop = Stop(2, "backward-shift")
        result = hear(model, SinglePass(watch=(stop,), again=()), suffix=np.ones(8_000, np.float32))
        assert [window.frames for window in model.windows] == [125, 1500]
        assert len(result.heard.words) == 5  # nothing is left out

    def test_a_decode_without_end(self) -> None:
        """The second-best token is taken for the end of text, if it says something."""
        far = OTHER[2][0]
        result = hear(telling(WALK, next_best=far), SinglePass(real_end=False, max_tokens=6, loop_guard=False))
        assert (result.heard.tokens, result.heard.stop) == ((*TOKENS, far, far, far), "length")
        assert hear(telling(WALK, next_best=far)).heard.tokens == TOKENS
        assert hear(telling(WALK), SinglePass(real_end=False, max_tokens=6)).heard.tokens == TOKENS


class TestStoppedShort:
    @pytest.mark.parametrize(
        ("heard_to", "again"), [(None, False), (0, True), (SECONDS - UNHEARD, False), (SECONDS - UNHEARD - 1, True)]
    )
    def test_what_no_round_has_heard_is_heard_unwatched(self, heard_to: int | None, again: bool) -> None:
        unheard = None if heard_to is None else START + heard_to
        result = hear(telling(WALK), SinglePass(watch=(Stop(0),), unheard_from=unheard))
        assert result.heard.tokens == (TOKENS if again else ())
        assert (listened(result).halt is None) is again
        assert not listened(result).retried

    def test_it_counts_from_the_last_word_that_was_heard(self) -> None:
        for frame, again in ((40, True), (60, False)):
            told = story((" we", 10), (" walk", frame), (" home", 90))
            result = hear(telling(told), SinglePass(watch=(Stop(2),), unheard_from=START))
            assert (len(result.heard.tokens) == 3) is again
        whole = hear(telling(WALK), SinglePass(watch=(Stop(9),), unheard_from=START - 160_000))
        assert [cost.stage for cost in whole.costs] == ["encode", "decode", "align"]

    def test_what_was_heard_once_more_stays_so(self) -> None:
        stop = Stop(2, "backward-shift")
        listen = SinglePass(watch=(stop,), again=(Stop(0, "backward-shift"),), unheard_from=START)
        result = hear(by_window(WALK, OTHER), listen)
        assert result.heard.tokens == tuple(token for token, _ in OTHER)
        assert listened(result).retried

    def test_what_turned_back_is_not_heard_unwatched_where_that_is_believed(self) -> None:
        for reason in ("backward-shift", "rewind"):
            for believes in (False, True):
                listen = SinglePass(watch=(Stop(0, reason),), unheard_from=START, believes_jumps=believes)
                assert hear(telling(WALK), listen).heard.tokens == (() if believes else TOKENS)

    def test_other_guards_watch_then(self) -> None:
        listen = SinglePass(watch=(Stop(0),), unheard_from=START, unbounded=(Stop(2, "backward-shift"),))
        assert hear(telling(WALK), listen).heard.tokens == TOKENS[:2]


class TestRescue:
    def unsure(self, sure: float) -> ScriptedModel:
        return telling(WALK, sure=lambda encoded: sure)

    def test_likely_text_is_not_tried_again(self) -> None:
        model = self.unsure(11.0)
        plain = hear(model)
        mean = plain.heard.avg_logprob
        assert mean < -0.5
        for rescue, tries in ((mean, 1), (mean + 1e-4, 2)):
            model = self.unsure(11.0)
            result = hear(model, SinglePass(rescue=rescue, rescue_beam=3))
            assert len(model.decoders) == tries
            assert result.heard.tokens == TOKENS
        assert result.stats.decoder_runs > plain.stats.decoder_runs
        assert max(len(request.tokens) for request in model.decoders[1].requests) == 3
        model = self.unsure(11.0)
        hear(model, SinglePass(rescue=mean + 1e-4), options=DecodeOptions(beam=2))
        assert len(model.decoders) == 1

    def test_the_better_of_two_decodes_counts(self) -> None:
        """The first step is nearly a tie; greedily the wrong word comes first, and what follows it is unlikely."""
        other, (we, walk, home) = OTHER[0][0], TOKENS

        class Forked(ScriptedModel):
            def decoder(self, encoded: Any, *, heads: Any = ()) -> Any:
                run = super().decoder(encoded, heads=heads)
                plain = run.script

                def script(seen: tuple[int, ...]) -> FloatArray:
                    logits = plain(seen)
                    if we not in seen and other not in seen:
                        logits[we], logits[other] = 19.9, 20.0
                    elif other in seen:
                        logits[walk if len(seen) == 3 else home] = 11.0
                    return logits

                run.script = script
                return run

        model = Forked(lambda encoded: WALK)
        greedy = hear(model)
        assert greedy.heard.tokens[0] == other
        assert greedy.heard.avg_logprob < -0.3
        rescue = SinglePass(rescue=-0.3, rescue_beam=3)
        rescued = hear(model, rescue)
        assert rescued.heard.tokens == TOKENS
        runs = [len(run.requests) for run in model.decoders]
        assert rescued.stats.decoder_runs == runs[1] + runs[2]
        lost = hear(model, replace(rescue, watch=(Stop(3, "rewind"), Stop(2, "rewind"))))
        assert lost.heard.tokens[0] == other  # the second attempt lost its place
        kept = hear(model, replace(rescue, watch=(Stop(9), Stop(9, "rewind"))))
        assert kept.heard.tokens == TOKENS
        shifted = hear(model, replace(rescue, watch=(Stop(2, "frontier"),)))
        assert shifted.heard.tokens == TOKENS[:2]
        assert listened(shifted).halt == Halt("frontier", 2, home)
