"""What `benchmarks/stale_cache.py` measures: a cache that stays from round to round, on the bundled audio."""

from collections.abc import Iterator
from types import ModuleType

import pytest

from benchmark_scripts import benchmark
from reference import NANO, nano
from whispertide.audio.file import load_audio
from whispertide.session import Session
from whispertide.streaming.executor import make_executor
from whispertide.streaming.recipes import get_recipe
from whispertide.types import SAMPLE_RATE

RECIPE = get_recipe("whisperrt").replace(vad=False, step_s=0.5)


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with benchmark("stale_cache") as module:
        yield module


@pytest.mark.slow
def test_only_what_is_old_stays(script: ModuleType) -> None:
    audio = load_audio(NANO.parent / "audio" / "demo.flac")[: 6 * SAMPLE_RATE]
    session = Session(RECIPE, make_executor(nano(), RECIPE))
    for start in range(0, len(audio), script.PORTION):
        session.push(audio[start : start + script.PORTION])
    session.finish()
    text = "".join(word.text for word in session.transcript.words)
    said, fresh = script.heard(nano(), RECIPE, None, audio)
    assert said == text
    long, all_new = script.heard(nano(), RECIPE, 400, audio)
    assert (long, all_new) == (text, fresh)
    stale, work = script.heard(nano(), RECIPE, 4, audio)
    assert len(stale.split()) > 5
    assert work.fed < 0.8 * fresh.fed < fresh.without
