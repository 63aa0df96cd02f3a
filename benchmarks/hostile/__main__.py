"""A process of hostile clients. Its argument is JSON (`Orders`); a line `SECONDS` on standard input begins an attack of
at most so long, any other line ends it, and the end of the input ends the process. Each attack prints a line of JSON.
"""

import json
import os
import resource
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from queue import Queue

from hostile.assault import Assault, carry_out
from hostile.kinds import KINDS

LONGEST_S = 600.0
NICE = 10


def main() -> None:
    """Attack as often as it is told to."""
    orders = json.loads(sys.argv[1])
    with suppress(OSError):
        os.nice(NICE)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096) if most > 0 else 4096, most))
    begun: Queue[Assault | None] = Queue()
    threading.Thread(target=listen, args=(orders, begun), daemon=True).start()
    while (assault := begun.get()) is not None:
        busy = time.process_time()
        carry_out(assault, KINDS[orders["kind"]].attack)
        cpu_s = round(time.process_time() - busy, 2)
        print(json.dumps({"cpu_s": cpu_s, "did": assault.tally, "met": assault.met}), flush=True)


def listen(orders: dict[str, object], begun: "Queue[Assault | None]") -> None:
    """Begin attacks and end them, as the lines say."""
    settings = {name: value for name, value in orders.items() if name not in ("kind", "material")}
    stop = threading.Event()
    for line in sys.stdin:
        try:
            seconds = min(float(line), LONGEST_S)
        except ValueError:
            stop.set()
            continue
        stop = threading.Event()
        until = time.monotonic() + seconds
        begun.put(Assault(**settings, material=Path(str(orders["material"])), stop=stop, until=until))  # type: ignore[arg-type]
    stop.set()
    begun.put(None)


if __name__ == "__main__":
    main()
