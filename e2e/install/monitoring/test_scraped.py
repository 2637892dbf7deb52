"""A real Prometheus scrapes a run: every alert and panel queries existing metrics."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from e2e.harness.environment import Environment
from e2e.harness.muster import ALL, SCHEDULER
from e2e.harness.objects import job, of_job
from e2e.harness.support.manifests import MANIFESTS
from e2e.install.monitoring.prometheus import Prometheus
from kube.client.resources import JOBS

FOLDER = MANIFESTS / "monitoring"
PANELS = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
VARIABLES = {"$__rate_interval": "10s", "$resource": "cpu"}

_ONLY_ONCE_IT_HAPPENS = {
    "muster_events_dropped_total",
    "muster_scheduler_domain_free",  # the nodes of the flow are in no zone
    "muster_scheduler_domain_free_max",
}
"""Metrics that a run without faults does not have."""

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


def expression(text: str) -> str:
    """Expand the variables of an expression as Grafana does."""
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    return text


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The alerts without their `for`: the unit tests of the rules cover times."""
    document = yaml.safe_load((FOLDER / "rules.yaml").read_text())
    for rule in (it for group in document["groups"] for it in group["rules"]):
        rule.pop("for", None)
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.fixture
async def prometheus(
    prometheus_binary: Path, env: Environment, rules: Path, tmp_path: Path
) -> AsyncIterator[Prometheus]:
    targets = {name: env.muster.page(name, "").removeprefix("http://") for name in ALL}
    async with Prometheus(prometheus_binary, tmp_path, targets, [rules]) as prometheus:
        await env.until("Prometheus to be ready", prometheus.ready)

        async def all_up() -> bool:
            return len(await prometheus.query("up == 1")) == len(ALL)

        await env.until("all processes to be scraped", all_up)
        yield prometheus


async def two_gangs(env: Environment) -> None:
    """Create two gangs: one runs, the other waits for capacity."""
    await env.add_node(cpu=4)
    for name in ("gang-first", "gang-second"):
        await env.create(JOBS, job(name, env.name))
        await env.has_pods(of_job(name), 4)
        if name == "gang-first":
            await env.runs(of_job(name), 4)
    await env.waits("pg-job-gang-second", needed=4, free=0)


async def test_what_alerts_and_panels_ask_for_was_scraped(
    prometheus: Prometheus, env: Environment
) -> None:
    await two_gangs(env)
    pending = 'muster_scheduler_groups{kind="PodGroup",state="pending"} > 0'
    await env.until("the second gang to be told", lambda: found(prometheus, pending))
    bound = "muster_scheduler_gang_scheduling_duration_seconds_count > 0"
    # The gang that waited may have been the first one, in a scrape before its start.
    await env.until("the first gang to be told", lambda: found(prometheus, bound))

    names = await prometheus.names()
    assert not {name for name in names if name.endswith("_created")}
    targets = [target for panel in PANELS for target in panel.get("targets", ())]
    for target in targets:
        asked = expression(target["expr"])
        answers = await prometheus.query(asked)
        if not answers and not not_yet(asked):
            # Rates need two scrapes.
            await env.until(asked, partial(found, prometheus, asked))


def not_yet(asked: str) -> bool:
    return any(name in asked for name in _ONLY_ONCE_IT_HAPPENS)


async def found(prometheus: Prometheus, asked: str) -> bool:
    return bool(await prometheus.query(asked))


async def test_nothing_that_users_name_is_a_label(prometheus: Prometheus, env: Environment) -> None:
    await two_gangs(env)
    pending = 'muster_scheduler_groups{kind="PodGroup",state="pending"} > 0'
    await env.until("the second gang to be told", lambda: found(prometheus, pending))
    series = await prometheus.series('{__name__=~"muster_.*"}')

    values = {value for labels in series for value in labels.values()}
    assert not [value for value in values if env.name in value or "gang-second" in value]
    assert len(series) < 2500


async def test_an_alert_fires_while_the_scheduler_is_gone_and_clears(
    prometheus: Prometheus, env: Environment
) -> None:
    async def fires() -> bool:
        return "MusterAbsent" in await prometheus.firing()

    async def clear() -> bool:
        return not await fires()

    await env.until("nothing to fire", clear)
    env.muster.kill(SCHEDULER)
    await env.until("the alert to fire", fires)
    await env.muster.start(SCHEDULER)
    await env.until("the alert to clear", clear)


async def test_the_metrics_are_well_formed(promtool: Path, env: Environment) -> None:
    async with aiohttp.ClientSession(trust_env=False) as session:
        for name in ALL:
            async with session.get(env.muster.page(name, "/metrics")) as answer:
                text = await answer.read()
            check = partial(run, [promtool, "check", "metrics"], input=text, capture_output=True)
            done = await asyncio.to_thread(check)
            assert done.returncode == 0, (done.stdout + done.stderr).decode()


def run(command: list[str | Path], **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, check=False, **options)
