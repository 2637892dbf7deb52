"""A whole scheduler with a fake API server, in virtual time.

`Harness` wires the real queue, cycle, binder and reporter; only the API server is a fake, which
answers Bindings and delivers them to the state as a watch would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kube.clock import ServerClock
from kube.election import Fence
from kube.errors import AlreadyExists, Conflict, NotFound
from kube.events import EventType, ObjectReference
from kube.freeze import Freeze
from kube.meta import Json
from kube.patch import Operation, PatchBuilder
from kube.resources import PVCS, PVS, Resource
from kube.stepwise import Stepwise
from scheduler.activity import Activity
from scheduler.allocations import Allocations
from scheduler.binder import Binder
from scheduler.claim_news import ClaimNews
from scheduler.claim_releases import ClaimReleases
from scheduler.config import Starvation, Status
from scheduler.core.model import ClaimKey, GroupKey, PodInfo
from scheduler.core.place import SearchBudget
from scheduler.cycle import Cycle
from scheduler.device_work import DeviceWork
from scheduler.gang_times import GangTimes
from scheduler.group_events import GroupEvents
from scheduler.held_places import HeldPlaces
from scheduler.loop import Loop
from scheduler.queue import Queue
from scheduler.resources import RESERVATIONS
from scheduler.starvation import StarvationMonitor
from scheduler.status import Reporter
from scheduler.volume_binder import VolumeBinder
from scheduler.watch.event_handlers import PendingPod
from scheduler.watch.expected_pods import ExpectedPods
from scheduler.watch.objects import GroupObject, Metadata
from tests.scheduler.state_builder import StateBuilder
from tests.support.clock import FakeClock, settle


@dataclass
class FakeApi:
    """Binds, deletes and patches pods and groups; `fail` may raise for a pod name.

    The answer about a pod in `delayed` waits for its event. A volume that is patched is the
    claim's at once, and with `binds_volumes` the claim is bound to it.
    """

    builder: StateBuilder
    bound: dict[str, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    patches: list[tuple[str, str, list[Operation]]] = field(default_factory=list)
    attempts: list[str] = field(default_factory=list)
    fail: Callable[[str], Exception | None] = lambda _name: None
    fail_store: Callable[[Json], Exception | None] = lambda _obj: None
    fail_delete: Callable[[str], Exception | None] = lambda _name: None
    fail_patch: Callable[[str], Exception | None] = lambda _name: None
    before_patch: Callable[[], Awaitable[None]] | None = None
    binds_volumes: bool = True
    deliver: bool = True
    stored: dict[str, Json] = field(default_factory=dict)
    created: int = 0
    log: list[str] = field(default_factory=list)
    delayed: dict[str, asyncio.Event] = field(default_factory=dict)

    def info(self, name: str) -> PodInfo | None:
        pods = self.builder.state.pods.values()
        return next((pod.info for pod in pods if pod.info.name == name), None)

    async def bind(
        self, namespace: str, pod: str, uid: str, node: str, *, throttle_retries: int = 0
    ) -> None:
        await asyncio.sleep(0)
        if pod in self.delayed:
            await self.delayed[pod].wait()
        self.attempts.append(pod)
        error = self.fail(pod)
        if error is not None:
            raise error
        if pod in self.bound:
            raise Conflict(409, "Conflict", "already bound")
        self.bound[pod] = node
        self.log.append(f"bind {pod}")
        if self.deliver:
            self.deliver_binding(pod)

    def deliver_binding(self, name: str) -> None:
        """The watch event of a binding."""
        info = self.info(name)
        assert info is not None
        self.builder.state.set_pod(replace(info, node=self.bound[name], phase="Running"))

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        if resource == PVCS:
            return {"metadata": {"name": name, "resourceVersion": "1"}}
        if resource == PVS:
            return self._volume(name)
        info = self.info(name)
        if info is None:
            raise NotFound(404, "NotFound", name)
        return {"metadata": {"uid": info.uid}, "spec": {"nodeName": self.bound.get(name)}}

    async def create(self, resource: Resource, obj: Json, namespace: str | None = None) -> Json:
        error = self.fail_store(obj)
        if error is not None:
            raise error
        name = obj["metadata"]["name"]
        if name in self.stored:
            raise AlreadyExists(409, "AlreadyExists", name)
        made = self.stored[name] = json.loads(json.dumps(obj))
        self.created += 1
        made["metadata"]["creationTimestamp"] = f"2026-01-01T{self.created:06}Z"
        self.log.append(f"store {name}")
        return obj

    async def list(self, resource: Resource, namespace: str | None = None) -> Json:
        return {"items": list(self.stored.values())}

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> None:
        if resource == RESERVATIONS:
            if self.stored.pop(name, None) is None:
                raise NotFound(404, "NotFound", name)
            return
        error = self.fail_delete(name)
        if error is not None:
            raise error
        self.deleted.append(name)
        self.builder.state.remove_pod(uid or "")

    async def patch(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder | Sequence[Operation],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Json:
        if self.before_patch is not None:
            await self.before_patch()
        error = self.fail_patch(name)
        if error is not None:
            raise error
        self.patches.append((resource.kind, name, list(ops)))
        if resource == PVS:
            self._give(name, list(ops)[-1]["value"])
        return {"metadata": {"resourceVersion": "2"}}

    def _volume(self, name: str) -> Json:
        volume = self.builder.state.volumes.volumes.get(name)
        if volume is None:
            raise NotFound(404, "NotFound", name)
        spec: Json = {}
        if volume.claim is not None:
            namespace, of = volume.claim
            spec["claimRef"] = {"namespace": namespace, "name": of, "uid": volume.claim_uid}
        metadata = {"name": name, "resourceVersion": "1"}
        if volume.terminating:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return {"metadata": metadata, "spec": spec}

    def _give(self, name: str, ref: Json) -> None:
        storage, key = self.builder.state.volumes, (ref["namespace"], ref["name"])
        volume = storage.volumes[name]
        storage.set_volume(replace(volume, claim=key, claim_uid=ref["uid"], available=False))
        if self.binds_volumes:
            storage.set_claim(replace(storage.claims[key], volume=name))


@dataclass
class FakeEvents:
    told: list[tuple[str, str, str]] = field(default_factory=list)

    def event(
        self,
        regarding: ObjectReference,
        event_type: EventType,
        reason: str,
        message: str,
        *,
        component: str = "",
    ) -> None:
        self.told.append((f"{regarding.kind}/{regarding.name}", reason, message))


class Harness:
    builder: StateBuilder

    def __init__(
        self,
        *,
        timeout: float = 120.0,
        workers: int = 4,
        starvation: Starvation | None = None,
    ) -> None:
        claim_news = ClaimNews()
        self.builder = self.build_state(claim_news.changed)
        self.clock = FakeClock()
        self.server_clock = clock = ServerClock(self.clock)
        self.api = self.build_api()
        self.events = FakeEvents()
        self.observed: dict[GroupKey, GroupObject] = {}
        self.pending: dict[str, PendingPod] = {}
        state = self.builder.state
        device_work = self.build_device_work()
        self.queue = Queue(state, device_work=device_work)
        self.activity = Activity()
        self.changed = asyncio.Event()
        self.freeze = Freeze()
        self.stepwise = Stepwise(clock)
        self.group_events = GroupEvents(self.events, state, self.observed)
        self.expected, self.held_places = self.build_holding()
        self.reporter = Reporter(
            self.api,
            state,
            self.group_events,
            self.activity,
            clock=clock,
            config=Status(),
            observed=self.observed,
            pending=self.pending,
            freeze=self.freeze,
            held_places=self.held_places,
        )
        self.times = GangTimes(state, clock)
        self.allocations, self.claim_releases = self.build_allocations()
        self.binder = Binder(
            self.api,
            state,
            self.queue,
            self.group_events,
            self.activity,
            clock=clock,
            workers=workers,
            timeout=timeout,
            on_change=self.changed.set,
            on_refused=self.reporter.refused,
            volume_binder=VolumeBinder(self.api, state, clock, claim_news, self.freeze),
            allocations=self.allocations,
            claim_releases=self.claim_releases,
            freeze=self.freeze,
            times=self.times,
            expected=self.expected,
        )
        config = starvation or Starvation()
        self.starvation = StarvationMonitor(
            state,
            self.queue,
            clock=clock,
            config=config,
            stepwise=self.stepwise,
            budget=self.budget,
        )
        self.cycle = Cycle(
            state,
            self.queue,
            self.binder,
            self.reporter,
            clock=clock,
            stepwise=self.stepwise,
            budget=self.budget,
            starvation=self.starvation,
            times=self.times,
            device_work=device_work,
            claim_releases=self.claim_releases,
            held_places=self.held_places,
            log_decisions=True,
        )
        self.loop = self.loop_of(self.cycle)
        self.fence = Fence(clock, 1, float("inf"))

    def build_state(self, claim_changed: Callable[[ClaimKey], None]) -> StateBuilder:
        """What the tests fill the state with."""
        return StateBuilder(claim_changed)

    def build_api(self) -> FakeApi:
        """The API server of the tests."""
        return FakeApi(self.builder)

    def build_device_work(self) -> DeviceWork | None:
        """What limits the work on devices; most tests have none."""
        return None

    def build_allocations(self) -> tuple[Allocations | None, ClaimReleases | None]:
        """What writes ResourceClaims, and gives them back; most tests have none."""
        return None, None

    def build_holding(self) -> tuple[ExpectedPods | None, HeldPlaces | None]:
        """What holds places for pods that do not exist yet; most tests have none."""
        return None, None

    def budget(self) -> SearchBudget:
        return SearchBudget(pause=self.stepwise.pause)

    def loop_of(self, cycle: Cycle) -> Loop:
        return Loop(
            cycle,
            self.queue,
            self.clock,
            activity=self.activity,
            changed=self.changed,
            freeze=self.freeze,
        )

    @contextlib.asynccontextmanager
    async def leading(self, *, unsettled: str = "") -> AsyncIterator[None]:
        """Decide, bind and report inside the block.

        In the end things must have come to rest, unless `unsettled` says why they have not.
        """
        tasks = [asyncio.ensure_future(part) for part in self._parts()]
        try:
            yield
            if not unsettled:
                await self._comes_to_rest()
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for result in results:
                if not isinstance(result, asyncio.CancelledError):
                    assert result is None, result

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        return [self.loop.run(), self.binder.run(self.fence), self.reporter.run(self.fence)]

    async def _comes_to_rest(self) -> None:
        """Once all is told, deciding everything five times over changes nothing."""
        await self.settle(1)
        before = self._done()
        for _ in range(5):
            self.builder.state.reconsider_all()
            await self.settle(1)
        after = self._done()
        changed = {
            what: (said, after[what]) for what, said in before.items() if said != after[what]
        }
        assert not changed, "deciding everything again has changed something"

    def _done(self) -> dict[str, object]:
        """All that was ever asked of the API server, and where pods are."""
        api = self.api
        return {
            "where": {uid: pod.node for uid, pod in self.builder.state.pods.items()},
            "asked to bind": list(api.attempts),
            "deleted": list(api.deleted),
            "patched": list(api.patches),
            "stored": list(api.stored),
            "told": list(self.events.told),
        }

    async def settle(self, seconds: float = 0.0) -> None:
        """Let everything that can happen happen, and so much time pass."""
        self.changed.set()
        for _ in range(5):
            await settle()
            await self.clock.advance(0.002)  # the loop's pause between two looks
        step = 0.25 if seconds <= 30 else 1.0
        for _ in range(int(seconds / step)):
            await self.clock.advance(step)
            self.changed.set()
        for _ in range(10):
            await settle()

    def observe(self, *keys: GroupKey, owner: dict[str, Any] | None = None) -> None:
        """The group objects as the watch shows them, without a status."""
        for key in keys:
            meta = Metadata(
                name=key[2], namespace=key[1], uid=f"uid-{key[2]}", resource_version="1",
                generation=1,
            )  # fmt: skip
            self.observed[key] = GroupObject(meta)

    def observe_pods(self) -> None:
        """Every waiting pod as the watch shows it, without conditions."""
        for pod in self.builder.state.pods.values():
            if pod.waiting:
                self.pending[pod.info.uid] = PendingPod("1", ())

    def condition(self, key: GroupKey) -> tuple[str, str, str]:
        """(status, reason, message) of the group's condition as last written."""
        status = self.observed[key].status or {}
        for condition in status.get("conditions", ()):
            return (condition["status"], condition["reason"], condition["message"])
        return ("", "", "")

    def summary(self, key: GroupKey) -> str:
        """The summary of the group's blocker as last written."""
        status = self.observed[key].status or {}
        return str(status.get("blocker", {}).get("summary", ""))
