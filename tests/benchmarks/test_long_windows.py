"""What `benchmarks/long_windows.py` says of its interval."""

from types import SimpleNamespace
from typing import Any

import pytest

from benchmark_scripts import benchmark
from whispertide_lab.evaluation.wer import Counts


@pytest.mark.parametrize(("talks", "said"), [(8, "over 4 speakers, so too narrow)"), (40, "over 20 speakers)")])
def test_it_is_said_over_how_many_speakers_the_interval_is(
    talks: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    transcriber: Any = None
    with benchmark("long_windows") as script:
        heard = script.Heard(Counts(90, 10, 0, 0), Counts(95, 5, 0, 0), 12, 9.0)
        monkeypatch.setattr(script, "hear", lambda *_: heard)
        row = script.measure(
            transcriber, "nano.en", [SimpleNamespace(group=f"voice {number // 2}") for number in range(talks)]
        )
    assert row["difference"] == 5.0
    assert said in capsys.readouterr().out
