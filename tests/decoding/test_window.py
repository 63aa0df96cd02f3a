"""One window decoded by the bundled model, against openai-whisper and transformers on the same weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import CLIPS, hf_model, nano, openai_model, openai_timing, window_of
from whispertide.decoding.guards import RepetitionGuard
from whispertide.decoding.window import align_window, decode_window
from whispertide.errors import OptionError, UnknownLanguageError
from whispertide.features import log_mel
from whispertide.options import DecodeOptions
from whispertide.types import N_SAMPLES, SAMPLE_RATE, FloatArray

by_name = pytest.mark.parametrize("clip", CLIPS, ids=lambda path: path.stem)
AS_OPENAI = {"suppress_tokens": (-1,), "temperatures": (0.0,)}
DEMO = CLIPS[0]


def heard(samples: FloatArray, **options: Any) -> Any:
    text = {name: options.pop(name) for name in ("prompt_tokens", "prefix", "reference", "guards") if name in options}
    return decode_window(nano(), nano().encode(log_mel(samples)), DecodeOptions(**{**AS_OPENAI, **options}), **text)


def openai_decode(samples: FloatArray, **options: Any) -> Any:
    whisper = pytest.importorskip("whisper")
    mel = whisper.log_mel_spectrogram(samples)
    return whisper.decode(openai_model(), mel, whisper.DecodingOptions(fp16=False, language="en", **options))


class TestAgainstOpenAI:
    @by_name
    @pytest.mark.parametrize("timestamps", [True, False])
    def test_greedy_tokens_and_figures_are_the_same(self, clip: Path, timestamps: bool) -> None:
        samples = window_of(clip)
        theirs = openai_decode(samples, without_timestamps=not timestamps)
        ours = heard(samples, timestamps=timestamps)
        assert list(ours.tokens) == theirs.tokens
        assert ours.text == theirs.text
        assert ours.avg_logprob == pytest.approx(theirs.avg_logprob, abs=1e-4)
        assert ours.no_speech_prob == pytest.approx(theirs.no_speech_prob, abs=1e-6)
        assert ours.compression_ratio == theirs.compression_ratio

    @by_name
    def test_beam_five_finds_the_same(self, clip: Path) -> None:
        samples = window_of(clip)
        theirs = openai_decode(samples, beam_size=5)
        ours = heard(samples, beam=5)
        assert list(ours.tokens) == theirs.tokens
        assert ours.avg_logprob == pytest.approx(theirs.avg_logprob, abs=1e-4)

    def test_beam_five_without_timestamps_finds_the_same(self) -> None:
        samples = window_of(DEMO)
        theirs = openai_decode(samples, beam_size=5, without_timestamps=True, patience=2.0, length_penalty=0.6)
        assert list(heard(samples, beam=5, timestamps=False, patience=2.0, length_penalty=0.6).tokens) == theirs.tokens

    def test_previous_text_and_a_forced_prefix_have_the_same_effect(self) -> None:
        samples = window_of(DEMO)
        previous = nano().tokenizer.encode(" The ship moved slowly across the water." * 30)
        prefix = nano().tokenizer.encode(" She put the")
        theirs = openai_decode(samples, prompt=previous, prefix=prefix, without_timestamps=True, sample_len=60)
        ours = heard(samples, prompt_tokens=previous, prefix=prefix, timestamps=False, max_tokens=60)
        assert list(ours.tokens) == theirs.tokens
        assert ours.no_speech_prob == pytest.approx(theirs.no_speech_prob, abs=1e-6)


@by_name
def test_greedy_tokens_are_those_of_transformers(clip: Path) -> None:
    torch = pytest.importorskip("torch")
    samples = window_of(clip)
    model = hf_model()
    with torch.no_grad():
        whole = model.generate(
            torch.from_numpy(log_mel(samples))[None], attention_mask=torch.ones(1, 3000), return_timestamps=False
        )[0].tolist()
    special = nano().tokenizer.eot  # what transformers returns of prompt and end of text differs between versions
    ours = heard(samples, timestamps=False, suppress_tokens=None)
    assert list(ours.tokens) == [token for token in whole if token < special]


@by_name
def test_word_times_are_those_of_openai_whisper(clip: Path) -> None:
    timing, whisper = openai_timing(), pytest.importorskip("whisper")
    samples = window_of(clip)
    encoded = nano().encode(log_mel(samples))
    found = decode_window(nano(), encoded, DecodeOptions(**AS_OPENAI))  # type: ignore[arg-type]
    duration = N_SAMPLES - 2 * SAMPLE_RATE
    ours = align_window(
        nano(), encoded, found.segments, duration=duration, offset=10 * SAMPLE_RATE, last_speech=9 * SAMPLE_RATE
    )
    theirs: Any = [
        {
            "seek": 1000,
            "start": 10 + each.start / SAMPLE_RATE,
            "end": 10 + each.end / SAMPLE_RATE,
            "tokens": each.tokens,
        }
        for each in found.segments
    ]
    timing.add_word_timestamps(
        segments=theirs,
        model=openai_model(),
        tokenizer=whisper.tokenizer.get_tokenizer(False),
        mel=whisper.log_mel_spectrogram(samples),
        num_frames=duration // 160,
        last_speech_timestamp=9.0,
    )
    mine = [word for each in ours for word in each.words]
    other = [word for each in theirs for word in each["words"]]
    assert [word.text for word in mine] == [word["word"] for word in other]
    assert len(mine) > 3 or not found.text
    for word, expected in zip(mine, other, strict=True):
        assert word.start / SAMPLE_RATE == pytest.approx(expected["start"], abs=0.0201)
        assert word.end / SAMPLE_RATE == pytest.approx(expected["end"], abs=0.0201)
        assert word.probability == pytest.approx(expected["probability"], abs=1e-3)


@by_name
@pytest.mark.parametrize("timestamps", [True, False])
def test_verifying_a_reference_changes_nothing_but_the_cost(clip: Path, timestamps: bool) -> None:
    samples = window_of(clip)
    plain = heard(samples, timestamps=timestamps)
    same = heard(samples, timestamps=timestamps, reference=plain.tokens)
    assert same.tokens == plain.tokens
    assert same.avg_logprob == pytest.approx(plain.avg_logprob, abs=1e-4)
    if plain.tokens:
        assert same.steps == 2
    middle = len(plain.tokens) // 2
    spoilt = [*plain.tokens[:middle], nano().tokenizer.encode(" wrong")[0], *plain.tokens[middle + 1 :]]
    assert heard(samples, timestamps=timestamps, reference=spoilt).tokens == plain.tokens


class TestWindow:
    def test_segments_carry_all_tokens(self) -> None:
        found = heard(window_of(DEMO))
        assert [token for each in found.segments for token in each.tokens] == list(found.tokens)
        assert len(found.logprobs) == len(found.tokens)
        assert all(0 <= each.start <= each.end <= N_SAMPLES for each in found.segments)

    def test_falls_back_to_higher_temperatures_and_counts_their_cost(self) -> None:
        samples = window_of(DEMO)
        options: dict[str, Any] = {"logprob_threshold": 0.0, "timestamps": False, "best_of": 2}
        found = heard(samples, temperatures=(0.0, 0.4, 0.8), **options)
        assert found.temperature == 0.8
        once = heard(samples, **options)
        assert found.steps > 2 * once.steps
        again = heard(samples, temperatures=(0.0, 0.4, 0.8), **options)
        assert again.tokens == found.tokens
        other = heard(samples, temperatures=(0.0, 0.4, 0.8), seed=5, **options)
        assert other.tokens != found.tokens

    def test_a_guard_ends_the_decode(self) -> None:
        class AfterFive:
            def check(self, tokens: Any, attention: FloatArray | None) -> int | None:
                return 4 if len(tokens) == 5 else None

        whole = heard(window_of(DEMO))
        found = heard(window_of(DEMO), guards=[AfterFive(), RepetitionGuard(nano().tokenizer.eot)])
        assert found.tokens == whole.tokens[:4]
        assert found.stop == "guard"

    def test_guards_see_the_attention_of_the_chosen_heads(self) -> None:
        shapes = []

        class Look:
            def check(self, tokens: Any, attention: FloatArray | None) -> int | None:
                assert attention is not None
                np.testing.assert_allclose(attention.sum(axis=-1), 1.0, atol=1e-3)
                shapes.append(attention.shape)
                return None

        encoded = nano().encode(log_mel(window_of(DEMO)))
        decode_window(nano(), encoded, DecodeOptions(**AS_OPENAI), guards=[Look()], heads=[(2, 0), (3, 1)])  # type: ignore[arg-type]
        assert set(shapes) == {(2, 1500)}

    def test_a_language_without_a_token_is_refused(self) -> None:
        encoded = nano().encode(log_mel(window_of(DEMO)))
        with pytest.raises(UnknownLanguageError):
            decode_window(nano(), encoded, DecodeOptions(), language="de")

    def test_a_prefix_that_does_not_fit_is_refused(self) -> None:
        with pytest.raises(OptionError, match="448"):
            heard(window_of(DEMO), prefix=[1] * 448)
