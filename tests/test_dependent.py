"""A process that works for another one ends with it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from whispertide.dependent import depend_on_parent


def waits(file: Path) -> None:
    depend_on_parent()
    file.write_text(f"{os.getpid()} {signal.getsignal(signal.SIGINT) == signal.SIG_IGN}")
    time.sleep(60)


def start(file: Path) -> None:
    multiprocessing.get_context("spawn").Process(target=waits, args=(file,)).start()
    while not (file.exists() and file.read_text()):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)


def is_there(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ends between opening and reading
        return False


def test_it_does_not_outlive_its_parent_and_leaves_interrupts_to_it(tmp_path: Path) -> None:
    code = f"from pathlib import Path; import test_dependent; test_dependent.start(Path({str(tmp_path / 'pid')!r}))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=30, check=False)
    process, ignores = (tmp_path / "pid").read_text().split()
    assert ignores == "True"
    deadline = time.monotonic() + 10
    while is_there(int(process)):
        assert time.monotonic() < deadline, "it computes on"
        time.sleep(0.02)
