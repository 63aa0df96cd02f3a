"""Folders of networks on a command line, told apart by their names."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path


def by_name(folders: Sequence[Path], parser: ArgumentParser) -> dict[str, Path]:
    """The folders by their names, in their order; ends the program where two are called the same."""
    named = {folder.name: folder for folder in folders}
    if len(named) < len(folders):
        parser.error("expected folders of different names: rows are told apart by them")
    return named
