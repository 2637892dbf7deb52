"""A policy webhook that hangs on a namespace's new groups delays no other namespace."""

import asyncio
from collections.abc import Callable

import jsonpatch
import pytest

from api.integration.common.owner_kind import Review
from api.integration.job.admission import job_admission
from controllers.cache.objects import POD_GROUPS, WORKLOADS
from kube.base.errors import ServerError
from kube.client.resources import Resource
from tests.controllers.asking import asking
from tests.controllers.conftest import ControllerHarness
from tests.support.clock import settle
from tests.support.memory_api import Request
from tests.support.owners import make_job

HANGS = 10.0
"""The API server's default timeout of a webhook."""


def submit_job(harness: ControllerHarness, namespace: str, name: str) -> None:
    job = make_job(name).asks(gang_mode="Gang").build()
    job["metadata"] |= {"namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    patch = job_admission(job, Review("CREATE", namespace=namespace)).patch
    harness.api.put(jsonpatch.apply_patch(job, patch) | {"kind": "Job"})


def submit_pod(harness: ControllerHarness, namespace: str, name: str) -> None:
    pod = asking(name, f"of-{name}", "1").build() | {"kind": "Pod"}
    harness.api.put(pod | {"metadata": pod["metadata"] | {"namespace": namespace}})


@pytest.mark.parametrize("submit", [submit_job, submit_pod])
@pytest.mark.parametrize("slow_kind", [WORKLOADS, POD_GROUPS])
async def test_another_namespace_has_its_groups_at_once(
    harness: ControllerHarness,
    submit: Callable[[ControllerHarness, str, str], None],
    slow_kind: Resource,
) -> None:
    async def hang(request: Request) -> None:
        if request.namespace.startswith("slow"):
            await harness.clock.sleep(HANGS)
            raise ServerError(500, "InternalError", "failed calling webhook: deadline exceeded")

    harness.api.client.on(hang, "create", of=slow_kind)
    for number in range(200):
        submit(harness, f"slow{number % 2}", f"bad-{number}")
    tasks = [asyncio.ensure_future(it.run()) for it in harness.controllers]
    try:
        await settle()
        for number in range(20):
            submit(harness, "good", f"good-{number}")
        for _ in range(50):
            await harness.clock.advance(HANGS / 100)
        made = harness.api.client.all(POD_GROUPS, "good")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    assert len(made) == 20
