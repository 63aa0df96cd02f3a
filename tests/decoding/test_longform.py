"""How a window of a recording reaches the encoder, and how the loop over windows goes on: made conversations, heard by
a model that leaves out what Whisper leaves out, and makes up what it makes up.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scripted_model import ScriptedModel, Story, by_window, multilingual, story, telling, time
from whispertide.checkpoint.generation import GenerationConfig
from whispertide.decoding import longform
from whispertide.decoding.draft import Reference
from whispertide.decoding.language import DetectedLanguage
from whispertide.decoding.longform import Transcription, pad30, pad_or_trim
from whispertide.decoding.search import Steps
from whispertide.decoding.voice import Voice
from whispertide.decoding.word_repairs import SpokenSegment
from whispertide.features import Features, padded
from whispertide.model.engine import Encoded
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.types import FRAME_SAMPLES, HOP_LENGTH, N_FRAMES, SAMPLE_RATE, FloatArray, Span, Word


@pytest.mark.parametrize("silent", [False, True])
def test_a_window_is_padded_with_what_the_checkpoint_was_used_to(silent: bool) -> None:
    given: list[Any] = []
    model: Any = SimpleNamespace(
        generation=GenerationConfig(silent_padding=silent), encode=lambda mel, taps: given.append(mel)
    )
    mel = np.full((80, 7), 0.5, np.float32)
    pad_or_trim(model, mel)
    after = padded(mel, N_FRAMES)[:, 7:] if silent else np.zeros((80, N_FRAMES - 7), np.float32)
    np.testing.assert_array_equal(given[0], np.concatenate([mel, after], axis=1))


WORDS = story((" we", 10), (" walk", 40), (" home", 70))
WALK = [time(0), *WORDS, time(80)]
TOKENS = tuple(token for token, _ in WALK)


def voice(*spoken: tuple[float, float]) -> Voice:
    """Somebody speaks between these seconds."""
    return Voice(tuple(Span(round(start * SAMPLE_RATE), round(end * SAMPLE_RATE)) for start, end in spoken))


UNTIMED = DecodeOptions(temperatures=(0.0,), word_timestamps=False)


@cache
def silence(seconds: float) -> Features:
    return Features.of([np.zeros(round(seconds * SAMPLE_RATE), np.float32)], 80)


def transcription(model: ScriptedModel, seconds: float = 2.0, **about: Any) -> Transcription:
    options = about.pop("options", DecodeOptions(temperatures=(0.0,)))
    features = silence(seconds)
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

    @pytest.mark.parametrize("timed", [True, False])
    def test_a_window_is_apart_where_the_checkpoint_writes_no_space(self, timed: bool) -> None:
        """As those that were fine-tuned on texts without it: "We walkWe walk"."""
        told = [time(0), *story(("We", 5), (" walk", 20)), time(80)]
        options = DecodeOptions(temperatures=(0.0,), word_timestamps=timed)
        (written,) = transcription(telling(told), options=options).next_window()
        assert written.text == " We walk"
        assert [word.text for word in written.words] == [" We", " walk"] * timed

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

    @pytest.mark.slow
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

    def test_the_first_word_after_a_pause_begins_where_somebody_speaks(self) -> None:
        """A window begins before that, and alignment puts its first word at its beginning."""
        told = [time(0), *story((" we", 40), (" walk", 60)), time(80)]
        run = transcription(telling(told), 12, voice=voice((8.0, 9.2)))
        (written,) = run.next_window()
        assert written.window == round(7.6 * SAMPLE_RATE)
        assert written.span.start == written.words[0].start == round(7.9 * SAMPLE_RATE)
        assert written.words[0].end > 8 * SAMPLE_RATE

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

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("user", "checkpoint", "shown"),
        [(None, None, True), (None, False, False), (True, False, True), (False, True, False)],
    )
    def test_the_next_window_is_shown_what_was_said(
        self, user: bool | None, checkpoint: bool | None, shown: bool
    ) -> None:
        """As the user says, else the checkpoint."""
        first = [time(0), *WORDS[:2], time(60), time(60), *WORDS[2:]]
        options = DecodeOptions(temperatures=(0.0,), condition_on_previous_text=user)
        model = by_window(first, WALK)
        model.generation = replace(model.generation, condition_on_prev_tokens=checkpoint)
        run = transcription(model, options=options, context=[7], last_speech=0)
        segments = [*run.next_window(), *run.next_window()]
        assert [segment.id for segment in segments] == [0, 1]
        assert segments[1].span.start >= 60 * FRAME_SAMPLES
        tokens = model.decoders[2].requests[0].tokens[0].tolist()
        context = [model.tokenizer.sot_prev, 7, *(token for token, _ in first[:4])]
        assert tokens == [*(context if shown else []), model.tokenizer.sot]
        assert model.decoders[0].requests[0].tokens[0].tolist()[:2] == [model.tokenizer.sot_prev, 7]

    def test_what_is_to_last_prompts_every_window(self) -> None:
        """Also where no window is shown what was said before it."""
        options = DecodeOptions(temperatures=(0.0,), condition_on_previous_text=False)
        first = [time(0), *WORDS[:2], time(60), time(60), *WORDS[2:]]
        model = by_window(first, WALK)
        run = transcription(model, options=options, context=[7], lasting=[8], last_speech=0)
        run.next_window()
        run.next_window()
        begins = [model.decoders[number].requests[0].tokens[0].tolist() for number in (0, 2)]
        assert begins == [[model.tokenizer.sot_prev, *shown, model.tokenizer.sot] for shown in ([8, 7], [8])]

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


class TestLanguages:
    @pytest.mark.slow
    def test_language_and_task_reach_the_decode_and_the_word_times(self) -> None:
        """A translation is English, whose words are cut at spaces, whatever is spoken."""
        tokenizer = multilingual()
        words = story((" Shetland", 10), (" is", 40), tokenizer=tokenizer)
        assert len(words) > 2
        told = [(tokenizer.timestamp_begin, 0), *words, (tokenizer.timestamp_begin + 80, 80)]
        model = telling(told, language="zh")
        options = DecodeOptions(temperatures=(0.0,), task="translate")
        features = Features.of([np.zeros(2 * SAMPLE_RATE, np.float32)], 80)
        run = Transcription(model, features, options, "zh", seek=0, end=features.frames)  # type: ignore[arg-type]
        (segment,) = run.next_window()
        assert segment.language == "zh"
        assert [word.text for word in segment.words] == [" Shetland", " is"]
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
