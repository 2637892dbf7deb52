"""A process keeps no state of an earlier term, and none of deleted objects."""

import asyncio
import gc
import math
import weakref
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jsonpatch
import pytest

from api import features
from api.constants import ANNOTATION_MANAGED_GROUP, LABEL_TEMPLATE, LABEL_WORKLOAD
from api.features import FeatureGates
from api.integration.common.owner_kind import Review
from api.integration.job.admission import job_admission
from api.integration.jobset.admission import jobset_admission
from api.names import hashed
from controllers.app import ControllerProcess, LeaderTerm
from controllers.cache.objects import JOBS, JOBSETS, POD_GROUPS, WORKLOADS
from kube.base.clock import rfc3339_micro
from kube.base.errors import Forbidden
from kube.base.settings import LeaderElection
from kube.client.resources import DEPLOYMENTS, LEASES, NAMESPACES, PODS, Resource
from kube.leader.election import Fence
from tests.controllers.asking import asking
from tests.support.apps import admitted, deployment
from tests.support.builders import make_pod
from tests.support.clock import FakeClock
from tests.support.growth import kept_by
from tests.support.memory_api import MemoryApi
from tests.support.owners import make_job, make_jobset

Json = dict[str, Any]
EVERYTHING = FeatureGates(frozenset(features.GATES))


Labels = dict[str, str]


def wave(api: MemoryApi, number: int) -> None:
    """Create objects of the kinds for which controllers keep state; all names are of this wave."""
    namespace = f"ns{number}"
    job = make_job(f"job{number}").asks(gang_mode="Gang").build()
    job_patch = job_admission(job, Review("CREATE", namespace=namespace)).patch
    jobset = make_jobset(f"set{number}").asks(gang_mode="Gang").replicated_job("w").build()
    jobset["metadata"]["namespace"] = namespace
    jobset_patch = jobset_admission(jobset, Review("CREATE")).patch
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    put(api, NAMESPACES, namespace, {})
    put(api, JOBS, f"job{number}", jsonpatch.apply_patch(job, job_patch), namespace)
    put(api, JOBSETS, f"set{number}", jsonpatch.apply_patch(jobset, jobset_patch), namespace)
    put(api, WORKLOADS, f"w{number}", {"spec": {"podGroupTemplates": [template]}}, namespace)
    for named in ("t", "missing"):
        pod = make_pod().label(LABEL_WORKLOAD, f"w{number}").label(LABEL_TEMPLATE, named).build()
        put(api, PODS, f"{named}{number}", pod, namespace)
    put(api, PODS, f"asks{number}", asking("asks", f"of{number}", "1").build(), namespace)
    blocked(api, number, namespace)
    refused(api, number, namespace)


def blocked(api: MemoryApi, number: int, namespace: str) -> None:
    """Create a JobSet both of whose Workload names are in use."""
    name = f"blocked{number}"
    for taken in (f"w-{name}", hashed(f"w-{name}", WORKLOADS.kind, namespace)):
        put(api, WORKLOADS, taken, {"spec": {}}, namespace)
    jobset = make_jobset(name).asks(gang_mode="Gang").replicated_job("w").build()
    jobset["metadata"]["namespace"] = namespace
    patch = jobset_admission(jobset, Review("CREATE")).patch
    put(api, JOBSETS, name, jsonpatch.apply_patch(jobset, patch), namespace)


def refused(api: MemoryApi, number: int, namespace: str) -> None:
    """Create a Deployment whose group is rejected, and whose annotation is."""
    made = admitted(deployment(gang_mode="Gang"), request_uid=f"r{number}")
    group = made["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]
    for verb, kind in (("create", POD_GROUPS), ("patch", DEPLOYMENTS)):
        name = group if kind == POD_GROUPS else f"web{number}"
        api.fail(Forbidden(403, "Forbidden", "no"), verbs=[verb], of=kind, name=name, times=9)
    put(api, DEPLOYMENTS, f"web{number}", made, namespace)


def put(api: MemoryApi, resource: Resource, name: str, obj: Json, namespace: str = "") -> None:
    meta = obj.get("metadata", {}) | {"name": name, "namespace": namespace}
    api.put(resource, obj | {"metadata": meta}, namespace)


async def gone(api: MemoryApi, clock: FakeClock) -> None:
    """Delete all objects of users, and their dependents by the garbage collector."""
    for resource in (JOBS, JOBSETS, DEPLOYMENTS, PODS, WORKLOADS):
        for obj in api.all(resource):
            api.drop(resource, obj["metadata"]["name"], obj["metadata"]["namespace"])
    await clock.advance(120)
    for resource in (POD_GROUPS, NAMESPACES):
        for obj in api.all(resource):
            api.drop(resource, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
    await clock.advance(3600)


@asynccontextmanager
async def running(
    api: MemoryApi, clock: FakeClock, election: LeaderElection
) -> AsyncIterator[ControllerProcess]:
    process, stop = ControllerProcess(api, election, clock=clock, gates=EVERYTHING), asyncio.Event()
    task = asyncio.ensure_future(process.run(stop))
    try:
        await process._caches.synced.wait()
        yield process
    finally:
        stop.set()
        await task


def lease_of_another(clock: FakeClock) -> Json:
    spec = {"holderIdentity": "another_1_a", "leaseDurationSeconds": 1_000_000}
    return {"spec": spec | {"renewTime": rfc3339_micro(clock.now()), "leaseTransitions": 1}}


@pytest.mark.parametrize("leads", [False, True])
async def test_nothing_is_kept_of_objects_that_come_and_go(leads: bool) -> None:
    clock = FakeClock()
    api = MemoryApi(clock)
    if not leads:
        put(api, LEASES, "muster-controller", lease_of_another(clock), "muster-system")
    election = LeaderElection(enabled=not leads)
    async with running(api, clock, election) as process:

        async def kept(waves: range) -> Counter[str]:
            for number in waves:
                wave(api, number)
                await clock.advance(60)
                await gone(api, clock)
            return kept_by(process, without=(api, process._recorder, clock))

        before = await kept(range(2))
        after = await kept(range(2, 6))

    assert bool([it for it in api.sent if it.verb == "create" and "podgroups" in it.path]) is leads
    assert after - before == Counter()


def references(term: LeaderTerm | None) -> list[weakref.ref[object]]:
    assert term is not None
    parts = [term, term._writer, *term.reconcilers, *(it.controller for it in term.reconcilers)]
    return [weakref.ref(it) for it in parts]


async def test_a_term_leaves_nothing_to_the_next() -> None:
    """Each term creates all state of its parts, and no other part refers to it."""
    clock = FakeClock()
    api = MemoryApi(clock)
    put(api, LEASES, "muster-controller", lease_of_another(clock), "muster-system")
    async with running(api, clock, LeaderElection()) as process:
        listeners = kept_by(process._caches)
        parts = list[weakref.ref[object]]()
        for number in range(2):
            fence = Fence(clock, number, math.inf)
            term = asyncio.ensure_future(process._work(fence))
            wave(api, number)
            await clock.advance(60)
            parts += references(process._term)
            term.cancel()
            await asyncio.wait({term})
            del term
            await gone(api, clock)
        api.rules.clear()  # the raised errors refer to their frames
        gc.collect()

        assert [it() for it in parts if it() is not None] == []
        assert kept_by(process._caches) - listeners == Counter()
