"""What holds for all tests: a heap that is not searched again, an interrupt that interrupts, tests that are coroutines,
and work that processes share. What needs imports of ours is in `support/each_process.py`.
"""

import asyncio
import gc
import inspect
import os
import py_compile
import re
import signal
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion.rewrite import PYC_TAIL, _rewrite_test, _write_pyc, assertstate_key, get_cache_dir

from file_shares import SHARES, FileShare, share_of
from short_reports import ShortReports

SLOW = "slow and not soak"  # how the Makefile asks for the slow tests
THOROUGH = "slow and not soak or real"  # and for those and the ones on real weights


def pytest_configure(config: pytest.Config) -> None:
    """A shell that starts the tests in the background has them ignore Ctrl-C, and so would all that they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # until everything is collected: of that nothing is garbage
    # who is trusted: an authority that signed nothing, as every client of HTTP reads all that the system trusts
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "support" / "nobody.pem")
    forget_the_terminal()
    if asks_for_fast(config):
        sys.modules["torch"] = None  # type: ignore[assignment]  # they run where it is not installed
        refuse_slow_files(config)
    worker, dist = getattr(config, "workerinput", None), getattr(config.option, "dist", "no")
    if worker or dist == "no":  # whoever has other processes for the tests need not import what they need
        config.pluginmanager.import_plugin("each_process")
    if worker:
        configure_worker(config, worker)
    elif dist == "each":
        config.pluginmanager.import_plugin("shares_out")


def configure_worker(config: pytest.Config, told: dict[str, Any]) -> None:
    """One of several processes that run tests."""
    number, count = int(told["workerid"].removeprefix("gw")), told["workercount"]
    if config.option.durations is None:  # how long it took to set up a test is in what is left out
        config.pluginmanager.register(ShortReports())
    if SHARES in told:
        files = [*Path(__file__).parent.rglob("test_*.py")]
        config.pluginmanager.register(FileShare(share_of(files, number, count)))
    compile_share(config, number, count)


# What rich and typer ask, some of it once, when they are imported.
TERMINAL = re.compile(
    r"LINES|TERM|TERMINAL_WIDTH|(FORCE_|NO_|COLOR|CLI|PY_|TTY_)\w+|GITHUB_ACTIONS|_TYPER_\w+|LANG|LANGUAGE|LC_\w+"
)


def forget_the_terminal() -> None:
    """How wide and colourful the terminal of whoever runs the tests is, and its language, counts in no test."""
    for name in [name for name in os.environ if TERMINAL.fullmatch(name)]:
        del os.environ[name]
    os.environ.update({"COLUMNS": "80", "TERM": "xterm", "LC_ALL": "C.UTF-8"})


def asks_for_fast(config: pytest.Config) -> bool:
    """Whether the fast tests are wanted, which is so where nobody says what is."""
    usual = config.getini("addopts")
    return bool(config.option.markexpr == usual[usual.index("-m") + 1])


def refuse_slow_files(config: pytest.Config) -> None:
    """Files that are named are collected in any case; one that needs torch would end all with an error."""
    named = {argument.partition("::")[0] for argument in config.args}
    slow = sorted(name for name in named if Path(name).is_file() and all_slow(Path(name)))
    if slow:
        raise pytest.UsageError(f"all tests in {', '.join(slow)} are slow: add -m slow")


def compile_share(config: pytest.Config, number: int, count: int) -> None:
    """In a fresh checkout each process would compile all files of ours, at the same time as the others. Now each
    compiles its part first, and finds the others' parts compiled.
    """
    if sys.dont_write_bytecode:
        return
    here = Path(__file__).parent
    for file in share_of([*here.rglob("test_*.py")], number, count):
        if pytest_ignore_collect(file, config):
            continue
        compiled = get_cache_dir(file) / (file.stem + PYC_TAIL)
        if not compiled.exists():
            compiled.parent.mkdir(exist_ok=True)
            checksum, code = _rewrite_test(file, config)
            _write_pyc(config.stash[assertstate_key], code, checksum, compiled)
    ours = [file for folder in ("src", "lab/src", "tests/support") for file in (here.parent / folder).rglob("*.py")]
    for file in sorted(ours)[number::count]:
        if not Path(cache_from_source(str(file))).exists():
            py_compile.compile(str(file), quiet=2)


# What takes seconds to import, and helpers that import it. With the first layer that it makes torch imports a compiler.
HEAVY = (
    re.compile(r"\b(transformers|peft|lora|hf_model|openai_model|openai_timing|import whisper|from whisper import)\b"),
    re.compile(r"\b(torch|small_training|small_rivals)\b"),
)


@cache
def light(file: Path) -> tuple[bool, ...]:
    """Whether a file needs none of the first, and whether it needs none of the second."""
    text = file.read_text()
    return tuple(not heavy.search(text) for heavy in HEAVY)


@cache
def names_slow(file: Path) -> bool:
    """Whether a file says the word; `pytest_collection_modifyitems` sees to it that whoever has slow tests does."""
    return "slow" in file.read_text().lower()


@cache
def names_real(file: Path) -> bool:
    """Whether a file has tests on real weights; such a file has no others."""
    return "mark.real" in file.read_text()


@cache
def all_slow(file: Path) -> bool:
    """Whether a file has slow tests alone."""
    return re.search(r"^pytestmark = \[?pytest\.mark\.slow\b", file.read_text(), re.M) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files without a test that is wanted are not imported: half of them have no slow ones, and some no other."""
    if not re.fullmatch(r"test_\w+\.py", collection_path.name):
        return None
    if config.option.markexpr == SLOW:
        return not names_slow(collection_path) or None
    if config.option.markexpr == THOROUGH:
        return not (names_slow(collection_path) or names_real(collection_path)) or None
    return (asks_for_fast(config) and (all_slow(collection_path) or names_real(collection_path))) or None


@pytest.hookimpl(tryfirst=True)  # before some are deselected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of several processes has all tests that import what takes long to import. A slow test in a file that
    does not say so would never be run.
    """
    unnamed = {str(item.path) for item in items if item.get_closest_marker("slow") and not names_slow(item.path)}
    if unnamed:
        raise pytest.UsageError(f"expected the word slow in files with slow tests; it is not in {sorted(unnamed)}")
    items.sort(key=lambda item: light(item.path))


def pytest_collection_finish() -> None:
    """What was imported stays: the collector need not look at it, and less often at what tests allocate."""
    gc.enable()
    gc.set_threshold(20_000, 20, 20)
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before pytest says that it cannot
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs tests that are coroutines. That takes no plugin: a loop per test, and errors as they are."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asked = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in asked}))
    return True


@pytest.fixture
def terminal() -> Iterator[None]:
    """That it is closed is heard of, also where nohup runs the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
