"""What computing used: wall and CPU seconds, peak memory and, where the machine tells, joules.

Energy comes from RAPL (Linux, /sys/class/powercap), summed over processor packages; it counts all that the machine
does. Few machines let an ordinary user read it. Everywhere else it is None, and CPU seconds are the stand-in, under
their own name. Knows nothing of what was computed.
"""

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
_PROCESS = Path("/proc/self")
_RESET_PEAK = "5"  # proc(5), clear_refs: forget the peak resident size


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used: `peak_mb` is 0 where the machine does not say, `energy_j` None."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    energy_j: float | None


class Meter:
    """Counts from its making on. CPU and memory are those of this process, with all its threads."""

    def __init__(self, powercap: Path = POWERCAP) -> None:
        self._powercap = powercap
        with suppress(OSError):  # without it the peak is that of the process so far
            (_PROCESS / "clear_refs").write_text(_RESET_PEAK)
        self._joules = read_joules(powercap)
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def read(self) -> Usage:
        """What was used since the making."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return Usage(wall, cpu, peak_mb(), self._spent(read_joules(self._powercap)))

    def _spent(self, now: Mapping[str, tuple[float, float]]) -> float | None:
        """Joules since the making. A counter that went round did so once: it takes minutes at least."""
        if not now or now.keys() != self._joules.keys():
            return None
        total = 0.0
        for package, (joules, wraps_at) in now.items():
            spent = joules - self._joules[package][0]
            total += spent if spent >= 0 else spent + wraps_at
        return total


def read_joules(powercap: Path = POWERCAP) -> dict[str, tuple[float, float]]:
    """Processor package -> (joules so far, joules at which the counter goes round). Empty where it cannot be read."""
    found: dict[str, tuple[float, float]] = {}
    for folder in sorted(powercap.glob("intel-rapl:*")):
        try:
            if not (folder / "name").read_text().startswith("package"):
                continue  # parts of a package, or the whole board: counted already
            micro = [int((folder / name).read_text()) for name in ("energy_uj", "max_energy_range_uj")]
        except (OSError, ValueError):
            return {}  # half of the truth is none
        found[folder.name] = (micro[0] / 1e6, micro[1] / 1e6)
    return found


def peak_mb() -> float:
    """The most memory this process has held since the last `Meter` was made, in MiB; 0 where nobody knows."""
    told = _memory_mb("VmHWM")
    if told is not None or sys.platform == "win32":
        return told or 0.0
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / 1024


def resident_mb() -> float:
    """The memory this process holds now, in MiB; where the system does not tell, the most that it has held."""
    told = _memory_mb("VmRSS")
    return peak_mb() if told is None else told


def _memory_mb(name: str) -> float | None:
    """A line of proc(5), status, in MiB; None where there is none."""
    with suppress(OSError):
        for line in (_PROCESS / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return None
