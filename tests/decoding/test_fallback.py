import zlib
from dataclasses import dataclass, replace

from each_row import each_row
from whispertide.decoding.fallback import compression_ratio, decode_with_fallback, is_silence, needs_fallback
from whispertide.options import DecodeOptions


@dataclass(frozen=True)
class Decoded:
    compression_ratio: float = 1.5
    avg_logprob: float = -0.3
    no_speech_prob: float = 0.1
    temperature: float = 0.0


GOOD = Decoded()
REPETITIVE = Decoded(compression_ratio=2.5)
UNLIKELY = Decoded(avg_logprob=-1.1)
SILENT = Decoded(avg_logprob=-1.1, no_speech_prob=0.7)
OPTIONS = DecodeOptions()


def test_compression_ratio_is_zlibs() -> None:
    text = "so it goes, so it goes, so it goes, så går det"
    assert compression_ratio(text) == len(text.encode()) / len(zlib.compress(text.encode()))
    assert compression_ratio("ha " * 100) > 2.4 > compression_ratio("A tide that comes in slowly.")
    assert compression_ratio("") == 0.0


@each_row(
    ("decoded", "again"),
    [
        (GOOD, False),
        (REPETITIVE, True),
        (UNLIKELY, True),
        (SILENT, False),
        (replace(SILENT, compression_ratio=9.0), False),  # silence excuses everything
        (replace(REPETITIVE, no_speech_prob=0.9), True),  # but only unlikely text counts as silence
        (replace(UNLIKELY, no_speech_prob=float("nan")), True),
        (Decoded(compression_ratio=2.4, avg_logprob=-1.0), False),  # the thresholds themselves pass
    ],
)
def test_when_to_try_again(decoded: Decoded, again: bool) -> None:
    assert needs_fallback(decoded, OPTIONS) is again


def test_checks_can_be_switched_off() -> None:
    assert not needs_fallback(REPETITIVE, replace(OPTIONS, compression_ratio_threshold=None))
    assert not needs_fallback(UNLIKELY, replace(OPTIONS, logprob_threshold=None))
    assert needs_fallback(SILENT, replace(OPTIONS, no_speech_threshold=None))


@each_row(
    ("decoded", "silent"),
    [
        (GOOD, False),
        (SILENT, True),
        (Decoded(avg_logprob=-0.9, no_speech_prob=0.9), False),  # the model believes in the text
        (Decoded(avg_logprob=-1.0, no_speech_prob=0.9), True),
        (Decoded(avg_logprob=-9.0, no_speech_prob=float("nan")), False),
    ],
)
def test_what_counts_as_silence(decoded: Decoded, silent: bool) -> None:
    assert is_silence(decoded, OPTIONS) is silent


def test_without_the_log_probability_check_no_speech_alone_is_silence() -> None:
    options = replace(OPTIONS, logprob_threshold=None)
    assert is_silence(Decoded(avg_logprob=-0.1, no_speech_prob=0.9), options)
    assert not is_silence(SILENT, replace(OPTIONS, no_speech_threshold=None))


def tried(good_at: float, temperatures: tuple[float, ...]) -> tuple[list[float], Decoded]:
    asked: list[float] = []

    def attempt(temperature: float) -> Decoded:
        asked.append(temperature)
        return replace(GOOD if temperature >= good_at else REPETITIVE, temperature=temperature)

    return asked, decode_with_fallback(attempt, DecodeOptions(temperatures=temperatures))


def test_the_first_good_temperature_ends_the_trying() -> None:
    asked, result = tried(0.4, (0.0, 0.2, 0.4, 0.6))
    assert asked == [0.0, 0.2, 0.4]
    assert result.temperature == 0.4


def test_the_last_attempt_stands_though_it_is_bad() -> None:
    asked, result = tried(2.0, (0.0, 0.2))
    assert asked == [0.0, 0.2]
    assert result.temperature == 0.2
