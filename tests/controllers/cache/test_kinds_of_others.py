"""An optional kind that cannot be listed stops only what depends on it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import jsonpatch
import pytest

from api.integration.common.native import GroupsApi
from api.integration.common.owner_kind import Review
from api.integration.job.admission import job_admission
from api.integration.jobset.admission import jobset_admission
from controllers.app import ControllerProcess
from controllers.cache.informers import OPTIONAL
from controllers.cache.objects import JOBS, JOBSETS, POD_GROUPS
from kube.base.errors import Forbidden, ServerError, TooManyRequests, Unreachable
from kube.base.settings import LeaderElection
from kube.client.resources import Resource
from tests.support.clock import FakeClock
from tests.support.memory_api import MemoryApi, Request
from tests.support.owners import make_job, make_jobset

TROUBLES: dict[str, Exception | None] = {
    "its conversion webhook is down": ServerError(500, "InternalError", "conversion webhook"),
    "the roles are those of before": Forbidden(403, "Forbidden", "cannot list"),
    "the server throttles": TooManyRequests(429, "TooManyRequests", "later", retry_after=1),
    "no response comes": Unreachable("GET", "/", "timed out"),
    "the list never ends": None,
}


@asynccontextmanager
async def running(api: MemoryApi, clock: FakeClock) -> AsyncIterator[ControllerProcess]:
    process, stop = (
        ControllerProcess(
            api, LeaderElection(enabled=False), clock=clock, groups_api=GroupsApi.AUTO
        ),
        asyncio.Event(),
    )
    task = asyncio.ensure_future(process.run(stop))
    try:
        yield process
    finally:
        stop.set()
        await task


async def pass_until(clock: FakeClock, holds: Callable[[], object]) -> None:
    """Advance the virtual time until the condition is true, an hour at most."""
    for _ in range(3600):
        if holds():
            return
        await clock.advance(1.0)
    raise AssertionError("it never holds")


def trouble(api: MemoryApi, clock: FakeClock, kind: Resource, answer: Exception | None) -> None:
    async def act(_request: Request) -> None:
        if answer is not None:
            raise answer
        await clock.sleep(1e7)

    api.on(act, "list", of=kind, fails=True)


def submit_job(api: MemoryApi) -> None:
    job = make_job("works").asks(gang_mode="Gang").build()
    patch = job_admission(job, Review("CREATE", namespace="default")).patch
    api.put(JOBS, jsonpatch.apply_patch(job, patch), "default")


def submit_jobset(api: MemoryApi) -> None:
    jobset = make_jobset("later").asks(gang_mode="Gang").replicated_job("w").build()
    patch = jobset_admission(jobset, Review("CREATE")).patch
    api.put(JOBSETS, jsonpatch.apply_patch(jobset, patch), "default")


def groups(api: MemoryApi) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in api.all(POD_GROUPS))


@pytest.mark.parametrize("kind", OPTIONAL, ids=lambda kind: kind.full_name)
@pytest.mark.parametrize("answer", TROUBLES.values(), ids=TROUBLES)
async def test_jobs_get_their_groups_while_a_kind_cannot_be_listed(
    kind: Resource, answer: Exception | None
) -> None:
    clock = FakeClock()
    api = MemoryApi(clock)
    trouble(api, clock, kind, answer)
    submit_job(api)
    async with running(api, clock) as process:
        await pass_until(clock, lambda: groups(api))
        details = list(process.details())

    assert groups(api) == ["pg-job-works"]
    assert [line for line in details if line.startswith(f"{kind.full_name} ")] == details
    assert len(details) == 1


async def test_what_is_about_the_kind_is_done_once_it_is_listed() -> None:
    clock = FakeClock()
    api = MemoryApi(clock)
    trouble(api, clock, JOBSETS, TROUBLES["its conversion webhook is down"])
    submit_jobset(api)
    async with running(api, clock) as process:
        await pass_until(clock, process._caches.synced.is_set)
        await clock.advance(60)
        assert groups(api) == []

        api.recover()
        await pass_until(clock, lambda: groups(api))
        assert list(process.details()) == []


@pytest.mark.parametrize("answer", [TROUBLES["the roles are those of before"], None])
async def test_groups_of_owners_that_are_not_listed_stay_until_these_are_known_to_be_gone(
    answer: Exception | None,
) -> None:
    clock = FakeClock()
    api = MemoryApi(clock)
    submit_jobset(api)
    async with running(api, clock):
        await pass_until(clock, lambda: groups(api))
    api.drop(JOBSETS, "later", "default", told=False)  # and the garbage collector missed it

    trouble(api, clock, JOBSETS, answer)
    asked = len(api.sent)
    async with running(api, clock):
        await clock.advance(600)
        assert groups(api) != []
        assert not any(it.verb == "delete" for it in api.sent[asked:])

        api.rules.clear()
        if answer is not None:
            await pass_until(clock, lambda: not groups(api))


async def test_the_list_of_a_kind_is_asked_for_less_and_less_often() -> None:
    clock = FakeClock()
    api = MemoryApi(clock)
    trouble(api, clock, JOBSETS, TROUBLES["its conversion webhook is down"])
    async with running(api, clock):
        await clock.advance(600)

    asked = [it for it in api.sent if it.verb == "list" and it.collection == JOBSETS.full_name]
    assert 600 / 15 <= len(asked) <= 2 * 600 / 15 + 5
