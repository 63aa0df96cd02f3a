"""What is typed after `train fit`, without training."""

from pathlib import Path

import pytest

from command_line import Run, plain
from whispertide.errors import OptionError
from whispertide_lab.cli.train_fit import _folders


@pytest.mark.slow  # it needs torch
def test_a_folder_may_have_an_equals_sign_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hours=5").mkdir()
    typed = ["hours=5", "hours=5=0.25", "seed=1/shards=0.5", "shards", "shards=2"]
    found = [(moved.folder, moved.share) for moved in _folders(typed)]
    shares = [("hours=5", None), ("hours=5", 0.25), ("seed=1/shards", 0.5), ("shards", None), ("shards", 2.0)]
    assert found == shares


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["shards=many", "shards=0", "shards=-1", "shards=inf", "shards=nan"])
def test_a_share_is_a_number_above_zero(typed: str) -> None:
    with pytest.raises(OptionError, match=r"a share above 0 after the = of .*, such as shards=0\.5"):
        _folders([typed])


@pytest.mark.parametrize("command", ["truncation", "offramp"])
def test_minutes_are_minutes(run: Run, command: str) -> None:
    assert "Minutes of synthetic speech." in plain(run("train", command, "--help").stdout)
