"""The server's timestamps are compared with the server's clock, not with the machine's."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from kube.base.clock import rfc3339
from kube.base.settings import LeaderElection
from kube.client.client import Client
from scheduler.app import Scheduler
from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.decoding.objects import Pod, decode_pod
from scheduler.support.config import Config, Preemption
from tests.scheduler.binding.test_recovery import lead, left_behind
from tests.scheduler.harness import Harness
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.support.api_server import ScriptedServer
from tests.support.steps import ended

APART = [timedelta(minutes=-5), timedelta(minutes=5)]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        ScriptedServer() as server,
        await Client.connect(server.kubeconfig(tmp_path)) as client,
    ):
        yield client


def terminating_pod(node: str, deletion_timestamp: str) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    obj = {
        "metadata": {
            "name": "leaving",
            "namespace": "ns",
            "uid": "uid-leaving",
            "deletionTimestamp": deletion_timestamp,
            "deletionGracePeriodSeconds": 86400,
        },
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }
    return decode_pod(json.dumps(obj).encode())


@pytest.mark.parametrize("apart", APART, ids=str)
@pytest.mark.parametrize(("leaves_in", "evicts"), [(30, False), (-30, False), (-90, True)])
async def test_a_victim_that_leaves_in_time_is_waited_for(
    client: Client, apart: timedelta, leaves_in: float, evicts: bool
) -> None:
    scheduler = Scheduler(client, Config(preemption=Preemption()), LeaderElection())
    there = datetime.now(UTC) + apart
    client.server_clock.heard(format_datetime(there, usegmt=True))
    builder = PreemptionBuilder()
    builder.state = scheduler.state
    builder.nodes(2, cpu=1)
    by = rfc3339(there + timedelta(seconds=leaves_in))
    scheduler._informers.pods.upsert(terminating_pod("n0", by))
    builder.runs(None, "n1", priority=1)
    (high,) = builder.waits(None, priority=5)
    pod = builder.single(high)
    refusal = place(builder.state, pod, SearchBudget())
    assert isinstance(refusal, Refusal)

    outcome = ended(scheduler._preemptor.refused(pod.key, pod, refusal))

    assert outcome.startswith("It preempts") == evicts
    assert evicts or outcome == "Waiting for the evicted pods to terminate."


@pytest.mark.parametrize("apart", APART, ids=str)
async def test_a_gang_has_the_rest_of_its_time_whatever_the_new_leaders_clock_says(
    apart: timedelta,
) -> None:
    harness = Harness(timeout=120)
    harness.server_clock.heard(format_datetime(harness.clock.now() + apart, usegmt=True))
    harness.builder.nodes(1, cpu=1)
    harness.builder.gang("g", 2)
    first, second = harness.builder.pod("g", node="n0"), harness.builder.pod("g")
    left_behind(harness, (first, "n0"), (second, "gone"), age=100)

    await lead(harness, seconds=15, unsettled="its time is not over")
    assert harness.api.deleted == []
    async with harness.leading():
        await harness.settle(10)

    assert harness.api.deleted == [first.name]
