"""The controllers on a fake API: no loop of their own, `settle` works through their queues."""

import random
from typing import Any, cast

import jsonpatch
import pytest

from api.integration.admission import Taken, no_name_taken
from api.integration.job import job_admission
from api.integration.jobset import jobset_admission
from controllers.coscheduling import Coscheduling
from controllers.fill import Fill
from controllers.implicit import Implicit
from controllers.job import job_controller
from controllers.jobset import jobset_controller
from controllers.leftovers import Leftovers
from controllers.maker import Maker
from controllers.mirror import Mirror
from controllers.objects import COSCHEDULINGS, PLUGINS_POD_GROUPS
from controllers.protection import Protection
from controllers.runtime import Controller, Writer
from controllers.world import World
from kube.client import Client
from kube.election import Fence
from kube.events import ObjectReference, Recorder
from kube.workqueue import WorkQueue
from tests.controllers.fake_api import FakeApi
from tests.support.clock import FakeClock

Json = dict[str, Any]


class Told:
    """Collects the events that the controllers tell."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def event(self, regarding: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.events.append((regarding.kind, regarding.name, reason))


class House:
    """World, fake API and all controllers, as one leading process has them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.world = World()
        self.api = FakeApi(self.world)
        self.told = Told()
        self.fence = Fence(self.clock, 0, float("inf"))
        writer = Writer(cast("Client", self.api))
        writer.lead(self.fence)
        self.maker = maker = Maker(self.world, writer, self.clock)
        mirror = Mirror(self.world, writer, cast("Recorder", self.told), self.clock)
        self.jobset = jobset_controller(self.world, maker, mirror, self.clock)
        self.job = job_controller(self.world, maker, mirror, self.clock)
        self.protection = Protection(self.world, writer, self.clock)
        recorder = cast("Recorder", self.told)
        self.implicit = Implicit(self.world, writer, maker, recorder, self.clock)
        self.fill = Fill(self.world, writer, self.clock)
        self.leftovers = Leftovers(self.world, writer, self.clock)
        self.coscheduling, self.plugins = (
            Coscheduling(it, self.world, self.clock, maker=maker, mirror=mirror, writer=writer)
            for it in (COSCHEDULINGS, PLUGINS_POD_GROUPS)
        )

        for controller in self.controllers:  # the same life twice is the same to the moment
            jitter = random.Random(controller.name)
            controller.queue = WorkQueue(controller.name, clock=self.clock, jitter=jitter)

    @property
    def controllers(self) -> list[Controller[Any]]:
        return [part.controller for part in self.parts]

    @property
    def parts(self) -> tuple[Any, ...]:
        owners = (self.jobset, self.job, self.coscheduling, self.plugins)
        return (*owners, self.implicit, self.fill, self.protection, self.leftovers)

    async def settle(self, *, seconds: float = 0.0) -> None:
        """Let time pass, then work until every queue is empty."""
        if seconds:
            await self.clock.advance(seconds)
        while any(len(controller.queue) for controller in self.controllers):
            for controller in self.controllers:
                while len(controller.queue):
                    key = await controller.queue.get()
                    await controller.handle(key)
                    controller.queue.done(key)

    def submit_jobset(self, jobset: Json, taken: Taken = no_name_taken) -> Json:
        """Store a JobSet as admission leaves it."""
        patch = jobset_admission(jobset, None, "CREATE", taken=taken).patch
        return self.api.put(jsonpatch.apply_patch(jobset, patch) | {"kind": "JobSet"})

    def submit_job(self, job: Json) -> Json:
        """Store a Job as admission leaves it."""
        patch = job_admission(job, None, "CREATE", namespace="default").patch
        return self.api.put(jsonpatch.apply_patch(job, patch) | {"kind": "Job"})

    def change(self, kind: str, name: str, **spec: Any) -> None:
        """Change fields of an object's spec."""
        obj = self.api.objects[kind, "default", name]
        self.api.put(obj | {"spec": obj["spec"] | spec})

    def close(self) -> None:
        for controller in self.controllers:
            controller.queue.close()


@pytest.fixture
async def house() -> Any:
    house = House()
    yield house
    house.close()
