"""The console with a real scheduler on the embedded cluster, while a gang starts."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from console.serving.serving import Console, local
from kube.base.settings import LeaderElection
from kube.client.client import Client
from kube.client.resources import CRDS, JOBS, NAMESPACES, NODES, PODS
from localcluster.cluster import LocalCluster
from scheduler.app import Scheduler
from scheduler.support.config import Config, Status
from scheduler.support.kinds import GROUPS
from tests.console.browser import Browser

CONFIG = Config(status=Status(delay_seconds=0.05, pods_seconds=0.2))
ELECTION = LeaderElection(lease_seconds=3, renew_seconds=2, retry_seconds=0.5)
MANIFESTS = Path(__file__).parents[3] / "manifests" / "crd"
RACK = "example.com/rack"
POD_GROUPS = GROUPS["PodGroup"]
PATIENCE = 120


class Stage:
    """A cluster with a scheduler, and a console with a viewer."""

    def __init__(self, client: Client, console: Console, page: Browser, audit: Path) -> None:
        self.client, self.console, self.page, self.audit = client, console, page, audit

    async def node(self, name: str, rack: str, cpu: str = "4") -> None:
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        node = {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {RACK: rack}},
            "status": {"allocatable": amounts, "capacity": amounts},
        }  # fmt: skip
        await self.client.create(NODES, node)

    async def gang(self, name: str, size: int, owner: dict[str, Any] | None = None) -> None:
        constraints = {"topology": [{"key": RACK}]}
        metadata: dict[str, Any] = {"name": name}
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        group = {
            "apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": metadata,
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": size}},
                "schedulingConstraints": constraints,
            },
        }  # fmt: skip
        await self.client.create(POD_GROUPS, group, "default")
        for index in range(size):
            await self.pod(f"{name}-{index}", name)

    async def pod(self, name: str, group: str) -> None:
        pod = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"scheduling.muster.dev/pod-group": group}},
            "spec": {
                "schedulerName": "muster-scheduler",
                "containers": [
                    {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
                ],
            },
        }  # fmt: skip
        await self.client.create(PODS, pod, "default")

    async def asked(self, path: str) -> Any:
        status, answer = await self.page.get(path)
        assert status == 200, answer
        return answer


@contextlib.asynccontextmanager
async def scheduling(client: Client) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.ensure_future(Scheduler(client, CONFIG, ELECTION).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    jar = aiohttp.CookieJar(unsafe=True)
    audit = tmp_path / "audit.log"
    running = LocalCluster(audit_log=audit)
    async with running as cluster, contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(await Client.connect(cluster.kubeconfig))
        for path in sorted(MANIFESTS.glob("*.yaml")):
            await client.create(CRDS, yaml.safe_load(path.read_text()))
        await client.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
        reader = await stack.enter_async_context(await Client.connect(cluster.kubeconfig))
        console = await stack.enter_async_context(local(reader))
        http = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))
        page = Browser(http, int(console.address.rstrip("/").rpartition(":")[2]))
        async with asyncio.timeout(PATIENCE):
            await console.cluster.wait()
        await page.get(f"/?key={console.url.partition('=')[2]}")
        yield Stage(client, console, page, audit)


async def test_a_gang_waits_and_then_starts_before_everybodys_eyes(stage: Stage) -> None:
    await stage.node("n1", "r1")
    async with scheduling(stage.client), asyncio.timeout(PATIENCE):
        async with stage.page.events("views=queue,map&resource=cpu") as events:
            await stage.gang("train", 6)
            row = await _row(events, "train", reason="Unschedulable")
            assert row["nearest"] == {"key": RACK, "value": "r1", "slots": 4, "needed": 6}
            assert "4 fit" in row["sentence"]

            found = await stage.asked("/api/map")
            assert found["keys"] == [RACK]
            assert found["domains"][0]["free"] == 4000
            largest = await stage.asked(f"/api/map/largest?shape=cpu=1&key={RACK}")
            assert largest["domains"] == [{"id": "r1", "value": "r1", "pods": 4}]
            why = await stage.asked("/api/workloads/default/PodGroup/train/why?node=n1")
            assert why["reasons"] == [
                f"{RACK}=r1 has capacity for 4 of the 6 pods that need one domain"
            ]

            await _until(stage, "Waiting", "Unschedulable")  # by the scheduler, too
            await stage.node("n2", "r1")
            change = await events.until("queue")
            while "default/PodGroup/train" not in change["gone"]:
                change = await events.until("queue")

        whole = await _until(stage, "Running", "Scheduled", "All started")
        assert whole["tree"]["counts"] == {"pods": 6, "bound": 6, "running": 6, "minimum": 6}
        told = [event["event"] for event in whole["timeline"]]
        assert {
            "Created",
            "First pod",
            "Quorum",
            "Unschedulable",
            "Scheduled",
            "Started",
            "All started",
        } <= set(told)
        lit = await stage.asked("/api/map/pods?workload=default/PodGroup/train")
        assert sum(each["pods"] for each in lit) == 6
        (domain,) = (await stage.asked("/api/map"))["domains"]
        assert (domain["capacity"], domain["used"], domain["free"]) == (8000, 6000, 2000)


async def test_the_yaml_of_the_owner_is_read_when_it_is_looked_at(stage: Stage) -> None:
    job = {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": "train",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"},
        },
        "spec": {"suspend": True, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    }  # fmt: skip
    made = await stage.client.create(JOBS, job, "default")
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": "train",
        "uid": made["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    await stage.gang("pg-train", 2, owner)
    async with asyncio.timeout(PATIENCE):
        while ("default", "Job", "train") not in stage.console.cluster.observed.owned:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    whole = await stage.asked("/api/workloads/default/Job/train")

    shown = yaml.safe_load(whole["yaml"])
    assert (shown["kind"], shown["metadata"]["name"]) == ("Job", "train")
    assert "managedFields" not in shown["metadata"]
    assert "annotations" not in shown["metadata"]
    assert "status" not in shown
    assert [child["name"] for child in whole["tree"]["children"]] == ["pg-train"]


async def test_looking_writes_nothing_and_lists_nothing_again(stage: Stage) -> None:
    await stage.node("n1", "r1")
    await stage.gang("train", 6)
    async with stage.page.events("views=map,queue,workload:default/PodGroup/train") as events:
        await events.until("queue")
        while (await stage.asked("/api/queue"))["items"][0]["pods"] < 6:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        before = stage.audit.stat().st_size

        for path in (
            "/api/session", "/api/map?resource=memory", f"/api/map/largest?shape=cpu=1&key={RACK}",
            "/api/map/pods?workload=default/PodGroup/train", "/api/queue",
            "/api/workloads?search=t",
            "/api/workloads/default/PodGroup/train",
            "/api/workloads/default/PodGroup/train/why?node=n1",
        ):  # fmt: skip
            await stage.asked(path)

        lines = stage.audit.read_bytes()[before:].splitlines()
        verbs = [json.loads(line)["verb"] for line in lines]
        # Watches end and restart by themselves.
        assert set(verbs) <= {"get", "watch"}
        assert verbs.count("get") == 1


async def _row(events: Any, name: str, *, reason: str) -> Any:
    """Return the row of this workload, once it has that reason and the scheduler's message."""
    while True:
        change = await events.until("queue")
        for row in change["changed"]:
            if row["name"] == name and row["reason"] == reason and row["nearest"]:
                return row


async def _until(stage: Stage, state: str, *events: str) -> Any:
    """Return the workload, once it is in that state with these events on its timeline."""
    while True:
        whole = await stage.asked("/api/workloads/default/PodGroup/train")
        told = {event["event"] for event in whole["timeline"]}
        if whole["tree"]["state"] == state and told.issuperset(events):
            return whole
        await asyncio.sleep(0.1)
