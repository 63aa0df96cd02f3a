"""Faults of public trackers with OpenAI's own weights (issue "faults"), each on an input that the test makes."""

import re

import numpy as np
import pytest

from real.test_use import MOST_ERRORS, errors
from sounds import silence
from spoken_clips import clip, said, said_again, streamed
from whispertide.api import Transcriber
from whispertide.cli.demo import plain
from whispertide.options import BEAM, DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.types import SAMPLE_RATE, FloatArray

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

TUNED = {"framing": "zeros", "shift_guard": True, "short_s": 2.5}  # what `tune` finds for these weights


def joined(*parts: FloatArray) -> FloatArray:
    return np.concatenate(parts)


def quieter(samples: FloatArray, db: float) -> FloatArray:
    return samples * np.float32(10 ** (-db / 20))


def pink(seconds: float, db: float) -> FloatArray:
    """Noise whose power falls with its frequency."""
    count = round(seconds * SAMPLE_RATE)
    spectrum = np.fft.rfft(np.random.default_rng(7).standard_normal(count))
    noise = np.fft.irfft(spectrum / np.sqrt(np.arange(1, len(spectrum) + 1)), count)
    return np.asarray(noise / noise.std() * 10 ** (db / 20), np.float32)


def offline(model: Transcriber, samples: FloatArray, prompt: str = "") -> str:
    return model.transcribe(samples, options=DecodeOptions(beam=BEAM, prompt=prompt)).text


def tide(model: Transcriber, samples: FloatArray, **settings: object) -> str:
    return streamed(model, get_recipe("tide").replace(**{**TUNED, **settings}), samples)


def test_a_quieter_voice_at_the_end_is_heard(tiny: Transcriber) -> None:
    text = offline(tiny, joined(clip("river"), silence(0.5), quieter(clip("winter"), 25)))
    assert errors(text, "river", "winter") <= MOST_ERRORS


def test_a_sentence_that_is_said_three_times_is_written_three_times(tiny: Transcriber) -> None:
    text = offline(tiny, joined(*[part for _ in range(3) for part in (clip("river"), silence(0.4))]))
    assert errors(text, *["river"] * 3) <= MOST_ERRORS


def test_nothing_is_written_after_the_last_word(tiny: Transcriber) -> None:
    """Of a third of a second under a prompt a decoder made "Thank you for watching."."""
    text = offline(
        tiny, joined(clip("river"), silence(0.35)), prompt="Glossary: Zyphora, Quillbert, Marnix Industries."
    )
    assert errors(text, "river") <= MOST_ERRORS
    assert "thank" not in text.lower()


def test_silence_and_noise_have_no_words(tiny: Transcriber) -> None:
    for samples in (silence(40), pink(40, -70)):
        assert offline(tiny, samples) == ""
        assert tide(tiny, samples) == ""


@pytest.mark.parametrize("way", ["zeros", "pad30", "offline"])
def test_a_click_has_no_words(tiny: Transcriber, way: str) -> None:
    """An eighth of a second of a voice is what a cry, a tick or a sneeze sounds like."""
    loudest = int(np.abs(clip("river")).argmax())
    tick = clip("river")[max(0, loudest - 800) : loudest + 1200]
    samples = joined(*[part for _ in range(4) for part in (silence(1.5), tick)], silence(1.5))
    assert (offline(tiny, samples) if way == "offline" else tide(tiny, samples, framing=way)) == ""


def test_a_minute_of_silence_between_two_sentences_have_no_words(tiny: Transcriber) -> None:
    text = offline(tiny, joined(clip("river"), silence(60), clip("winter")))
    assert errors(text, "river", "winter") <= MOST_ERRORS
    assert not re.search(r"\b(you|thank)\b", text.lower())


def at_rate(samples: FloatArray, rate: int) -> FloatArray:
    """As it sounds where it was recorded with so many samples a second, to the neighbouring sample."""
    places = np.arange(0, len(samples), SAMPLE_RATE / rate)
    coarse = samples[places.astype(int)]
    return np.asarray(np.interp(np.arange(len(samples)), places, coarse), np.float32)


def mu_law(samples: FloatArray) -> FloatArray:
    """Through a telephone's 8 bits."""
    bent = np.sign(samples) * np.log1p(255 * np.abs(samples)) / np.log(256)
    coarse = np.round(bent * 127) / 127
    return np.asarray(np.sign(coarse) * (256 ** np.abs(coarse) - 1) / 255, np.float32)


@pytest.mark.parametrize(
    ("framing", "step_s", "rate", "gain_db", "telephone"),
    [("zeros", 0.4, 16_000, 0, False), ("pad30", 1.0, 7_350, -18, False), ("bare", 0.6, 8_000, -6, True)],
)
def test_what_is_said_once_is_confirmed_once(
    tiny: Transcriber, framing: str, step_s: float, rate: int, gain_db: float, telephone: bool
) -> None:
    samples = joined(silence(3), clip("river"), silence(0.8), clip("winter"))
    samples = quieter(at_rate(samples, rate), -gain_db)
    text = tide(tiny, mu_law(samples) if telephone else samples, framing=framing, step_s=step_s, longest_step_s=2.0)
    assert said_again(text, "river", "winter") == []
    assert len(plain(text).split()) <= len(plain(said("river", "winter")).split()) + 3
