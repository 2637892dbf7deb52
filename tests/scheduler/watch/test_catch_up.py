"""A new leader decides nothing before its caches are synced."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from prometheus_client import REGISTRY

from kube.base.errors import Forbidden
from kube.client.resources import NODES, PDBS, PODS, Resource
from kube.informers.reflector import Reflector
from scheduler.watch.informers import catch_up
from tests.support.clock import FakeClock, settle


@dataclass
class SlowReflector:
    """A reflector that is synced once the test says so."""

    resource: Resource
    current: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[float] = field(default_factory=list)
    refused: bool = False

    async def catch_up(self, since: float, *, permitted: bool = True) -> None:
        self.asked.append(since)
        if self.refused and not permitted:
            raise Forbidden(403, "Forbidden", "no")
        await self.current.wait()


def stale(resource: Resource) -> float:
    name = "muster_scheduler_takeovers_stale_total"
    return REGISTRY.get_sample_value(name, {"resource": resource.full_name}) or 0.0


def begin(clock: FakeClock, *reflectors: SlowReflector) -> asyncio.Task[None]:
    found = [cast("Reflector[Any]", each) for each in reflectors]
    return asyncio.ensure_future(catch_up(found, 7.0, clock))


async def test_all_are_waited_for_at_once() -> None:
    clock = FakeClock()
    reflectors = [SlowReflector(each) for each in (NODES, PODS, PDBS)]

    task = begin(clock, *reflectors)
    await settle()
    assert [each.asked for each in reflectors] == [[7.0]] * 3
    assert not task.done()
    for each in reflectors:
        each.current.set()
    await task


async def test_a_kind_that_cannot_be_listed_does_not_stop_all_scheduling() -> None:
    clock = FakeClock()
    before = stale(PDBS)

    task = begin(clock, SlowReflector(PDBS))
    await clock.advance(29)
    assert not task.done()
    await clock.advance(2)
    await task

    assert stale(PDBS) == before + 1


async def test_a_kind_that_may_not_be_read_any_more_is_not_waited_for() -> None:
    """The roles of an earlier version are in force before its replicas lead."""
    clock = FakeClock()
    before = stale(PDBS)

    task = begin(clock, SlowReflector(PDBS, refused=True))
    await settle()

    assert task.done()
    await task
    assert stale(PDBS) == before + 1


async def test_nodes_and_pods_that_may_not_be_read_are_waited_for() -> None:
    for resource in (NODES, PODS):
        clock = FakeClock()
        reflector = SlowReflector(resource, refused=True)

        task = begin(clock, reflector)
        await clock.advance(3600)
        assert not task.done()
        reflector.current.set()
        await task


async def test_nothing_is_decided_without_nodes_and_pods() -> None:
    for resource in (NODES, PODS):
        clock = FakeClock()
        reflector = SlowReflector(resource)

        task = begin(clock, reflector)
        await clock.advance(3600)
        assert not task.done()
        reflector.current.set()
        await task
