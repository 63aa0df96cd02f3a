"""One window's decode and the times of its words, with a model that says what it is told."""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest

from scripted_model import ScriptedModel, Story, multilingual, story, telling, time
from whispertide.decoding import token_search
from whispertide.decoding.accept import GREEDY, Accept, Beam, Sampling
from whispertide.decoding.draft import Reference
from whispertide.decoding.search import Steps
from whispertide.decoding.segments import TimedSegment
from whispertide.decoding.token_search import build_search
from whispertide.decoding.window import WindowResult, align_window, decode_window
from whispertide.options import DecodeOptions
from whispertide.types import FRAME_SAMPLES, Word

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
        assert -1e-3 < found.avg_logprob < 0
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

    @pytest.mark.parametrize("timestamps", [False, True])
    @pytest.mark.parametrize("most", range(1, 8))
    def test_a_text_that_is_cut_ends_with_a_whole_character(self, most: int, timestamps: bool) -> None:
        said, tokenizer = "鬱鬯鼇", multilingual()  # two tokens each
        told = [(tokenizer.timestamp_begin, 0)] * timestamps + story((said, 10), tokenizer=tokenizer)
        model = ScriptedModel(lambda _: told, language="ja")
        once = DecodeOptions(temperatures=(0.0,), timestamps=timestamps, max_tokens=most, word_timestamps=False)
        found = decoded(model, once, language="ja")
        assert found.text == said[: (most - timestamps) // 2]
        assert found.tokens == tuple(token for token, _ in told[: 2 * len(found.text) + timestamps])

    def test_what_is_fed_first(self) -> None:
        model = telling(WORDS)
        found = decoded(model, DecodeOptions(timestamps=False), prompt_tokens=[5, 6])
        tokenizer = model.tokenizer
        assert model.decoders[0].requests[0].tokens.tolist() == [
            [tokenizer.sot_prev, 5, 6, tokenizer.sot, tokenizer.no_timestamps]
        ]
        assert found.text == "we walk home"

    def test_guards(self) -> None:
        class Two:
            def check(self, tokens: Any, attention: Any, logprob: float) -> int | None:
                return 2 if len(tokens) == 3 else None

        found = decoded(telling(WALK), guards=[Two()])
        assert (found.tokens, found.stop) == (TOKENS[:2], "guard")

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
