"""What `benchmarks/short_windows.py` says of its windows."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmark_scripts import benchmark
from whispertide.types import SAMPLE_RATE
from whispertide_lab.speech.utterance import RefWord, Utterance


def test_where_nothing_is_left_to_hear_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = SimpleNamespace(name="m")
    model.short = model
    with benchmark("short_windows") as script:
        monkeypatch.setattr(script, "load", lambda *_, **__: SimpleNamespace(model=model))
        monkeypatch.setattr(script, "open_corpus", lambda name: SimpleNamespace(utterances=lambda: iter(())))
        with pytest.raises(SystemExit):
            script.main(["m", "people-utterances", "--language", "it"])
    assert "expected utterances of at most 8 s" in capsys.readouterr().err


def test_intervals_are_over_speakers() -> None:
    """Windows of one speaker are drawn together: of one alone nothing else can be drawn."""
    with benchmark("short_windows") as script:
        before, heard = script.Heard([(1, 10), (0, 10)]), script.Heard([(3, 10), (0, 10)])
        apart, together = (script.row("bare", heard, before, speakers) for speakers in (["", ""], ["ann", "ann"]))
    assert "| +10.00 [+0.00, +20.00] |" in apart
    assert "| +10.00 [+10.00, +10.00] |" in together


@pytest.mark.parametrize(("group", "told"), [("ann", "ann"), ("unknown", "a talk.wav")])
def test_pieces_of_a_recording_belong_together(group: str, told: str) -> None:
    words = tuple(RefWord(f"word{n}", n * SAMPLE_RATE, (n + 1) * SAMPLE_RATE) for n in range(4))
    talk = Utterance("a talk.wav", words, 4.0, lambda: np.zeros(4 * SAMPLE_RATE, np.float32), group=group)
    with benchmark("short_windows") as script:
        pieces = list(script.pieces(talk, 2.0))
    assert [piece.group for piece in pieces] == [told, told]
