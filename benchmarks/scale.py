"""How many machines 10, 1,000 and 100,000 live sessions take, what they cost, and where it breaks first.

    python benchmarks/scale.py [--write lab/docs/scale.md] [--price 0.04] [--cores 8]

Computes; measures nothing. `scale.json` has the figures that were measured, and `journal_load.py` measures those of
the journal anew. Limits that are settings are read from the files of `deploy/fleet`.
"""

import argparse
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_HERE = Path(__file__).parent
_FLEET = _HERE.parent / "deploy/fleet"
LIVE = (10, 1_000, 100_000)
NATS_NODES = 3
_AUDIO = 32_000  # bytes a second from a client
_CORES, _PRICE = 8, 0.04  # of a machine; an hour of a core
_USED = 0.5  # so much of what NATS was measured to take is planned with
_SERVER = "[server.md](../../docs/reference/server.md)"


@dataclass(frozen=True, slots=True)
class Inputs:
    """`per_core` sessions; `price` of a core for an hour; `link` of a machine in bytes a second.

    `bytes_per_s` and `messages_per_s` are what a session writes; `nats_messages_per_s` is what one stream takes if its
    leader has a core for it.
    `failover_s` is the time from a server's death to its client's session at another; `start_s` that of a new server.
    """

    per_core: float
    bytes_per_s: float
    messages_per_s: float
    kept_bytes: float
    nats_messages_per_s: float
    failover_s: float
    cores: int = _CORES
    price: float = _PRICE  # an assumption, as are the others below
    link: float = 1.25e9
    start_s: float = 60.0

    @property
    def per_machine(self) -> int:
        """Sessions of one machine."""
        return math.floor(self.per_core * self.cores)


@dataclass(frozen=True, slots=True)
class Plan:
    """What `live` sessions take. A cell is a NATS cluster with the servers that share its stream."""

    live: int
    cells: int
    servers: int
    nats: int
    messages_per_s: float
    bytes_per_s: float
    disk: float
    cost: float
    headroom: float
    back_s: float
    refused: float


def plan(live: int, given: Inputs) -> Plan:
    """The fewest machines where every cell still has places for all after one of its servers died.

    `cost` is for an hour of audio; `headroom` the share of free places; `back_s` until every client of a dead server
    has its session again, one after another; `refused` the share of sessions without a place if a third dies.
    """
    per, writes = given.per_machine, given.messages_per_s
    cells = max(1, math.ceil(live * writes / (_USED * given.nats_messages_per_s)))
    servers = cells * max(2, math.ceil(math.ceil(live / cells) / per) + 1)
    places, nats = servers * per, cells * NATS_NODES
    left = (servers - math.ceil(servers / 3)) * per
    return Plan(
        live=live,
        cells=cells,
        servers=servers,
        nats=nats,
        messages_per_s=live * writes,
        bytes_per_s=live * given.bytes_per_s,
        disk=live * given.kept_bytes * NATS_NODES,
        cost=(servers + nats) * given.cores * given.price / live,
        headroom=1 - live / places,
        back_s=math.ceil(live / servers) * given.failover_s,
        refused=max(0, live - left) / live,
    )


@dataclass(frozen=True, slots=True)
class Scaling:
    """What `kubernetes/scaling.yaml` and `whispertide.yaml` say. Seconds; `most` replicas."""

    per_replica: int
    threshold: float
    least: int
    most: int
    poll_s: int


def refused(given: Scaling, live: float, growth: float, start_s: float, for_s: int = 1_800) -> float:
    """Sessions that found no place while the number of those that want one grows by `growth` a second.

    A replica is asked for at each poll and is there `start_s` later. Each poll may double their number, or add four,
    as Kubernetes does unless told otherwise (every 15 s).
    """
    replicas = max(given.least, math.ceil(live / given.threshold))
    coming: list[float] = []
    lost = 0.0
    for now in range(for_s):
        replicas += sum(at <= now for at in coming)
        coming = [at for at in coming if at > now]
        if now % max(given.poll_s, 15) == 0:
            there = replicas + len(coming)
            wanted = min(math.ceil(live / given.threshold), given.most, max(2 * there, there + 4))
            coming += [now + start_s] * (wanted - there)
        came = growth - max(0.0, live + growth - replicas * given.per_replica)
        lost += growth - came
        live += came
    return lost


def fastest_growth(given: Scaling, live: int, start_s: float) -> float:
    """Sessions a minute that may be added for a quarter of an hour without one refused."""
    low, high = 0.0, float(live)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if refused(given, live, middle, start_s, 900) > 0 else (middle, high)
    return 60 * low


def settings() -> tuple[Scaling, dict[str, float]]:
    """Of the manifests: how they scale, and up to how many sessions each limit reaches but for the figures' own."""
    objects = [
        one for path in sorted((_FLEET / "kubernetes").glob("*.yaml")) for one in yaml.safe_load_all(path.read_text())
    ]
    scaled = next(one["spec"] for one in objects if one["kind"] == "ScaledObject")
    server = next(one["spec"]["template"]["spec"] for one in objects if one["kind"] == "Deployment")
    options = dict(each.removeprefix("--").split("=") for each in server["containers"][0]["args"])
    per = int(options["max-sessions"])
    threshold = float(scaled["triggers"][0]["metadata"]["threshold"])
    most = int(scaled["maxReplicaCount"])
    (connections,) = re.findall(r"^    maxconn (\d+)$", (_FLEET / "haproxy.cfg").read_text(), re.M)
    (store,) = re.findall(r"max_file_store: (\d+)GB", (_FLEET / "kubernetes/nats.conf").read_text())
    limits = {"connections": int(connections), "places": most * per, "store": int(store) * 1e9}
    return Scaling(per, threshold, int(scaled["minReplicaCount"]), most, int(scaled["pollingInterval"])), limits


def breaks(given: Inputs, limits: dict[str, float]) -> list[tuple[float, str, str]]:
    """Live sessions at which something is full, first things first: how many, what, and what to do."""
    found = [
        (limits["places"], "`maxReplicaCount` times `--max-sessions` of `deploy/fleet/kubernetes`", "raise it"),
        (limits["connections"], "`maxconn` of `deploy/fleet/haproxy.cfg`", "raise it; 100,000 need several proxies"),
        (given.nats_messages_per_s / given.messages_per_s, "messages of one NATS stream", "another cell"),
        (given.link / (2 * given.bytes_per_s), "the link of the stream's leader (two copies go out)", "another cell"),
        (given.link / (2 * _AUDIO), "the link of one proxy (audio in and out)", "another proxy"),
        (limits["store"] / given.kept_bytes, "`max_file_store`, where clients send `ack`", "a larger disk"),
    ]
    return sorted(found)


def number(value: float) -> str:
    """A number with three significant digits and a unit prefix."""
    for size, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if name == 'k' else size):.3g} {name}"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def inputs(figures: dict[str, Any], row: int, cores: int, price: float) -> Inputs:
    """Of the measured figures, with the model of this row."""
    journal, model = figures["journal"], figures["sessions"][row]
    return Inputs(
        per_core=model["sessions"] / model["cores"],
        bytes_per_s=journal["bytes_per_s"],
        messages_per_s=journal["messages_per_s"],
        kept_bytes=journal["kept_bytes"],
        nats_messages_per_s=1 / journal["nats_cpu_s"],
        failover_s=figures["failover"]["p95_s"],
        cores=cores,
        price=price,
    )


def _plans(given: Inputs) -> list[str]:
    lines = [
        "| live sessions | servers | NATS | cells | messages/s | bytes/s | on NATS' disks | free places "
        "| cost of an hour of audio | sessions of a failed server are back in | without a place if a third fails |",
        "|---:|" + "---:|" * 10,
    ]
    for live in LIVE:
        one = plan(live, given)
        cells = [f"{one.live:,}", f"{one.servers:,}", f"{one.nats:,}", f"{one.cells:,}"]
        cells += [number(one.messages_per_s), number(one.bytes_per_s), f"{number(one.disk)}B", f"{one.headroom:.0%}"]
        cells += [f"{one.cost:.4f}", f"{one.back_s:.2f} s", f"{one.refused:.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def page(figures: dict[str, Any], cores: int, price: float) -> str:
    """The whole of lab/docs/scale.md."""
    scaling, limits = settings()
    one = inputs(figures, 0, cores, price)
    lines = _HEAD.format(cores=cores, price=price, link=number(one.link), used=_USED, start=one.start_s).split("\n")[
        :-1
    ]
    lines += [
        *_measured(figures),
        "",
        "## Machines and cost",
        "",
        *_EXPLAINED.splitlines(),
        "",
    ]
    for row, model in enumerate(figures["sessions"]):
        given = inputs(figures, row, cores, price)
        lines += [f"With {model['model']}, {given.per_machine} sessions a machine:", "", *_plans(given), ""]
    lines += [
        "## Limits of one cell",
        "",
        _BREAKS,
        "",
        "| live sessions | what is full | what to do |",
        "|---:|---|---|",
    ]
    lines += [f"| {math.floor(count):,} | {what} | {do} |" for count, what, do in breaks(one, limits)]
    lines += ["", "## Growth", "", _GROWTH.format(places=limits["places"]), ""]
    lines += ["| live sessions | a replica starts in | new sessions a minute |", "|---:|---:|---:|"]
    for live in (20, 200):
        for start_s in (20, 60, 180):
            lines.append(f"| {live} | {start_s} s | {fastest_growth(scaling, live, start_s):.0f} |")
    lines += ["", "## What each setting costs", "", *_costs(figures["journal"], one)]
    lines += ["", "## How this was made", "", *_MADE.splitlines()]
    return "\n".join(lines) + "\n"


_HEAD = """\
# Scaling to many servers

`python benchmarks/scale.py --write lab/docs/scale.md` writes this page; do not edit it. The figures are arithmetic
and a small simulation on measured values, not from a test with so many clients. The largest fleet tested was two
servers and one NATS on two cores.

Assumptions: a machine has {cores} cores, a core costs {price:g} an hour (`--price` sets your own price), a link carries
{link}B/s, and sessions per core are the same on larger machines. NATS is planned at {used:g} of its capacity.

## Measured

"""

_EXPLAINED = """\
The tables have the smallest number of machines with a place for every client after the failure of one server. A NATS
cluster is three machines. All of a fleet's sessions are in one stream, and a stream has one leader. More sessions than
the leader can serve need several cells, each a fleet of its own with its own NATS. Clients must connect to their cell
by its address: no part of whispertide does that.

The cost of an hour of audio is its share of all machines. The clients of a failed server come back one after another,
each in the p95 above."""

_MADE = """\
`python benchmarks/scale.py --write lab/docs/scale.md` reads `benchmarks/scale.json`, which has the command of each
measured figure."""

_BREAKS = """\
With the settings of `deploy/fleet`, in the order in which the limits are reached:"""

_GROWTH = """\
With `deploy/fleet/kubernetes/scaling.yaml` and all the machines that it requests. Sessions are simulated second by
second for a quarter of an hour. Kubernetes checks every 15 s. There are {places:,.0f} places in all. The table has the
fastest growth without a refused session:"""

_WARNING = """\
The capacity of one stream is an estimate: the number of messages that one core can write, since a stream's leader
writes them one after another. The measured rate is lower, because NATS, the writing client (Python, one thread) and
other work shared two cores. It had one replica, not three. Sessions per core are those of a server without a journal;
the journal's share of a core is not included."""


def _measured(figures: dict[str, Any]) -> list[str]:
    journal, failover = figures["journal"], figures["failover"]
    lines = ["| what | figure | from |", "|---|---|---|"]
    for one in figures["sessions"]:
        what = f"sessions within 1.5 s at p95, {one['model']}, {one['cores']} cores"
        lines.append(f'| {what} | {one["sessions"]} | {_SERVER}, "Measured" |')
    taken = "`python benchmarks/journal_load.py`"
    lines += [
        f"| from a server's failure to the session on another, p95 | {failover['p95_s']:.3f} s "
        "| [log](../log/README.md), `benchmarks/failover.py` |",
        f"| written by a session (nano.en, `tide`) | {number(journal['bytes_per_s'])}B/s on the wire | {taken} |",
        f"| the same, in messages | {journal['messages_per_s']:.1f} messages/s | the same |",
        f"| kept in the stream, p95, with `ack` | {number(journal['kept_bytes'])}B | the same |",
        f"| NATS, for each such message | {1000 * journal['nats_cpu_s']:.2f} ms of a core | the same |",
        f"| messages written in the test | {journal['nats_messages_per_s']:,.0f} a second | the same |",
    ]
    return [*lines, "", *_WARNING.splitlines()]


def _costs(journal: dict[str, Any], one: Inputs) -> list[str]:
    syncs = "; ".join(f"{name}: {p50:.2f} / {p95:.2f} ms" for name, (p50, p95) in journal["sync"].items())
    rows = [
        (
            "`--journal nats://…`",
            f"{number(journal['bytes_per_s'])}B/s and {journal['messages_per_s']:.1f} messages/s for each session",
        ),
        (
            "`--replicas 3` of the stream",
            "three times the bytes on disks, two copies over the leader's link; computed, not measured",
        ),
        (
            "`sync_interval` of NATS",
            f"time of a write, p50 / p95: {syncs}. A power cut of all replicas loses one interval",
        ),
        ("a client without `ack`", f"its records stay: {number(3_600 * journal['bytes_per_s'])}B an hour at most"),
        (
            "a replica to spare",
            f"{one.cores * one.price:.2f} an hour; without it the sessions of a failed replica find no place",
        ),
        ("`--max-sessions`", f"higher: fewer machines, later words; see the latencies in {_SERVER}"),
        ("`threshold` of the ScaledObject", "lower: more free places for bursts and failures, and more machines"),
        (
            "`--drain-s`, grace period",
            "the longest time of a rolling restart for each replica; sessions in the journal do not wait for it",
        ),
    ]
    return ["| setting | cost |", "|---|---|", *(f"| {what} | {cost} |" for what, cost in rows)]


def main() -> None:
    """Print the page, or write it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", type=Path)
    options.add_argument("--price", type=float, default=_PRICE)
    options.add_argument("--cores", type=int, default=_CORES)
    asked = options.parse_args()
    text = page(json.loads((_HERE / "scale.json").read_text()), asked.cores, asked.price)
    if asked.write:
        asked.write.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
