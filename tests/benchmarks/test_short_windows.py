"""What `benchmarks/short_windows.py` says of its windows."""

from types import SimpleNamespace

import pytest

from benchmark_scripts import benchmark


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
