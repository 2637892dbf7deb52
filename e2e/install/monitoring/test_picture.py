"""A run with gangs that start, wait and preempt, drawn as the dashboard shows it."""

import json
import math
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from e2e.harness.controlplane.places import ROOT
from e2e.harness.environment import Environment
from e2e.harness.muster import ALL
from e2e.harness.objects import job, of_job
from e2e.harness.support.manifests import MANIFESTS
from e2e.install.monitoring.drawing import Drawn, Points, sheet
from e2e.install.monitoring.prometheus import Prometheus
from kube.client.resources import JOBS

PICTURE = ROOT / "docs" / "pictures" / "dashboard.svg"
PANELS = json.loads((MANIFESTS / "monitoring" / "dashboard.json").read_text())["panels"]
UNITS = {"s": "s", "percentunit": "", "ops": "/s", "reqps": "/s", "short": ""}
VARIABLES = {"$__rate_interval": "10s", "$resource": "cpu"}

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


@pytest.fixture
async def prometheus(
    prometheus_binary: Path, env: Environment, tmp_path: Path
) -> AsyncIterator[Prometheus]:
    targets = {name: env.muster.page(name, "").removeprefix("http://") for name in ALL}
    async with Prometheus(prometheus_binary, tmp_path, targets, []) as prometheus:
        await env.until("Prometheus to be ready", prometheus.ready)
        await scrapes(env, prometheus, 2)
        yield prometheus


async def scrapes(env: Environment, prometheus: Prometheus, count: int) -> None:
    """Wait until each process was scraped that many times."""
    asked = f"count_over_time(up[10m]) >= {count}"

    async def enough() -> bool:
        return len(await prometheus.query(asked)) == len(ALL)

    await env.until(f"{count} scrapes", enough)


async def some_gangs(env: Environment, prometheus: Prometheus) -> None:
    """Create five gangs: three run, two wait until the first ones are deleted."""
    for _ in range(3):
        await env.add_node(cpu=4, labels={"topology.kubernetes.io/zone": "a"})
    names = [f"gang-{number}" for number in range(5)]
    for name in names:
        await env.create(JOBS, job(name, env.name))
        await env.has_pods(of_job(name), 4)
    for name in names[:3]:
        await env.runs(of_job(name), 4)
    await scrapes(env, prometheus, 20)
    for gone, next_ in zip(names[:2], names[3:], strict=True):
        await env.delete(JOBS, gone)
        await env.runs(of_job(next_), 4)
    await scrapes(env, prometheus, 40)


def legend(text: str, labels: dict[str, str]) -> str:
    """Expand a legend as Grafana does."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), text)


async def drawn(prometheus: Prometheus, panel: dict[str, Any], start: float, end: float) -> Drawn:
    lines: dict[str, Points] = {}
    for target in panel["targets"]:
        asked = target["expr"]
        for name, value in VARIABLES.items():
            asked = asked.replace(name, value)
        for series in await prometheus.query_range(asked, start, end, 1):
            points = [(at, float(value)) for at, value in series["values"]]
            points = [(at, value) for at, value in points if math.isfinite(value)]
            if points:
                lines[legend(target["legendFormat"], series["metric"])] = points
    return Drawn(panel["title"], UNITS[panel["fieldConfig"]["defaults"]["unit"]], lines)


async def test_the_dashboard_of_a_run(
    prometheus: Prometheus, env: Environment, record: bool
) -> None:
    start = time.time()
    await some_gangs(env, prometheus)
    whole = "sum(muster_scheduler_gang_scheduling_duration_seconds_count) >= 5"

    async def all_whole() -> bool:
        return bool(await prometheus.query(whole))

    await env.until("all gangs to be measured", all_whole)
    end = time.time()
    panels = [await drawn(prometheus, each, start, end) for each in PANELS if "targets" in each]
    by_title = {panel.title: panel for panel in panels}
    eventful = [each for each in panels if any(v for p in each.lines.values() for _, v in p)]
    text = sheet(eventful, start, end)

    groups = by_title["Groups"].lines
    assert max(v for _, v in groups["PodGroup pending"]) >= 1
    assert by_title["Groups"].lines["PodGroup scheduled"][-1][1] >= 3
    assert by_title["Free in each domain"].lines.keys() == {"topology.kubernetes.io/zone a"}
    assert ET.fromstring(text).tag.endswith("svg")
    if record:
        PICTURE.write_text(text)
