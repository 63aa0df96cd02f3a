"""The scripts in `benchmarks/` and `docs/` as modules, for their tests."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@contextmanager
def benchmark(name: str, folder: Path = FOLDER) -> Iterator[ModuleType]:
    """`benchmarks/NAME.py`, importable for so long as what it finds next to itself and what pickles its classes."""
    spec = spec_from_file_location(f"{name}_benchmark", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        yield module
