"""The dashboard and the alerts ask for figures that the server has."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from each_row import each_row
from served import served as served_here
from whispertide.server.metrics import Metrics

DEPLOY = Path(__file__).parent.parent / "deploy"


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]


def asked() -> list[str]:
    board = json.loads((DEPLOY / "grafana/whispertide.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]] + [
        rule["expr"] for rule in alerts()
    ]


def served() -> set[str]:
    """Every name at /metrics. One with labels has no samples yet."""
    names: set[str] = set()
    for family in text_string_to_metric_families(Metrics().render().decode()):
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        names |= {family.name + ending for ending in endings}
    return names


@each_row("expression", asked())
def test_every_figure_exists(expression: str) -> None:
    found = set(re.findall(r"whispertide_\w+", expression))
    assert found
    assert found <= served()


def test_what_an_alert_counts_is_there_before_the_first() -> None:
    """Prometheus sees no increase from nothing to 1."""
    found = [pair for rule in alerts() for pair in re.findall(r'(whispertide_\w+)\{reason="(\w+)"\}', rule["expr"])]
    assert found
    registry = Metrics().registry
    assert [registry.get_sample_value(name, {"reason": reason}) for name, reason in found] == [0.0] * len(found)


@each_row("rule", alerts())
def test_every_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"[A-Z][^.]+\.", rule["annotations"]["action"]), "one sentence"


async def test_the_load_of_a_silent_server_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """What scales by it would otherwise add replicas for ever."""
    monkeypatch.setattr("whispertide.server.scheduler._TICK_S", 0.01)
    monkeypatch.setattr("whispertide.server.hub._SWEEP_S", 0.01)
    async with served_here() as (_, hub):
        hub.load.pressure = 2.0
        hub.metrics.lag.set(5)
        registry = hub.metrics.registry
        async with asyncio.timeout(60):
            while registry.get_sample_value("whispertide_lag_seconds"):
                await asyncio.sleep(0.01)
            while not (shown := registry.get_sample_value("whispertide_pressure")) or shown > 0.5:
                await asyncio.sleep(0.01)
