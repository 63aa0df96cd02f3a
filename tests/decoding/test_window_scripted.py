"""One window's decode and the times of its words, with a model that says what it is told."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest

from scripted_model import HEADS, ScriptedModel, Story, by_window, multilingual, story, telling, time
from whispertide.decoding import longform, token_search
from whispertide.decoding.accept import GREEDY, Accept, Beam, Sampling
from whispertide.decoding.draft import Reference
from whispertide.decoding.language import DetectedLanguage
from whispertide.decoding.longform import Transcription, pad30
from whispertide.decoding.search import Steps
from whispertide.decoding.segments import TimedSegment
from whispertide.decoding.token_search import build_search
from whispertide.decoding.voice import Voice
from whispertide.decoding.window import WindowResult, align_window, decode_window
from whispertide.decoding.word_repairs import SpokenSegment
from whispertide.features import Features
from whispertide.model.engine import Encoded
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.types import FRAME_SAMPLES, HOP_LENGTH, SAMPLE_RATE, FloatArray, Span, Word

WORDS = story((" we", 10), (" walk", 40), (" home", 70))


WALK = [time(0), *WORDS, time(80)]
TOKENS = tuple(token for token, _ in WALK)


def encoded(model: ScriptedModel, frames: int = 100) -> Any:
    return model.encode(np.zeros((80, 2 * frames), np.float32))


def decoded(model: ScriptedModel, options: DecodeOptions | None = None, **about: Any) -> WindowResult:
    return decode_window(model, encoded(model), options or DecodeOptions(), **about)  # type: ignore[arg-type]


class TestDecoding:
    def test_all_that_comes_of_a_window(self) -> None:
        model = telling(WALK)
        found = decoded(model)
        assert (found.tokens, found.text, found.temperature, found.stop) == (TOKENS, "we walk home", 0.0, "end_of_text")
        assert len(found.logprobs) == 5
        assert found.avg_logprob == pytest.approx(sum(found.logprobs) / 6, abs=1e-4)
        assert 0 < found.no_speech_prob < 1e-6
        assert found.compression_ratio == 12 / 20
        assert found.segments == (TimedSegment(0, 80 * FRAME_SAMPLES, TOKENS),)
        assert found.segmentation.consumed == 100 * FRAME_SAMPLES
        assert found.steps == Steps(6, 6, 6, prompts=1)
        assert model.heads == [()]

    def test_a_segment_that_is_not_closed_ends_with_the_audio(self) -> None:
        assert decoded(telling(WORDS), DecodeOptions(timestamps=False)).segments[0].end == 100 * FRAME_SAMPLES
        short = decoded(telling(WORDS), DecodeOptions(timestamps=False), duration=9_000)
        assert short.segments[0].end == short.segmentation.consumed == 9_000

    def test_what_is_fed_first(self) -> None:
        model = telling(WORDS)
        prefix = [token for token, _ in WORDS[:1]]
        found = decoded(model, DecodeOptions(timestamps=False), prompt_tokens=[5, 6], prefix=prefix)
        tokenizer = model.tokenizer
        assert model.decoders[0].requests[0].tokens.tolist() == [
            [tokenizer.sot_prev, 5, 6, tokenizer.sot, tokenizer.no_timestamps, *prefix]
        ]
        assert found.text == "walk home"

    def test_guards_and_heads(self) -> None:
        class Two:
            def check(self, tokens: Any, attention: Any, logprob: float) -> int | None:
                assert attention.shape[0] == 2
                return 2 if len(tokens) == 3 else None

        model = telling(WALK)
        found = decoded(model, guards=[Two()], heads=HEADS)
        assert (found.tokens, found.stop) == (TOKENS[:2], "guard")
        assert model.heads == [HEADS]

    def test_each_temperature_costs_and_the_last_one_stands(self) -> None:
        model = telling(WALK)
        options = DecodeOptions(temperatures=(0.0, 0.4), logprob_threshold=0.0, best_of=2, no_speech_threshold=None)
        found = decoded(model, options)
        assert (found.temperature, found.tokens) == (0.4, TOKENS)
        assert len(model.decoders) == 2
        runs = [len(decoder.requests) for decoder in model.decoders]
        assert found.steps.runs == sum(runs) == 12
        assert max(len(request.tokens) for request in model.decoders[1].requests) == 2

    def test_every_attempt_begins_with_what_was_heard_before(self) -> None:
        model = telling(WALK)
        options = DecodeOptions(temperatures=(0.0, 0.4), logprob_threshold=0.0, best_of=2, no_speech_threshold=None)
        words = (Word(" we", 0, 10), Word(" walk", 10, 20), Word(" home", 20, 30))
        followed = Reference(TOKENS, words=words)
        assert decoded(model, options, reference=followed).tokens == TOKENS
        assert [len(request.tokens) for request in model.decoders[1].requests].count(1) > 2
        assert decoded(model, reference=replace(followed, block=True)).steps.runs == 2

    def test_what_is_checked_in_blocks_is_of_no_use_above_zero(self) -> None:
        model = telling(WALK)
        options = DecodeOptions(temperatures=(0.4,), best_of=2, no_speech_threshold=None)
        block = Reference(TOKENS, words=(Word(" we", 0, 10),), block=True)
        decoded(model, options, reference=block)
        decoded(model, options, reference=replace(block, block=False))
        rows = [[len(request.tokens) for request in decoder.requests] for decoder in model.decoders]
        assert rows[0][:3] == [1, 2, 2]
        assert rows[1][:3] == [1, 1, 1]

    def test_what_says_nothing_cannot_be_followed(self) -> None:
        model = telling(WALK)
        assert decoded(model, reference=Reference(words=(Word(".", 0, 1),), block=True)).steps == Steps(
            6, 6, 6, prompts=1
        )


@dataclass
class Told:
    """Stands for `TokenSearch`, and notes what it is told."""

    prompt: Any
    rules: Any
    accept: Accept
    draft: Any
    length_penalty: float | None
    guards: Any


@pytest.mark.parametrize(
    ("beam", "accept"),
    [(1, GREEDY), (2, Beam(2, 1.7)), (3, Beam(3, 1.7))],
    ids=["greedy has no patience", "two", "three"],
)
def test_the_search_is_told_what_the_options_say(beam: int, accept: Accept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_search, "TokenSearch", Told)
    options = DecodeOptions(beam=beam, patience=1.7, length_penalty=0.3, best_of=4, seed=9)
    prompt, rules, draft, guards = object(), object(), object(), [object()]

    def search(temperature: float = 0.0, **about: Any) -> Told:
        told: Any = build_search(prompt, rules, options, temperature=temperature, guards=guards, **about)  # type: ignore[arg-type]
        assert (told.prompt, told.rules, told.guards, told.length_penalty) == (prompt, rules, guards, 0.3)
        assert told.draft is about.get("draft")
        return cast(Told, told)

    assert search().accept == accept == search(draft=draft).accept
    draws = []
    for temperature, about in ((0.2, {}), (0.201, {}), (0.2, {"draft": draft})):
        drawn = search(temperature, **about).accept
        assert isinstance(drawn, Sampling)
        assert (drawn.temperature, drawn.rows) == (temperature, 4)
        draws.append(drawn.rng.random())
    assert draws[0] == draws[2] == np.random.default_rng([9, 200]).random()
    assert draws[1] == np.random.default_rng([9, 201]).random()
    plain: Any = build_search(prompt, rules, options)  # type: ignore[arg-type]
    assert (plain.accept, plain.draft, plain.guards) == (accept, None, ())


class TestLanguages:
    def test_language_and_task_reach_the_decode_and_the_word_times(self) -> None:
        tokenizer = multilingual()
        words = story(("我们", 10), ("走路", 40), tokenizer=tokenizer)
        told = [(tokenizer.timestamp_begin, 0), *words, (tokenizer.timestamp_begin + 80, 80)]
        model = telling(told, language="zh")
        options = DecodeOptions(temperatures=(0.0,), task="translate")
        features = Features.of([np.zeros(2 * SAMPLE_RATE, np.float32)], 80)
        run = Transcription(model, features, options, "zh", seek=0, end=features.frames)  # type: ignore[arg-type]
        (segment,) = run.next_window()
        assert segment.language == "zh"
        assert [word.text for word in segment.words] == ["我们", "走", "路"]
        start = [list(tokenizer.sot_sequence("zh", "translate", timed)) for timed in (True, False)]
        fed = [run.requests[0].tokens[0].tolist() for run in model.decoders]
        assert fed == [start[0], [*start[1], *(token for token, _ in words), tokenizer.eot]]

    @pytest.mark.parametrize(
        ("whole", "first", "then", "seconds"),
        [
            (("fr", 0.6), ("en", 0.9), "en", 4.4),
            (("en", 0.6), ("fr", 0.9), "fr", 4.4),
            (("fr", 0.6), ("fr", 0.9), "fr", 4.4),
            (("en", 0.6), ("en", 0.9), "en", 9),
            (("en", 0.6), ("fr", 0.7), "en", 9),
            (("fr", 0.95), None, "fr", 9),
        ],
        ids=["two languages", "another first", "another alone", "one", "an accent", "certain"],
    )
    def test_of_a_window_that_may_be_in_several_languages_the_first_sentences_may_be_heard_alone(
        self,
        whole: tuple[str, float],
        first: tuple[str, float] | None,
        then: str,
        seconds: float,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """English was heard before. Somebody speaks for 4 s, and after a second for 4 s more."""
        heard: list[float] = []

        def open_window(model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
            heard.append(mel.shape[1] / 100)
            return pad30(model, mel)

        def listen(*_: Any) -> DetectedLanguage:
            found = whole if len(heard) == 1 else first
            assert found is not None
            return DetectedLanguage(*found)

        monkeypatch.setattr(longform, "detect_language", listen)
        told = [(multilingual().timestamp_begin, 0), *story((" we", 10), tokenizer=multilingual())]
        model = telling(told, language="fr")
        run = transcription(model, 9, options=UNTIMED, frame=open_window, voice=voice((0, 4), (5, 9)))
        (segment,) = run.next_window()
        assert heard == ([9, 4.4] if first else [9])
        assert segment.language == run.language == then
        assert segment.span.end / SAMPLE_RATE <= seconds + 0.1


class TestAligning:
    SEGMENTS = (
        TimedSegment(0, 40 * FRAME_SAMPLES, TOKENS[:2]),
        TimedSegment(40 * FRAME_SAMPLES, 99 * FRAME_SAMPLES, TOKENS[2:]),
    )

    def aligned(self, told: Story = WALK, **about: Any) -> list[list[tuple[str, float, float]]]:
        model = telling(told)
        found = align_window(model, encoded(model), self.SEGMENTS, **about)  # type: ignore[arg-type]
        return [[(word.text, word.start / 320, word.end / 320) for word in each.words] for each in found]

    def test_words_go_to_their_segments(self) -> None:
        expected = [[(" we", 0, 40)], [(" walk", 40, 70), (" home", 70, 80)]]
        assert self.aligned() == expected
        assert self.aligned(offset=320 * 50, last_speech=320 * 50) == [
            [(text, start + 50, end + 50) for text, start, end in each] for each in expected
        ]

    def test_only_audio_counts(self) -> None:
        (_, (walk, home)) = self.aligned(duration=75 * FRAME_SAMPLES)
        assert walk == (" walk", 40, 70)
        assert home[2] <= 75
        assert self.aligned(duration=60 * FRAME_SAMPLES, hushed=True) == [[(" we", 0, 40)], [(" walk", 40, 60)]]
        assert self.aligned(hushed=True) == self.aligned()

    def test_after_a_pause_the_first_word_is_shortened(self) -> None:
        late = [time(0), *story((" we", 0), (" walk", 90), (" home", 95)), time(99)]
        ((first,), _) = self.aligned(late, offset=320 * 100, last_speech=0)
        assert first[1] > 100
        ((first,), _) = self.aligned(late, offset=320 * 100, last_speech=320 * 190)
        assert first[1] == 100


def voice(*spoken: tuple[float, float]) -> Voice:
    """Somebody speaks between these seconds."""
    return Voice(tuple(Span(round(start * SAMPLE_RATE), round(end * SAMPLE_RATE)) for start, end in spoken))


UNTIMED = DecodeOptions(temperatures=(0.0,), word_timestamps=False)


def transcription(model: ScriptedModel, seconds: float = 2.0, **about: Any) -> Transcription:
    options = about.pop("options", DecodeOptions(temperatures=(0.0,)))
    features = Features.of([np.zeros(round(seconds * SAMPLE_RATE), np.float32)], 80)
    return Transcription(model, features, options, "en", seek=0, end=features.frames, **about)  # type: ignore[arg-type]


class TestWindowAfterWindow:
    def test_a_segment_as_it_is_written(self) -> None:
        (written,) = (run := transcription(telling(WALK))).next_window()
        assert (written.id, written.text, written.tokens, written.language) == (0, " we walk home", TOKENS, "en")
        assert written.span == Span(0, 80 * FRAME_SAMPLES)
        assert [word.text for word in written.words] == [" we", " walk", " home"]
        assert (written.temperature, written.compression_ratio) == (0.0, 12 / 20)
        assert run.context == list(TOKENS)
        assert (run.done, run.seek, run.last_speech, run.segments) == (True, 200, 80 * FRAME_SAMPLES, 1)
        assert [cost.stage for cost in run.costs] == ["encode", "decode", "align"]
        assert [cost.pieces for cost in run.costs] == [((1500, None),), (), ()]
        assert [cost.steps for cost in run.costs] == [Steps(), Steps(6, 6, 6, prompts=1), Steps(1, 1, 1)]

    def test_without_word_times(self) -> None:
        options = DecodeOptions(temperatures=(0.0,), word_timestamps=False)
        told = [time(5), *WORDS[:1], time(30), time(31), *WORDS[1:], time(80)]
        run = transcription(telling(told), options=options)
        written = run.next_window()
        assert [each.words for each in written] == [(), ()]
        spans = [(each.span.start / FRAME_SAMPLES, each.span.end / FRAME_SAMPLES) for each in written]
        assert spans == [(5, 30), (31, 80)]
        assert run.costs[-1].steps == Steps()
        assert run.last_speech == 0

    def test_silence_says_nothing(self) -> None:
        options = DecodeOptions(temperatures=(0.0,), logprob_threshold=None)
        run = transcription(telling(WALK, no_speech=30.0), options=options)
        assert run.next_window() == []
        assert (run.done, run.seek, run.context) == (True, 200, [])
        assert [cost.stage for cost in run.costs] == ["encode", "decode"]

    @pytest.mark.parametrize(("speaks", "seek"), [(20, 2000), (None, 2240)])
    def test_a_window_without_text_goes_on_where_somebody_speaks(self, speaks: int | None, seek: int) -> None:
        """Where the model is not sure either that nobody does."""
        run = transcription(telling([time(29)]), 40, voice=voice((0, 19), (20, 22)) if speaks else voice((0, 22)))
        assert run.next_window() == []
        assert run.seek == seek

    @pytest.mark.parametrize(("reread", "most", "seek"), [(True, None, 160), (False, None, 200), (False, 4, 160)])
    def test_after_a_segment_without_an_end(self, reread: bool, most: int | None, seek: int) -> None:
        """Its last word ends at 1.6 s; the rest is read again, or not, or where the text was cut short."""
        told = [time(0), *WORDS] if most is None else WALK
        run = transcription(telling(told), reread=reread, options=DecodeOptions(temperatures=(0.0,), max_tokens=most))
        run.next_window()
        assert run.seek == seek

    @pytest.mark.parametrize(("frames", "left"), [(180, False), (181, True)])
    def test_much_audio_is_never_left(self, frames: int, left: bool) -> None:
        """More than 2 s after the last word, which ends at 1.6 s."""
        run = transcription(telling([time(0), *WORDS]), frames / 50, reread=False)
        run.next_window()
        assert run.done is not left

    @pytest.mark.parametrize(
        ("closed", "seconds", "seek"),
        [(1400, 40, 2800), (1450, 40, 2900), (1451, 40, 3000), (1001, 40, 2002), (1000, 40, 3000), (1400, 30, 3000)],
        ids=["cut sentence", "the shortest", "too short", "the longest", "silence", "end of the recording"],
    )
    @pytest.mark.parametrize("words", [False, True])
    def test_a_sentence_that_the_window_cuts_is_heard_again(
        self, closed: int, seconds: float, seek: int, words: bool
    ) -> None:
        """A text that closes at encoder frame `closed` of 1,500, and a recording of so many seconds."""
        options = DecodeOptions(temperatures=(0.0,), word_timestamps=words)
        run = transcription(telling([time(0), *WORDS, time(closed)]), seconds, options=options)
        run.next_window()
        assert run.seek == seek

    @pytest.mark.parametrize(
        ("closed", "seconds", "seek"),
        [(1496, 40, 2400), (1495, 40, 3000), (1500, 30, 3000)],
        ids=["at the edge", "before it", "end of the recording"],
    )
    def test_a_text_that_closes_at_the_window_s_edge_is_heard_again(
        self, closed: int, seconds: float, seek: int
    ) -> None:
        """The second of two, which begins at encoder frame 1,200."""
        told = [time(0), *WORDS, time(80), time(1200), *WORDS, time(closed)]
        run = transcription(telling(told), seconds, options=UNTIMED)
        assert len(run.next_window()) == (1 if seek == 2400 else 2)
        assert run.seek == seek

    @pytest.mark.parametrize("before", [[], [time(0), *WORDS[:1], time(49)]], ids=["one text", "a short one before it"])
    def test_a_window_believes_what_it_begins_with(self, before: Story) -> None:
        """Heard again it would be the same audio."""
        run = transcription(telling([*before, time(49), *WORDS, time(1500)]), 40, options=UNTIMED)
        assert [each.text for each in run.next_window()][-1] == " we walk home"
        assert run.seek == 3000

    @pytest.mark.parametrize(
        ("spoken", "seek"),
        [([(0, 14)], 200), ([(0, 4.5), (6.5, 6.6), (8.5, 8.6), (10.5, 10.6), (12, 14)], None), (None, None)],
        ids=["too little text", "pauses", "without a gate"],
    )
    def test_a_text_that_passes_over_speech_is_heard_again(
        self, spoken: list[tuple[float, float]] | None, seek: int | None
    ) -> None:
        """The second of three texts: two words from encoder frame 100 on, which are no more than 2 s of speech."""
        told = [time(0), *WORDS[:1], time(90), time(100), *WORDS[1:], time(500), time(600), *WORDS[:1], time(700)]
        gate = None if spoken is None else voice(*spoken)
        run = transcription(telling(told), 14, options=UNTIMED, voice=gate)
        texts = [each.text for each in run.next_window()]
        assert texts == ([" we"] if seek else [" we", " walk home", " we"])
        assert run.seek == (seek or 1400)

    def test_words_at_the_pace_of_speech_are_believed(self) -> None:
        """A token for each second."""
        slow = story(*((" we", 110 + 50 * place) for place in range(6)))
        told = [time(0), *WORDS[:1], time(90), time(100), *slow, time(400)]
        run = transcription(telling(told), 8, options=UNTIMED, voice=voice((0, 8)))
        assert len(run.next_window()) == 2

    @pytest.mark.parametrize(
        ("begin", "text", "seek"),
        [(1380, " we walk home", 2800), (1395, " we walk home", 2810), (1410, " we walk", 2820)],
        ids=["before", "across", "after"],
    )
    def test_the_words_around_a_text_s_end_are_heard_once(self, begin: int, text: str, seek: int) -> None:
        """A text that closes at encoder frame 1,400, and its last word, which lasts 10 frames from `begin` on."""
        told = [time(0), *story((" we", 10), (" walk", 1370), (" home", begin)), time(1400)]
        run = transcription(telling(told), 40)
        (written,) = run.next_window()
        assert written.text == text == "".join(word.text for word in written.words)
        assert written.words[-1].end == written.span.end <= seek * HOP_LENGTH
        assert run.seek == seek

    def test_words_after_a_rest_are_heard_once(self) -> None:
        """The text closes at 1 s, somebody speaks again at 3 s, and one of its words lies there."""
        told = [time(0), *story((" we", 10), (" walk", 40), (" home", 170)), (time(50)[0], 200)]
        run = transcription(telling(told), 40, voice=voice((0, 1), (3, 13)))
        (written,) = run.next_window()
        assert written.text == " we walk"
        assert [word.text for word in written.words] == [" we", " walk"]
        assert written.words[-1].end <= written.span.end <= 3 * SAMPLE_RATE
        assert run.seek == 300

    @pytest.mark.parametrize("speaks", [True, False])
    def test_words_that_are_all_found_after_a_rest(self, speaks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """The text closes at 1 s, its words are found after 2.8 s. If somebody speaks before that, they are there."""

        spoken = voice((0, 1), (2.8, 13)) if speaks else voice((1.9, 13))

        def align(*_: Any, duration: int, until: int | None = None, **__: Any) -> list[SpokenSegment]:
            if until is not None:
                return [SpokenSegment(Span(0, 0), (), ())]
            assert duration == round(2.8 * SAMPLE_RATE)
            return [SpokenSegment(Span(0, SAMPLE_RATE), (Word(" we walk home", 0, SAMPLE_RATE),), TOKENS)]

        monkeypatch.setattr(longform, "align_window", align)
        run = transcription(telling([time(0), *WORDS, time(50)]), 40, voice=spoken)
        assert [segment.text for segment in run.next_window()] == [" we walk home"] * speaks
        assert run.seek == (280 if speaks else 190)

    def test_windows_do_not_creep_twice(self) -> None:
        crawl = [time(0), *story((" we", 5)), time(20), time(20), *story((" walk", 30))]
        run = transcription(telling(crawl), 10)
        seeks = []
        for _ in range(3):
            run.next_window()
            seeks.append(run.seek)
        assert seeks[0] < 100
        assert seeks[1] == seeks[0] + 100
        assert seeks[2] == seeks[1] + seeks[0] or seeks[2] == seeks[1] + 100

    @pytest.mark.parametrize(("condition", "shown"), [(None, True), (True, True), (False, False)], ids=str)
    def test_the_next_window_is_shown_what_was_said(self, condition: bool | None, shown: bool) -> None:
        first = [time(0), *WORDS[:2], time(60), time(60), *WORDS[2:]]
        options = DecodeOptions(temperatures=(0.0,), condition_on_previous_text=condition)
        model = by_window(first, WALK)
        model.generation = replace(model.generation, condition_on_prev_tokens=None if shown else True)
        run = transcription(model, options=options, context=[7], last_speech=0)
        segments = [*run.next_window(), *run.next_window()]
        assert [segment.id for segment in segments] == [0, 1]
        assert segments[1].span.start >= 60 * FRAME_SAMPLES
        tokens = model.decoders[2].requests[0].tokens[0].tolist()
        context = [model.tokenizer.sot_prev, 7, *(token for token, _ in first[:4])]
        assert tokens == [*(context if shown else []), model.tokenizer.sot]
        assert model.decoders[0].requests[0].tokens[0].tolist()[:2] == [model.tokenizer.sot_prev, 7]

    def test_the_guards_of_a_transcription(self) -> None:
        class Two:
            def check(self, tokens: Any, attention: Any, logprob: float) -> int | None:
                return 2 if len(tokens) == 3 else None

        (segment,) = transcription(telling(WALK), guards=[Two()]).next_window()
        assert segment.tokens == TOKENS[:2]

    def test_silence_window_after_window(self) -> None:
        options = DecodeOptions(temperatures=(0.0,), logprob_threshold=None)
        run = transcription(telling(WALK, no_speech=30.0), 70, options=options)
        seeks = []
        while not run.done:
            run.next_window()
            seeks.append(run.seek)
        assert seeks == [3000, 6000, 7000]

    def test_three_segments_in_three_windows_have_their_numbers(self) -> None:
        run = transcription(telling([time(0), *WORDS, time(80), time(80), *WORDS[:1]]), 6)
        segments = [*run.next_window(), *run.next_window(), *run.next_window()]
        assert [segment.id for segment in segments] == list(range(len(segments)))
        assert len(segments) > 2

    @pytest.mark.parametrize(("temperature", "shown"), [(0.5, True), (0.6, False)])
    def test_hot_text_is_no_context(self, temperature: float, shown: bool) -> None:
        options = DecodeOptions(temperatures=(temperature,), condition_on_previous_text=True, best_of=1)
        run = transcription(telling(WALK), options=options)
        run.next_window()
        assert (run.context_from == 0) is shown
        assert run.context == list(TOKENS)

    def test_segments_that_say_nothing_are_not_written(self) -> None:
        told = [time(0), *story((" ", 5)), time(10), time(10), *WORDS, time(80)]
        run = transcription(telling(told))
        assert [segment.text for segment in run.next_window()] == [" we walk home"]

    def test_later_windows_follow_what_was_heard_after_them(self) -> None:
        first = [time(0), *WORDS[:2], time(60), time(60), *WORDS[2:]]
        model = by_window(first, [time(0), *WORDS[2:], time(20)])
        words = (Word(" we", 0, 40 * 320), Word(" walk", 40 * 320, 60 * 320), Word(" home", 70 * 320, 80 * 320))
        run = transcription(model, reference=Reference(TOKENS, words=words, block=True))
        run.next_window()
        run.next_window()
        assert model.decoders[0].requests[0].draft == 4
        later = model.decoders[2].requests
        assert later[0].draft == 0  # how it opens is not known
        assert later[1].tokens.tolist() == [[TOKENS[0], WORDS[2][0]]]


def test_features_with_something_after_the_recording() -> None:
    quiet = np.zeros(SAMPLE_RATE, np.float32)
    plain, hushed = Features.of([quiet], 80), Features.of([quiet], 80, np.ones(1600, np.float32))
    assert (plain.frames, plain.samples, hushed.frames, hushed.samples) == (100, SAMPLE_RATE, 100, SAMPLE_RATE)
    assert plain.followed(0, 100).shape == (80, 100)
    assert hushed.followed(0, 100).shape == (80, 110)
    assert hushed.followed(20, 80).shape == (80, 90)
    assert hushed.followed(0, 99).shape == (80, 99)
    assert plain.opening().shape == (80, 3000)
    full = Features.of([np.zeros(30 * SAMPLE_RATE - 1600, np.float32)], 80, np.ones(1600, np.float32))
    assert full.followed(0, full.frames).shape == (80, 3000)  # just fits
    fuller = Features.of([np.zeros(30 * SAMPLE_RATE - 1440, np.float32)], 80, np.ones(1600, np.float32))
    assert fuller.followed(0, fuller.frames).shape == (80, fuller.frames)
    rng = np.random.default_rng(1)
    loud = Features.of(
        [np.concatenate([rng.normal(0, 0.2, SAMPLE_RATE), np.zeros(SAMPLE_RATE)]).astype(np.float32)], 80
    )
    assert loud.window(150, 50).max() < loud.window(0, 100).max() - 1.5  # the floor is that of the whole recording
    np.testing.assert_array_equal(loud.window(0, 200)[:, 150:], loud.window(150, 50))
    np.testing.assert_array_equal(loud.opening()[:, :200], loud.window(0, 200))
    assert loud.opening()[:, 2000:].max() == loud.window(150, 50).min()
    assert HOP_LENGTH * plain.frames == plain.samples
