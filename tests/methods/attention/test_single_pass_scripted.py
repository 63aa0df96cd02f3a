"""Rounds of one decode with a model that says what it is told: every time, count and request is known beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from each_row import each_row
from scripted_model import HEADS, ScriptedModel, Story, multilingual, story, telling
from whispertide.checkpoint.generation import Head
from whispertide.decoding.guards import Halt, HaltReason, Scene
from whispertide.decoding.language import ENOUGH
from whispertide.decoding.prompt import MARGIN_TOKENS
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import RETRY_TOKENS_PER_S, UNHEARD, SinglePass
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, PAD30, Framing, Zeros
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import FRAME_SAMPLES, N_SAMPLES, FloatArray, Span, join_words

START = 3200 * 320  # somewhere in the middle of a stream
WALK = story((" we", 10), (" walk", 40), (" home", 70))
TOKENS = tuple(token for token, _ in WALK)
SECONDS = 2 * 16_000


def hear(
    model: ScriptedModel,
    listen: SinglePass | None = None,
    *,
    frame: Framing = BARE,
    samples: int = SECONDS,
    options: DecodeOptions | None = None,
    detector: Any = None,
    suffix: FloatArray | None = None,
    **plan: Any,
) -> Any:
    executor = SerialExecutor(RoundResources(model, frame, suffix, detector))  # type: ignore[arg-type]
    planned = RoundPlan(7, Span(START, START + samples), hearing=listen or SinglePass(), **plan)
    return executor.run(planned, np.zeros(samples, np.float32), options or DecodeOptions())


def listened(result: Any) -> HeardWords:
    assert result.heard is not None
    heard: HeardWords = result.heard
    return heard


def frames_of(result: Any) -> list[tuple[str, float, float]]:
    return [(word.word.text, (word.start - START) / 320, (word.end - START) / 320) for word in result.heard.words]


@dataclass(frozen=True)
class Stop:
    """Halts at the token `at`, which stays if `keep` is one more; notes the scenes it is put into."""

    at: int
    reason: HaltReason = "frontier"
    keep: int = 0
    wanted: tuple[Head, ...] = ()
    last_frame: int | None = None
    scenes: list[Scene] = field(default_factory=list, compare=False)

    def heads(self, model: Any) -> tuple[Head, ...]:
        return self.wanted

    def guard(self, scene: Scene, model: Any) -> "StopGuard":
        self.scenes.append(scene)
        return StopGuard(self)


class StopGuard:
    def __init__(self, rule: Stop) -> None:
        self.rule = rule
        self.halt: Halt | None = None
        self.last_frame = rule.last_frame

    def check(self, tokens: Sequence[int], attention: FloatArray | None, logprob: float) -> int | None:
        assert attention is not None
        if len(tokens) < self.rule.at + max(self.rule.keep, 1):
            return None
        self.halt = Halt(self.rule.reason, self.rule.at, tokens[self.rule.at])
        return self.rule.at + self.rule.keep


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second."""
    ticks = count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))


class TestOneDecode:
    def test_all_that_comes_of_a_round(self, clock: None) -> None:
        model = telling(WALK)
        result = hear(model)
        assert frames_of(result) == [(" we", 0, 40), (" walk", 40, 70), (" home", 70, 80)]
        found = listened(result)
        assert [(word.tokens, word.spoken_by) for word in found.words] == [
            ((token,), START + frame * FRAME_SAMPLES) for token, frame in WALK
        ]
        assert found == HeardWords(found.words, firm=3, frames=100)
        assert (result.heard.tokens, result.heard.stop, result.heard.attention) == (TOKENS, "end_of_text", None)
        assert (result.language, result.language_probability) == (None, 1.0)
        assert -1e-3 < found.avg_logprob < 0
        assert 0 < found.no_speech_prob < 1e-6
        assert [word.word.probability for word in found.words] == pytest.approx([1.0] * 3, abs=1e-3)
        assert [(cost.stage, cost.seconds, cost.pieces, cost.steps.runs) for cost in result.costs] == [
            ("encode", 2, ((100, None),), 0),
            ("decode", 1, (), 4),
            ("align", 1, (), 0),
        ]
        stats = result.stats
        assert (stats.encode_s, stats.features_s, stats.decode_s, stats.align_s) == (2, 1, 1, 1)
        assert (stats.decoder_runs, stats.tokens) == (4, 3)
        assert model.heads == [HEADS]

    def test_nothing_heard(self) -> None:
        result = hear(telling([]))
        assert (listened(result).words, listened(result).frames, result.heard.tokens) == ((), 100, ())

    def test_attention_is_kept_from_the_prompt_on(self) -> None:
        result = hear(telling(WALK), SinglePass(keep_attention=True))
        assert result.heard.attention.shape == (2, 5, 100)

    @pytest.mark.parametrize(
        ("samples", "is_last", "heard"), [(159, True, False), (160, True, True), (639, False, False)]
    )
    def test_too_little_audio(self, samples: int, is_last: bool, heard: bool) -> None:
        result = hear(telling([]), SinglePass(least=640), samples=samples, is_last=is_last)
        assert (result.heard is not None) is heard
        assert not heard or result.heard.stop == "end_of_text"
        assert hear(telling([]), SinglePass(least=640), samples=640).heard is not None

    @each_row(
        ("samples", "silence", "frames"),
        [
            (SECONDS, 3_200, 110),
            (SECONDS, 0, 100),
            (SECONDS, 160, 101),
            (N_SAMPLES - 320, 320, 1500),
            (N_SAMPLES, 1, 1500),
        ],
    )
    def test_the_last_window_is_followed_by_silence(self, samples: int, silence: int, frames: int) -> None:
        watch = Stop(99)
        model = telling(WALK)
        result = hear(model, SinglePass(silence=silence, watch=(watch,)), samples=samples, is_last=True)
        assert [window.frames for window in model.windows] == [frames]
        audio = samples // FRAME_SAMPLES
        assert listened(result).frames == audio
        (scene,) = watch.scenes
        assert (scene.frames, scene.silence) == (audio, frames - audio)

    def test_silence_that_does_not_fit_is_left_out(self) -> None:
        model = telling(WALK)
        hear(model, SinglePass(silence=321), samples=N_SAMPLES - 320, is_last=True)
        hear(model, SinglePass(silence=640), samples=SECONDS)
        assert [window.frames for window in model.windows] == [1499, 100]

    def test_what_is_heard_in_the_hush_word_was_not_said(self) -> None:
        model = telling([*WALK, *story((" hush", 100), (" hush", 105))])
        result = hear(model, suffix=np.zeros(8_000, np.float32))
        assert [window.frames for window in model.windows] == [125]
        assert frames_of(result) == [(" we", 0, 40), (" walk", 40, 70), (" home", 70, 100)]
        assert listened(result).frames == 100

    def test_a_window_that_says_to_be_silent_is(self) -> None:
        model = telling(WALK, no_speech=21.0)
        probability = hear(model).heard.no_speech_prob
        assert 0.5 < probability < 0.9
        quiet = hear(model, SinglePass(no_speech=probability - 1e-6))
        assert (listened(quiet).words, listened(quiet).frames, quiet.heard.tokens) == ((), 100, ())
        assert [cost.stage for cost in quiet.costs] == ["encode", "decode"]
        assert len(hear(model, SinglePass(no_speech=probability)).heard.words) == 3


class TestPrompt:
    def fed(self, model: ScriptedModel) -> list[int]:
        return [int(token) for token in model.decoders[-1].requests[0].tokens[0]]

    def test_context_start_and_prefix(self) -> None:
        model = telling(WALK)
        encode, start = model.tokenizer.encode, list(model.tokenizer.sot_sequence(None, "transcribe", False))
        result = hear(model, prompt="Then", prefix=TOKENS[:1], options=DecodeOptions(prompt="Notes."))
        before = [model.tokenizer.sot_prev, *encode(" Notes."), *encode(" Then")]
        assert self.fed(model) == [*before, *start, TOKENS[0]]
        assert result.heard.tokens == TOKENS[1:]
        hear(model, prompt="Then", options=DecodeOptions(prompt="Notes.", condition_on_previous_text=False))
        assert self.fed(model) == [*before[:-1], *start]
        hear(model, SinglePass(context_tokens=0), prompt="Then")
        assert self.fed(model) == start
        hear(
            model,
            SinglePass(context_tokens=1, static_prompt=False),
            prompt="Then",
            options=DecodeOptions(prompt="Notes."),
        )
        assert self.fed(model) == [before[0], before[-1], *start]

    @pytest.mark.parametrize(("prefix", "fed"), [(0, 0), (1, 0), (300, 0), (600, 1)])
    def test_there_is_always_room_for_text(self, prefix: int, fed: int) -> None:
        model = telling([(1000, 10)] * 2000)
        full = model.dims.n_text_ctx - MARGIN_TOKENS
        listen = SinglePass(context_tokens=448, max_tokens=400, loop_guard=False)
        result = hear(model, listen, prompt="word " * 1000, prefix=(1000,) * prefix)
        assert len(self.fed(model)) == full - fed
        assert len(result.heard.tokens) == MARGIN_TOKENS + 1 + fed
        assert result.heard.stop == "length"

    @pytest.mark.parametrize(("listen", "options", "count"), [(5, None, 5), (5, 3, 3), (5, 9, 5), (1, None, 1)])
    def test_the_lower_limit_counts(self, listen: int, options: int | None, count: int) -> None:
        result = hear(
            telling([(1000, 10)] * 20), SinglePass(max_tokens=listen), options=DecodeOptions(max_tokens=options)
        )
        assert len(result.heard.tokens) == count


class TestGuards:
    def test_what_a_guard_is_told(self) -> None:
        watch = Stop(99, wanted=((0, 0), (3, 3)), last_frame=44)
        model = telling(WALK)
        result = hear(model, SinglePass(watch=(Stop(99), watch)), prefix=TOKENS[:1])
        (scene,) = watch.scenes
        assert scene.heads == model.heads[0] == ((0, 0), *HEADS)
        assert (scene.opening, scene.forced, scene.frames, scene.silence) == (3, TOKENS[:1], 100, 0)
        assert scene.kind_of(TOKENS[0]).speaks
        assert frames_of(result) == [(" walk", 40, 70), (" home", 70, 80)]  # by the heads that follow the audio
        assert (listened(result).last_frame, listened(result).halt) == (44, None)

    @pytest.mark.parametrize(("reason", "firm"), [("frontier", 1), ("rewind", 3), ("backward-shift", 3)])
    def test_text_after_the_frontier_is_a_guess(self, reason: HaltReason, firm: int) -> None:
        found = listened(hear(telling(WALK), SinglePass(watch=(Stop(1, reason, keep=2),))))
        assert (len(found.words), found.firm) == (3, firm)
        assert found.halt == Halt(reason, 1, TOKENS[1])

    def test_a_word_is_firm_with_its_last_token(self) -> None:
        parts = story((" Shetland", 10), (" is", 60))
        assert len(parts) > 2
        word = len(parts) - 1
        for at in range(len(parts)):
            found = listened(hear(telling(parts), SinglePass(watch=(Stop(at, keep=len(parts) - at),))))
            assert found.firm == (at >= word)

    def test_the_first_halt_counts(self) -> None:
        watch = (Stop(9), Stop(1, "rewind"), Stop(5))
        assert listened(hear(telling(WALK), SinglePass(watch=watch))).halt == Halt("rewind", 1, TOKENS[1])

    def test_copies_of_a_token_end_a_decode_where_that_is_wanted(self) -> None:
        model = telling([*WALK[:1], *[(1000, 40)] * 6])
        assert len(hear(model, SinglePass(loop_guard=False)).heard.tokens) == 7
        assert len(hear(model, SinglePass(loop_guard=False, same_token=3)).heard.tokens) < 5
        assert (
            len(hear(telling([(1000, 40)] * 200)).heard.tokens)
            < 100
            < len(hear(telling([(1000, 40)] * 200), SinglePass(loop_guard=False)).heard.tokens)
        )


class Detector:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def fires(self, hidden: Any) -> bool:
        self.seen.append(hidden)
        return True


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


OTHER = story((" they", 10), (" run", 40), (" far", 70), (" off", 80))


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


class TestLanguages:
    def speaking(self, *words: tuple[str, int], language: str = "de", **about: Any) -> ScriptedModel:
        return telling(story(*words, tokenizer=multilingual()), language=language, **about)

    def fed(self, model: ScriptedModel, decoder: int) -> list[int]:
        return [int(token) for token in model.decoders[decoder].requests[0].tokens[0]]

    def test_the_language_is_heard_where_nobody_says_it(self) -> None:
        model = self.speaking((" wir", 10), (" gehen", 40))
        result = hear(model, is_last=True)
        assert result.language == "de"
        assert 0.5 < result.language_probability < 0.7
        start = multilingual().sot_sequence("de", "transcribe", False)
        assert [self.fed(model, 0), self.fed(model, 1)] == [[start[0]], list(start)]
        assert join_words([word.word for word in result.heard.words]) == "wir gehen"

    def test_a_guess_of_the_language_waits_for_more_speech(self) -> None:
        """What is confirmed in a wrong language stays, and the utterance goes on in it (issue faults, 6)."""
        model = self.speaking((" wir", 10))
        waiting = hear(model, samples=ENOUGH - 320)
        assert (waiting.heard, waiting.language) == (None, "de")
        assert len(model.decoders) == 1  # nothing was decoded
        assert hear(model, samples=ENOUGH).heard is not None
        assert hear(model, samples=ENOUGH - 320, options=DecodeOptions(language="de")).heard is not None

    def test_another_language_than_before_has_to_be_certain(self) -> None:
        """An English reading went on in Portuguese after a pause, heard at 0.56 in more than three seconds."""
        model = self.speaking((" wir", 10))  # German at 0.5 to 0.7
        heard = hear(model, samples=ENOUGH, spoken="en")
        assert heard.language == "en"
        assert heard.language_probability < 0.5  # its own
        assert hear(model, samples=ENOUGH - 320, spoken="en").heard is None  # more speech may make it certain
        assert hear(model, samples=ENOUGH - 320, spoken="en", is_last=True).language == "en"
        assert hear(model, samples=ENOUGH - 320, spoken="de").heard is not None  # nothing to wait for
        assert hear(model, spoken="en", options=DecodeOptions(language="de")).language == "de"

    def test_language_and_task_are_as_asked(self) -> None:
        model = self.speaking((" wir", 10))
        result = hear(model, options=DecodeOptions(language="fr", task="translate"))
        assert (result.language, result.language_probability) == ("fr", 1.0)
        assert self.fed(model, 0) == list(multilingual().sot_sequence("fr", "translate", False))

    def test_a_language_without_spaces_is_cut_token_by_token(self) -> None:
        model = self.speaking(("我们", 10), ("走路", 40), language="zh")
        watch = Stop(99)
        result = hear(
            model, SinglePass(context_tokens=9, watch=(watch,)), prompt="今天天气很好我们去公园散步", is_last=True
        )
        assert [word.word.text for word in result.heard.words] == ["我们", "走", "路"]
        before = self.fed(model, 1)
        assert len(before) - len(multilingual().sot_sequence("zh")) > 3  # some of it fits
        assert watch.scenes[0].kind_of(before[-5]).speaks


class TestBeams:
    """What was found among beams is watched as if it had been found alone."""

    def test_the_best_text_is_cut_where_its_guard_halts(self) -> None:
        for at in range(3):
            found = hear(telling(WALK), SinglePass(watch=(Stop(at),)), options=DecodeOptions(beam=3))
            assert found.heard.tokens == TOKENS[:at]
            assert listened(found).halt == Halt("frontier", at, TOKENS[at])
            assert found.heard.stop == "guard"

    def test_a_text_without_a_halt_stays_whole(self) -> None:
        watch = Stop(3)
        found = hear(telling(WALK), SinglePass(watch=(watch,)), options=DecodeOptions(beam=3))
        assert (found.heard.tokens, listened(found).halt, found.heard.stop) == (TOKENS, None, "end_of_text")
        assert len(watch.scenes) == 2


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


class TestRules:
    def test_a_round_that_must_speak_does_not_begin_with_its_end(self) -> None:
        assert hear(telling([]), SinglePass(must_speak=True, max_tokens=3)).heard.tokens != ()
        assert hear(telling([])).heard.tokens == ()

    def test_nothing_but_text_is_said(self) -> None:
        model = telling([])
        for token in (model.tokenizer.eot + 1, model.tokenizer.timestamp_begin, model.dims.n_vocab - 1):
            assert token not in hear(telling([(token, 10), *WALK]), SinglePass(max_tokens=4)).heard.tokens
        for suppressed in ((), TOKENS[:1]):
            result = hear(telling(WALK[:1]), options=DecodeOptions(suppress_tokens=suppressed))
            assert (result.heard.tokens == TOKENS[:1]) is (suppressed == ())
