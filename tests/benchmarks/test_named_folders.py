"""Folders that a table tells apart by their names."""

from argparse import ArgumentParser
from pathlib import Path

import pytest

from benchmark_scripts import benchmark


def test_folders_of_the_same_name_are_refused() -> None:
    with benchmark("named_folders") as script:
        folders = [Path("b/late"), Path("a/conformer")]
        assert list(script.by_name(folders, ArgumentParser())) == ["late", "conformer"]
        assert script.by_name(folders, ArgumentParser())["conformer"] == Path("a/conformer")
        with pytest.raises(SystemExit):
            script.by_name([*folders, Path("c/late")], ArgumentParser())
