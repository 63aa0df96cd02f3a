"""One window decoded by the bundled model, against openai-whisper and transformers on the same weights."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reference import CLIPS, hf_model, mel_of, nano, nano_encoded, openai_encoded, openai_model, openai_timing
from whispertide.decoding.draft import Reference
from whispertide.decoding.guards import RepetitionGuard
from whispertide.decoding.window import align_window, decode_window
from whispertide.errors import UnknownLanguageError
from whispertide.options import DecodeOptions
from whispertide.types import N_SAMPLES, SAMPLE_RATE, FloatArray

LONG = ("demo", "long")
FIRST = ("letter", "river")


def slow_unless(first: bool) -> list[pytest.MarkDecorator]:
    return [] if first else [pytest.mark.slow]


# Where every clip is slow: greedy search is compared on the long ones too, in `TestAgainstOpenAI`.
short_alone = pytest.mark.parametrize(
    "clip", [path for path in CLIPS if path.stem not in LONG], ids=lambda path: path.stem
)
# Half of the clips with timestamps, half without: the clips differ more than the two ways do.
short_first_in_turn = pytest.mark.parametrize(
    ("clip", "timestamps"),
    [
        pytest.param(path, path.stem in ("demo", *FIRST), id=path.stem, marks=slow_unless(path.stem not in LONG))
        for path in CLIPS
    ],
)
AS_OPENAI = {"suppress_tokens": (-1,), "temperatures": (0.0,)}
DEMO = CLIPS[0]
RIVER = next(path for path in CLIPS if path.stem == "river")


def heard(clip: Path, **options: Any) -> Any:
    text = {name: options.pop(name) for name in ("prompt_tokens", "reference", "guards") if name in options}
    return decode_window(nano(), nano_encoded(clip), DecodeOptions(**{**AS_OPENAI, **options}), **text)


@cache
def demo() -> Any:
    """The first 30 s of the demo, greedily."""
    return heard(DEMO)


def openai_decode(clip: Path, **options: Any) -> Any:
    import whisper

    return whisper.decode(
        openai_model(), openai_encoded(clip), whisper.DecodingOptions(fp16=False, language="en", **options)
    )


@pytest.mark.slow
class TestAgainstOpenAI:
    @short_first_in_turn
    def test_greedy_tokens_and_figures_are_the_same(self, clip: Path, timestamps: bool) -> None:
        theirs = openai_decode(clip, without_timestamps=not timestamps)
        ours = heard(clip, timestamps=timestamps)
        assert list(ours.tokens) == theirs.tokens
        assert ours.text == theirs.text
        assert ours.avg_logprob == pytest.approx(theirs.avg_logprob, abs=1e-4)
        assert ours.no_speech_prob == pytest.approx(theirs.no_speech_prob, abs=1e-6)
        assert ours.compression_ratio == theirs.compression_ratio

    @pytest.mark.slow
    @short_alone
    def test_beam_five_finds_the_same(self, clip: Path) -> None:
        theirs = openai_decode(clip, beam_size=5)
        ours = heard(clip, beam=5)
        assert list(ours.tokens) == theirs.tokens
        assert ours.avg_logprob == pytest.approx(theirs.avg_logprob, abs=1e-4)

    @pytest.mark.slow
    def test_beam_five_without_timestamps_finds_the_same(self) -> None:
        theirs = openai_decode(RIVER, beam_size=5, without_timestamps=True, patience=2.0, length_penalty=0.6)
        assert len(theirs.tokens) > 10
        assert list(heard(RIVER, beam=5, timestamps=False, patience=2.0, length_penalty=0.6).tokens) == theirs.tokens

    @pytest.mark.slow
    def test_previous_text_has_the_same_effect(self) -> None:
        previous = nano().tokenizer.encode(" The ship moved slowly across the water." * 30)
        theirs = openai_decode(DEMO, prompt=previous, without_timestamps=True, sample_len=30)
        ours = heard(DEMO, prompt_tokens=previous, timestamps=False, max_tokens=30)
        assert list(ours.tokens) == theirs.tokens
        assert ours.no_speech_prob == pytest.approx(theirs.no_speech_prob, abs=1e-6)


@short_alone
@pytest.mark.slow
def test_greedy_tokens_are_those_of_transformers(clip: Path) -> None:
    import torch

    model = hf_model()
    with torch.no_grad():
        whole = model.generate(
            torch.from_numpy(mel_of(clip))[None], attention_mask=torch.ones(1, 3000), return_timestamps=False
        )[0].tolist()
    special = nano().tokenizer.eot  # what transformers returns of prompt and end of text differs between versions
    ours = heard(clip, timestamps=False, suppress_tokens=None)
    assert list(ours.tokens) == [token for token in whole if token < special]


@pytest.mark.slow
@pytest.mark.parametrize("clip", CLIPS[1:], ids=lambda path: path.stem)  # one of the two long ones
def test_word_times_are_those_of_openai_whisper(clip: Path) -> None:
    import torch
    import whisper

    timing = openai_timing()
    encoded = nano_encoded(clip)
    found = decode_window(nano(), encoded, DecodeOptions(**AS_OPENAI))  # type: ignore[arg-type]
    duration = N_SAMPLES - 2 * SAMPLE_RATE
    ours = align_window(
        nano(), encoded, found.segments, duration=duration, offset=10 * SAMPLE_RATE, last_speech=9 * SAMPLE_RATE
    )
    theirs: Any = [
        {
            "seek": 1000,
            "start": 10 + each.start / SAMPLE_RATE,
            "end": 10 + each.end / SAMPLE_RATE - 1e-6,  # what is equal in samples must not be greater in seconds
            "tokens": each.tokens,
        }
        for each in found.segments
    ]
    timing.add_word_timestamps(
        segments=theirs,
        model=openai_model(),
        tokenizer=whisper.tokenizer.get_tokenizer(False),
        mel=torch.from_numpy(mel_of(clip)),
        num_frames=duration // 160,
        last_speech_timestamp=9.0,
    )
    mine = [word for each in ours for word in each.words]
    other = [word for each in theirs for word in each["words"]]
    assert [word.text for word in mine] == [word["word"] for word in other]
    least = 2 if clip.stem == "letter" else 4  # nano.en stammers there, and both programs time two words of its text
    assert len(mine) >= least or not found.text
    for word, expected in zip(mine, other, strict=True):
        assert word.start / SAMPLE_RATE == pytest.approx(expected["start"], abs=0.0201)
        assert word.end / SAMPLE_RATE == pytest.approx(expected["end"], abs=0.0201)
        assert word.probability == pytest.approx(expected["probability"], abs=1e-3)


@pytest.mark.slow
@short_first_in_turn
def test_verifying_a_reference_changes_nothing_but_the_cost(clip: Path, timestamps: bool) -> None:
    plain = heard(clip, timestamps=timestamps)
    same = heard(clip, timestamps=timestamps, reference=Reference.exactly(plain.tokens))
    assert same.tokens == plain.tokens
    assert same.avg_logprob == pytest.approx(plain.avg_logprob, abs=1e-4)
    if plain.tokens:
        assert same.steps.runs == 1
    middle = len(plain.tokens) // 2
    spoilt = [*plain.tokens[:middle], nano().tokenizer.encode(" wrong")[0], *plain.tokens[middle + 1 :]]
    assert heard(clip, timestamps=timestamps, reference=Reference.exactly(spoilt)).tokens == plain.tokens


class TestWindow:
    @pytest.mark.slow
    def test_segments_carry_all_tokens(self) -> None:
        found = demo()
        carried = [token for each in found.segments for token in each.tokens]
        assert carried == list(found.tokens)[: len(carried)]
        begin = nano().tokenizer.timestamp_begin
        assert carried[-1] >= begin  # what follows a closed segment is one without an end: the next window hears it
        assert len(carried) == len(found.tokens) or found.tokens[len(carried)] >= begin
        assert all(0 <= each.start <= each.end <= N_SAMPLES for each in found.segments)

    @pytest.mark.slow
    def test_falls_back_to_higher_temperatures_and_counts_their_cost(self) -> None:
        options: dict[str, Any] = {"logprob_threshold": 0.0, "timestamps": False, "best_of": 2, "max_tokens": 15}
        found = heard(RIVER, temperatures=(0.0, 0.5, 1.0), **options)
        assert found.temperature == 1.0
        once = heard(RIVER, **options)
        assert found.steps.runs > 2 * once.steps.runs
        again = heard(RIVER, temperatures=(0.0, 0.5, 1.0), **options)
        assert again.tokens == found.tokens
        other = heard(RIVER, temperatures=(0.0, 0.5, 1.0), seed=5, **options)
        assert other.tokens != found.tokens

    def test_a_guard_ends_the_decode(self) -> None:
        class AfterFive:
            def check(self, tokens: Any, attention: FloatArray | None, logprob: float) -> int | None:
                return 4 if len(tokens) == 5 else None

        whole = demo()
        found = heard(DEMO, guards=[AfterFive(), RepetitionGuard(nano().tokenizer.eot)])
        assert found.tokens == whole.tokens[:4]
        assert found.stop == "guard"

    def test_a_language_without_a_token_is_refused(self) -> None:
        encoded = nano_encoded(DEMO)
        with pytest.raises(UnknownLanguageError):
            decode_window(nano(), encoded, DecodeOptions(), language="de")
