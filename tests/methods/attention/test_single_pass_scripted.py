"""Rounds of one decode with a model that says what it is told: every time, count and request is known beforehand."""

from typing import Any

import numpy as np
import pytest

from scripted_model import HEADS, SURE, ScriptedModel, multilingual, story, telling
from scripted_single_pass import SECONDS, START, TOKENS, WALK, Stop, hear, listened
from whispertide.decoding.guards import Halt, HaltReason
from whispertide.decoding.language import ENOUGH
from whispertide.decoding.prompt import MARGIN_TOKENS
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import PAD30
from whispertide.types import FRAME_SAMPLES, N_SAMPLES, join_words


def frames_of(result: Any) -> list[tuple[str, float, float]]:
    return [(word.word.text, (word.start - START) / 320, (word.end - START) / 320) for word in result.heard.words]


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

    @pytest.mark.parametrize(
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

    def test_a_mark_is_as_likely_as_it_was_said_whatever_is_left_out_after_it(self) -> None:
        model = telling([*WALK, *story((".", 75), (" hush", 100), (" hush", 105))])
        model.sure = lambda encoded: SURE if len(model.decoders[-1].requests) <= 4 else 2.0
        _, mark = listened(hear(model, suffix=np.zeros(8_000, np.float32))).ending or (None, None)
        assert mark is not None
        assert mark.word.text == "."
        assert mark.word.probability == pytest.approx(1.0, abs=1e-3)

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
            len(hear(telling([(1000, 40)] * 120)).heard.tokens)
            < 100
            < len(hear(telling([(1000, 40)] * 120), SinglePass(loop_guard=False)).heard.tokens)
        )


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
        assert [self.fed(model, 0), self.fed(model, -1)] == [[start[0]], list(start)]
        assert join_words([word.word for word in result.heard.words]) == "wir gehen"

    def test_a_guess_of_the_language_waits_for_more_speech(self) -> None:
        """What is confirmed in a wrong language stays, and the utterance goes on in it (issue faults, 6)."""
        model = self.speaking((" wir", 10))
        waiting = hear(model, samples=ENOUGH - 320)
        assert (waiting.heard, waiting.language) == (None, "de")
        assert len(model.decoders) == 1  # nothing was decoded
        assert hear(model, samples=ENOUGH).heard is not None
        assert hear(model, samples=ENOUGH - 320, options=DecodeOptions(language="de")).heard is not None

    def test_a_guess_that_nothing_can_wait_for_is_made_of_a_padded_window(self) -> None:
        """In base's short windows English with a Chinese accent sounds Chinese, and in padded ones it does not."""
        model = self.speaking((" we", 10), language="zh", padded_language="en")
        found = hear(model, samples=ENOUGH)
        assert (found.language, [mel.shape[1] for mel in model.mels]) == ("en", [300, 3000])
        assert [cost.stage for cost in found.costs][:2] == ["encode", "encode"]
        assert hear(model, samples=ENOUGH - 320, is_last=True).language == "en"
        for asked in ({"spoken": "zh"}, {"spoken": "de"}, {"options": DecodeOptions(language="zh")}, {"frame": PAD30}):
            model.mels.clear()
            hear(model, samples=ENOUGH, **asked)
            assert len(model.mels) == 1, asked

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
        before = self.fed(model, -1)
        assert len(before) - len(multilingual().sot_sequence("zh")) > 3  # some of it fits
        assert watch.scenes[0].kind_of(before[-5]).speaks

    def test_a_translation_is_cut_into_english_words(self) -> None:
        """From whatever language: what Whisper translates is English, with spaces."""
        model = self.speaking((" Shetland", 10), (" is", 60), language="zh")
        watch = Stop(99)
        options = DecodeOptions(language="zh", task="translate")
        result = hear(model, SinglePass(context_tokens=9, watch=(watch,)), prompt="word " * 9, options=options)
        assert [word.word.text for word in result.heard.words] == [" Shetland", " is"]
        assert watch.scenes[0].kind_of(result.heard.words[0].tokens[1]).continues
        assert multilingual().decode(self.fed(model, 0)) == " word" * 9


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
