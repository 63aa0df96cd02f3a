import numpy as np
import pytest

from whispertide.audio.whole import Recording
from whispertide.errors import TruncatedAudioError
from whispertide.formats.document import TextSegment
from whispertide.formats.offline import OfflineRun
from whispertide.types import SAMPLE_RATE


def test_a_run_becomes_a_document_with_its_figures() -> None:
    run = OfflineRun(Recording([np.zeros(2 * SAMPLE_RATE, np.float32)]))
    assert sum(map(len, run.recording)) == 2 * SAMPLE_RATE
    for number in range(2):
        run.add(TextSegment(number, number + 1, f" {number}"))
    document = run.document(language="en", model="caf\udce9", source="na\udcefve.wav")
    assert (document.text, document.duration, document.recipe, document.complete) == ("0 1", 32_000, "offline", True)
    assert (document.model, document.source) == ("caf\ufffd", "na\ufffdve.wav")
    figures = document.metrics
    assert figures["audio_s"] == 2
    assert 0 <= figures["first_text_s"] <= figures["wall_s"]
    assert figures["real_time_factor"] == pytest.approx(figures["wall_s"] / 2, abs=1e-4)
    assert not run.document(language=None, model="", source="", interrupted=True).complete


def test_a_run_that_breaks_off_or_hears_nothing_is_told() -> None:
    run = OfflineRun(Recording([]), [])
    document = run.document(language=None, model="m", source="s")
    assert (document.metrics["first_text_s"], document.metrics["real_time_factor"]) == (None, None)
    run.recording.broken = TruncatedAudioError("cut off")
    assert not run.document(language=None, model="m", source="s").complete
