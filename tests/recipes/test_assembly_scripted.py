"""Rounds as whole windows with a model that says what it is told: every time, count and request is known beforehand."""

from itertools import count
from typing import Any

import numpy as np
import pytest

from each_row import each_row
from scripted_model import ScriptedModel, by_window, multilingual, story, telling, time
from whispertide.decoding.draft import Reference
from whispertide.errors import OptionError
from whispertide.methods.agreement.whole_window import HeardSegments, WholeWindow
from whispertide.methods.attention.truncation import TruncationDetector
from whispertide.methods.short.hush import HushWord
from whispertide.options import DecodeOptions
from whispertide.recipes.allocation import Allocation, Placement
from whispertide.recipes.assembly import executor_key, make_executor
from whispertide.recipes.recipe import Recipe
from whispertide.streaming.framing import BARE, PAD30, Buckets, Framing, Hush
from whispertide.streaming.pipelined import PipelinedExecutor
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.searches import Greedy
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import FRAME_SAMPLES, Span, Word

START = 3200 * 320  # somewhere in the middle of a stream
SECONDS = 2 * 16_000
WORDS = story((" we", 10), (" walk", 40), (" home", 70))


WALK = [time(0), *WORDS, time(80)]
TOKENS = tuple(token for token, _ in WALK)
LATER = story((" home", 5))


def hear(
    model: ScriptedModel,
    *,
    frame: Framing = BARE,
    samples: int = SECONDS,
    options: DecodeOptions | None = None,
    suffix: Any = None,
    encoder: Any = None,
    **plan: Any,
) -> Any:
    executor = SerialExecutor(RoundResources(model, frame, suffix, encoder=encoder))  # type: ignore[arg-type]
    hearing = WholeWindow(reread=plan.pop("reread", True))
    planned = RoundPlan(7, Span(START, START + samples), hearing, **plan)
    return executor.run(planned, np.zeros(samples, np.float32), options or DecodeOptions(temperatures=(0.0,)))


def frames_of(result: Any) -> list[tuple[str, float, float]]:
    return [(word.text, (word.start - START) / 320, (word.end - START) / 320) for word in result.heard.words]


def fed(model: ScriptedModel, decoder: int = 0, run: int = 0) -> list[int]:
    return [int(token) for token in model.decoders[decoder].requests[run].tokens[0]]


class TestSerial:
    def test_all_that_comes_of_a_round(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ticks = count()
        monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))
        model = telling(WALK)
        result = hear(model)
        assert frames_of(result) == [(" we", 0, 40), (" walk", 40, 70), (" home", 70, 80)]
        (segment,) = result.heard.segments
        assert (segment.span, segment.tokens) == (Span(START, START + 80 * FRAME_SAMPLES), TOKENS)
        assert 0 < segment.no_speech_prob < 1e-6
        assert [word.probability for word in result.heard.words] == pytest.approx([1.0] * 3, abs=1e-3)
        assert (result.heard.tokens, result.language, result.language_probability) == (TOKENS, None, 1.0)
        assert [(cost.stage, cost.seconds, cost.pieces, cost.steps.runs) for cost in result.costs] == [
            ("encode", 2, ((100, None),), 0),
            ("decode", 1, (), 6),
            ("align", 1, (), 1),
        ]
        stats = result.stats
        assert (stats.encode_s, stats.features_s, stats.decode_s, stats.align_s) == (2, 1, 1, 1)
        assert (stats.decoder_runs, stats.tokens) == (7, 5)

    @pytest.mark.parametrize(("samples", "frames"), [(159, None), (160, 1), (1600, 5)])
    def test_a_window_has_at_least_ten_milliseconds(self, samples: int, frames: int | None) -> None:
        model = telling([])
        heard = hear(model, samples=samples).heard
        assert heard == (None if frames is None else HeardSegments())
        assert [window.frames for window in model.windows] == ([] if frames is None else [frames])

    def test_times_never_leave_the_window(self) -> None:
        late = [time(0), *WORDS, time(150)]
        result = hear(telling(late), frame=PAD30)
        assert result.heard.segments[0].span.end <= START + SECONDS
        assert result.heard.words[-1].end <= START + SECONDS

    def test_another_model_encodes(self) -> None:
        decoder, encoder = telling(WALK), telling([])
        assert len(hear(decoder, encoder=encoder).heard.words) == 3
        assert (len(encoder.windows), len(decoder.windows), len(encoder.decoders)) == (1, 0, 0)

    def test_what_is_heard_in_the_hush_word_was_not_said(self) -> None:
        told = [time(0), *WORDS, *story((" hush", 105)), time(115)]
        model = telling(told)
        result = hear(model, suffix=np.zeros(8_000, np.float32))
        assert [window.frames for window in model.windows] == [125]
        assert [word.text for word in result.heard.words] == [" we", " walk", " home"]
        assert result.heard.words[-1].end == START + 100 * FRAME_SAMPLES

    @each_row(
        ("own", "said", "condition", "expected"),
        [
            ("", "", None, ""),
            ("Notes. ", " and then ", None, " Notes. and then"),
            ("Notes.", "and then", True, " Notes. and then"),
            ("Notes.", "and then", False, " Notes."),
            ("", "and then", None, " and then"),
            (" ", "and then", False, ""),
        ],
    )
    def test_the_users_prompt_comes_before_what_was_said(
        self, own: str, said: str, condition: bool | None, expected: str
    ) -> None:
        model = telling(WALK)
        options = DecodeOptions(prompt=own, condition_on_previous_text=condition)
        hear(model, prompt=said, options=options)
        before = [model.tokenizer.sot_prev, *model.tokenizer.encode(expected)] if expected else []
        assert fed(model) == [*before, model.tokenizer.sot]

    def test_what_is_left_of_a_window_is_one_of_its_own(self) -> None:
        """What follows the last closed segment; its words are the next ones, and its text is shown what was said."""
        model = by_window([time(0), *WORDS[:2], time(60), time(60), *WORDS[2:]], [time(0), *LATER, time(20)])
        options = DecodeOptions(temperatures=(0.0,), condition_on_previous_text=True)
        result = hear(model, frame=Buckets(), options=options)
        assert [mel.shape[1] for mel in model.mels] == [300, 300]
        assert [window.valid_frames for window in model.windows] == [100, 30]
        assert [word.text for word in result.heard.words] == [" we", " walk", " home"]
        assert result.heard.words[-1].start == START + 70 * FRAME_SAMPLES
        heard = [token for token, _ in (time(0), *WORDS[:2], time(60))]
        later = next(decoder for place, decoder in enumerate(model.decoders) if place == 2)
        sot_prev, sot = model.tokenizer.sot_prev, model.tokenizer.sot
        assert later.requests[0].tokens[0].tolist() == [sot_prev, *heard, sot]
        assert [cost.stage for cost in result.costs] == ["encode", "decode", "align"] * 2
        assert result.heard.tokens == (*heard, *(token for token, _ in (time(0), *WORDS[2:], time(20))))
        assert result.stats.tokens == len(result.heard.tokens)


class TestTold:
    """What a round is told reaches its decode."""

    @pytest.mark.slow
    def test_the_language_is_heard_where_nobody_says_it(self) -> None:
        told = [(multilingual().timestamp_begin, 0), *story((" wir", 10), tokenizer=multilingual())]
        told.append((multilingual().timestamp_begin + 80, 80))
        for wanted, code, least, most in ((None, "de", 0.5, 0.7), ("fr", "fr", 1.0, 1.0)):
            model = telling(told, language="de")
            options = DecodeOptions(language=wanted, task="translate", temperatures=(0.0,))
            result = hear(model, options=options, is_last=True)
            assert result.language == code
            assert least <= result.language_probability <= most
            decode, align = (fed(model, place) for place in (-2, -1))
            assert decode == list(multilingual().sot_sequence(code, "translate"))
            start = list(multilingual().sot_sequence(code, "translate", False))
            assert align == [*start, *(token for token, _ in told[1:-1]), multilingual().eot]
            assert [word.text for word in result.heard.words] == [" wir"]

    def test_guards_may_end_it(self) -> None:
        class Two:
            def check(self, tokens: Any, attention: Any, logprob: float) -> int | None:
                return 2 if len(tokens) == 3 else None

        executor = SerialExecutor(RoundResources(telling(WALK), BARE))  # type: ignore[arg-type]
        plan = RoundPlan(7, Span(START, START + SECONDS), WholeWindow())
        opening = executor.encode(plan, np.zeros(SECONDS, np.float32))
        result: Any = executor.decode(plan, opening, DecodeOptions(temperatures=(0.0,)), [Two()])
        assert result.heard.tokens[:3] == (*TOKENS[:2], TOKENS[0])  # and what is left is a window of its own
        assert result.plan is plan
        silent = executor.run(plan, np.zeros(0, np.float32), DecodeOptions())
        assert (silent.plan, silent.heard, silent.costs) == (plan, None, ())

    @pytest.mark.parametrize(("reread", "windows"), [(True, 2), (False, 1)])
    def test_what_breaks_off_is_read_again_or_left(self, reread: bool, windows: int) -> None:
        model = by_window([time(0), *WORDS], [])
        hear(model, reread=reread)
        assert len(model.windows) == windows

    def test_a_later_window_follows_the_words_that_lie_in_it(self) -> None:
        first = [time(0), *WORDS[:2], time(60), time(60), *WORDS[2:]]
        model = by_window(first, [time(0), *LATER, time(20)])
        hear(model, reference=Reference((), START, EARLIER, block=True))
        assert model.decoders[2].requests[1].tokens.tolist() == [[TOKENS[0], LATER[0][0]]]

    def test_words_say_how_sure_they_are(self) -> None:
        result = hear(telling(WALK, sure=lambda encoded: 12.0), options=DecodeOptions(temperatures=(0.0,)))
        assert all(0.5 < word.probability < 0.9 for word in result.heard.words)


EARLIER = tuple(
    Word(text, START + start * FRAME_SAMPLES, START + end * FRAME_SAMPLES)
    for text, start, end in [(" we", 0, 40), (" walk", 40, 70), (" home", 70, 80)]
)


class TestFollowing:
    def following(self, start: int = START, tokens: tuple[int, ...] = TOKENS, **how: Any) -> Reference:
        return Reference(tokens, start, EARLIER, block=True, **how)

    def test_the_text_of_the_round_before_is_checked_as_one_block(self) -> None:
        model = telling(WALK)
        assert hear(model, reference=self.following()).heard.tokens == TOKENS
        assert fed(model) == [model.tokenizer.sot, *TOKENS[:-1]]

    def test_its_opening_is_known_only_where_the_window_begins_at_the_same_time(self) -> None:
        model = telling(WALK)
        for reference in (
            self.following(START - FRAME_SAMPLES),
            self.following(tokens=()),
            self.following(tokens=TOKENS[1:]),
        ):
            assert hear(model, reference=reference).heard.tokens == TOKENS
            assert fed(model, -2) == [model.tokenizer.sot]
            assert fed(model, -2, 1) == list(TOKENS[:-1])

    @pytest.mark.parametrize(("late", "runs"), [(0, 3), (99, 3), (102, 6)])
    def test_words_are_found_by_their_times_in_the_window(self, late: int, runs: int) -> None:
        """No more than two seconds away from where the window's own first word may be."""
        words = tuple(
            Word(word.text, word.start + late * FRAME_SAMPLES, word.end + late * FRAME_SAMPLES) for word in EARLIER
        )
        model = telling(WALK)
        reference = Reference((), START, words, align="time", recover=False, block=True)
        result = hear(model, reference=reference)
        assert result.heard.tokens == TOKENS
        assert len(model.decoders[0].requests) == runs

    def test_without_a_reference_there_is_nothing_to_follow(self) -> None:
        model = telling(WALK)
        hear(model)
        assert all(len(request.tokens[0]) == 1 for request in model.decoders[0].requests)


PLAIN = Recipe("plain", search=Greedy())
CPU = Placement("cpu", 1)


class TestMaking:
    def make(self, recipe: Recipe, **about: Any) -> tuple[Any, ScriptedModel]:
        model = telling(WALK)
        return make_executor(model, recipe, **about), model  # type: ignore[arg-type]

    def test_each_policy_has_its_kind_with_the_framing_of_the_recipe(self) -> None:
        executor, model = self.make(PLAIN)
        assert isinstance(executor, SerialExecutor)
        assert [id(executor.resources.model), id(executor.resources.encodes)] == [id(model)] * 2
        assert executor.resources.frame == PAD30
        assert executor.resources.suffix is None
        for policy in ("align-att", "grounded"):
            executor, model = self.make(PLAIN.replace(policy=policy, framing="bare"))
            assert isinstance(executor, SerialExecutor)
            assert [id(executor.resources.model), id(executor.resources.encodes)] == [id(model)] * 2
            assert executor.resources.frame == BARE
            assert (executor.resources.suffix, executor.resources.detector) == (None, None)
        assert model.decoders == []  # nothing is opened before it is needed

    @pytest.mark.parametrize("policy", ["local-agreement", "align-att"])
    def test_a_hush_word_goes_after_every_window(self, policy: str) -> None:
        word = HushWord(np.linspace(-0.5, 0.5, 4_000, dtype=np.float32), "0" * 64)
        executor, _ = self.make(PLAIN.replace(policy=policy, framing="hush", hush_s=0.25), hush=word)
        assert (executor.resources.suffix is word.samples, executor.resources.frame) == (True, Hush(hush_s=0.25))
        with pytest.raises(OptionError, match="hush_s"):
            self.make(PLAIN.replace(policy=policy, framing="hush", hush_s=0.5), hush=word)
        piped, _ = self.make(PLAIN.replace(framing="hush", hush_s=0.25, executor="pipelined"), hush=word)
        assert isinstance(piped, PipelinedExecutor)

    def test_a_pipeline_computes_the_same_rounds(self) -> None:
        plan, options = RoundPlan(7, Span(START, START + SECONDS), WholeWindow()), DecodeOptions(temperatures=(0.0,))
        audio = np.zeros(SECONDS, np.float32)
        serial, _ = self.make(PLAIN)
        piped, _ = self.make(PLAIN, allocation=Allocation(CPU, CPU))
        assert piped.begin(plan, audio, options).result().heard == serial.run(plan, audio, options).heard

    def test_there_is_a_detector_where_the_recipe_wants_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = object()
        monkeypatch.setattr(TruncationDetector, "of_checkpoint", lambda _: found)
        executor, _ = self.make(PLAIN.replace(policy="align-att", truncate="detector"))
        assert executor.resources.detector is found

    @pytest.mark.parametrize("policy", ["local-agreement", "align-att"])
    def test_stages_compute_where_they_are_told(self, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Any] = []

        def view(model: ScriptedModel, options: Any) -> ScriptedModel:
            asked.append((options.provider, options.threads))
            return telling(WALK, name=f"{options.threads} threads")

        monkeypatch.setattr(ScriptedModel, "view", view)
        executor, _ = self.make(PLAIN.replace(policy=policy), allocation=Allocation(Placement("cpu", 3)))
        assert asked == [("cpu", 3)]
        assert executor.resources.encodes is executor.resources.model
        assert len(executor.resources.encodes.mels) == 1  # its graphs were opened
        assert len(executor.resources.model.decoders) == 1

    def test_a_pipeline_has_two_places(self, monkeypatch: pytest.MonkeyPatch) -> None:
        views: list[ScriptedModel] = []

        def view(model: ScriptedModel, options: Any) -> ScriptedModel:
            views.append(telling(WALK, name=f"{options.threads}"))
            return views[-1]

        monkeypatch.setattr(ScriptedModel, "view", view)
        executor, _ = self.make(PLAIN, allocation=Allocation(Placement("cpu", 3), Placement("cpu", 2)))
        assert isinstance(executor, PipelinedExecutor)
        assert [each.name for each in views] == ["3", "2"]
        assert (len(views[0].mels), len(views[1].decoders), len(views[0].decoders)) == (1, 1, 0)
        assert views[0].mels[0].shape == (80, 2)
        executor, _ = self.make(PLAIN.replace(executor="pipelined"))
        assert isinstance(executor, PipelinedExecutor)
        assert [each.name for each in views[2:]] == ["1", "1"]  # its threads are shared out
        assert isinstance(executor.stages, SerialExecutor)
        assert id(executor.stages.resources.encodes) == id(views[-2])

    @each_row(
        ("changes", "key"),
        [
            ({}, (PAD30, False)),
            ({"policy": "align-att", "framing": "bare"}, (BARE, False)),
            ({"policy": "grounded"}, (PAD30, False)),
            ({"policy": "align-att", "truncate": "detector"}, (PAD30, True)),
            ({"framing": "hush", "hush_s": 0.25}, (Hush(hush_s=0.25), False)),
        ],
    )
    def test_recipes_of_the_same_key_may_share_an_executor(self, changes: dict[str, Any], key: Any) -> None:
        assert executor_key(PLAIN.replace(**changes)) == (*key, None)
