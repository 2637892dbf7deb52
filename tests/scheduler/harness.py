"""A complete scheduler with a fake API server, in virtual time.

`Harness` wires the real queue, cycle, binder and reporter. Only the API server is a fake, which
accepts Bindings and delivers them to the state as a watch would.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from api.constants import RESERVATION
from kube.base.clock import ServerClock
from kube.client.meta import Json
from kube.client.patch import Operation
from kube.client.resources import PODS, PVCS, PVS
from kube.concurrency.freeze import Freeze
from kube.concurrency.stepwise import Stepwise
from kube.leader.election import Fence
from scheduler.app import PartOfATerm
from scheduler.binding.binder import Binder, PreBind
from scheduler.binding.reports import Reports
from scheduler.binding.volume_binder import VolumeBinder
from scheduler.claims.allocation_writer import AllocationWriter
from scheduler.claims.claim_releases import ClaimReleases
from scheduler.core.search.place import SearchBudget
from scheduler.core.values.model import ClaimKey, GroupKey, PodInfo
from scheduler.cycle.cycle import Cycle
from scheduler.cycle.loop import Loop
from scheduler.cycle.parts import CycleParts, NoClaimReleases, NoDeviceLimit, NoHeldPlaces
from scheduler.cycle.start_limits import StartLimits
from scheduler.cycle.starvation_monitor import StarvationMonitor
from scheduler.decoding.objects import GroupObject, decode_group, decode_pod
from scheduler.events.group_events import GroupEvents
from scheduler.expected.pods import ExpectedPods
from scheduler.held_places.held_places import HeldPlaces
from scheduler.queue.scheduling_queue import Queue
from scheduler.queue.shell import Shell
from scheduler.status.reporter import Reporter
from scheduler.support.activity import Activity
from scheduler.support.config import Starvation, Status
from scheduler.support.device_budget import DeviceWork
from scheduler.support.kinds import GROUP_RESOURCES
from scheduler.support.wait_times import GangTimes
from scheduler.watch.claim_notifications import ClaimNews
from scheduler.watch.event_handlers import PendingPod
from tests.scheduler.state_builder import StateBuilder
from tests.support.clock import FakeClock, settle
from tests.support.events import RecordedEvents
from tests.support.memory_api import Event, MemoryApi, Request

Failure = Callable[[str], Exception | None]


class SchedulerApi(MemoryApi):
    """The API server of a harness; its pods and volumes are those of the state.

    Before a request is carried out, `fail_bind` and similar hooks may return an error for a name,
    and bindings of the pods in `delayed` wait for their events. With `binds_volumes` a claim is
    bound to the volume that is patched for it. With `deliver` Bindings are delivered at once.
    """

    fail_bind: Failure = staticmethod(lambda _name: None)
    fail_delete: Failure = staticmethod(lambda _name: None)
    fail_patch: Failure = staticmethod(lambda _name: None)
    fail_store: Callable[[Json], Exception | None] = staticmethod(lambda _obj: None)
    before_patch: Callable[[], Awaitable[None]] | None = None
    binds_volumes = True
    deliver = True
    finalizers: Sequence[str] = ()
    """The finalizers of all pods."""

    def __init__(self, builder: StateBuilder, pending: dict[str, PendingPod] | None = None) -> None:
        super().__init__()
        self.builder = builder
        self.bound: dict[str, str] = {}
        self.deleted: list[str] = []
        self.patches: list[tuple[str, str, list[Operation]]] = []
        self.attempts: list[str] = []
        self.log: list[str] = []
        self.delayed: dict[str, asyncio.Event] = {}
        self.reservations = self.view(RESERVATION)
        self._pending = pending if pending is not None else {}
        self.on(self.before)
        self.on(self.after, answered=True)
        self.follow(PODS, self.pod_changed)
        self.follow(PVS, self._volume_changed)

    def info(self, name: str) -> PodInfo | None:
        pods = self.builder.state.pods
        if (usual := pods.get(f"uid-{name}")) is not None:
            return usual.info
        return next((pod.info for pod in pods.values() if pod.info.name == name), None)

    async def before(self, request: Request) -> None:
        verb, name, error = request.verb, request.name, None
        self.show(request.collection, request.namespace, name)
        if request.subresource == "binding":
            if name in self.delayed:
                await self.delayed[name].wait()
            self.attempts.append(name)
            error = self.fail_bind(name)
        elif verb == "create":
            error = self.fail_store(request.body)
        elif verb == "delete" and request.collection == "pods":
            error = self.fail_delete(name)
        elif verb == "patch":
            if self.before_patch is not None:
                await self.before_patch()
            error = self.fail_patch(name)
        if error is not None:
            raise error

    async def after(self, request: Request) -> None:
        if request.subresource == "binding":
            self.log.append(f"bind {request.name}")
            self.bound[request.name] = request.body["target"]["name"]
            if self.deliver:
                self.deliver_binding(request.name)
        elif request.verb == "create":
            self.log.append(f"store {request.name}")
        elif request.verb == "patch":
            kind = KINDS[request.collection]
            self.patches.append((kind, request.name, request.body))
        elif request.verb == "delete" and request.collection == "pods":
            self.deleted.append(request.name)

    def show(self, collection: str, namespace: str, name: str) -> None:
        """Store an object that a request is about, from the state."""
        if collection == "pods":
            self.show_pod(name)
        elif collection == PVS.full_name:
            self._show_volume(name)
        elif collection in KINDS and self.stored(KINDS_OF[collection], name, namespace) is None:
            obj = {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {}}
            self.put(KINDS_OF[collection], obj, namespace, told=False)

    def show_pod(self, name: str) -> None:
        info = self.info(name)
        namespace = "ns" if info is None else info.namespace
        stored = self.stored(PODS, name, namespace)
        if stored is not None and (info is None or stored["metadata"]["uid"] != info.uid):
            self.drop(PODS, name, namespace, told=False)
            stored = None
        if info is not None and stored is None:
            meta = {"name": name, "uid": info.uid, "finalizers": list(self.finalizers)}
            spec = {"nodeName": info.node} if info.node else {}
            pod = {"metadata": meta, "spec": spec, "status": {"phase": info.phase}}
            self.put(PODS, pod, namespace, told=False)

    def _show_volume(self, name: str) -> None:
        volume, stored = self.builder.state.volumes.volumes.get(name), self.stored(PVS, name)
        if volume is None and stored is not None:
            self.drop(PVS, name, told=False)
        if volume is None:
            return
        claim = None
        if volume.claim is not None:
            namespace, of = volume.claim
            claim = {"namespace": namespace, "name": of, "uid": volume.claim_uid}
        said = _said_of_volume(stored) if stored is not None else None
        if said != (claim, volume.terminating):
            meta: Json = {"name": name, "uid": f"uid-{name}"}
            if volume.terminating:
                meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["in-use"]}
            spec = {"claimRef": claim} if claim is not None else {}
            self.put(PVS, {"metadata": meta, "spec": spec}, told=False)

    def pod_changed(self, event: Event, _kind: str) -> None:
        meta = event.obj["metadata"]
        if meta["uid"] in self._pending:
            self._pending[meta["uid"]] = PendingPod.of(decode_pod(event.raw))
        if "deletionTimestamp" in meta and not meta.get("finalizers"):  # it ends at once
            self.builder.state.remove_pod(meta["uid"])

    def bound_elsewhere(self, name: str, node: str) -> None:
        """Bind a pod as another scheduler would; its event has not arrived yet."""
        self.show_pod(name)
        (pod,) = [it for it in self.all(PODS) if it["metadata"]["name"] == name]
        self.put(PODS, pod | {"spec": pod["spec"] | {"nodeName": node}}, told=False)
        self.bound[name] = node

    def deliver_binding(self, name: str) -> None:
        """Deliver the watch event of a binding."""
        info = self.info(name)
        assert info is not None
        self.builder.state.set_pod(replace(info, node=self.bound[name], phase="Running"))

    def _volume_changed(self, event: Event, _kind: str) -> None:
        storage, ref = self.builder.state.volumes, event.obj["spec"]["claimRef"]
        name, key = event.obj["metadata"]["name"], (ref["namespace"], ref["name"])
        volume = storage.volumes[name]
        storage.set_volume(replace(volume, claim=key, claim_uid=ref["uid"], available=False))
        if self.binds_volumes:
            storage.set_claim(replace(storage.claims[key], volume=name))


def _said_of_volume(obj: Json) -> tuple[Json | None, bool]:
    """Return the claim of a volume, and True if the volume is being deleted."""
    ref = obj["spec"].get("claimRef")
    claim = None if ref is None else {key: ref[key] for key in ("namespace", "name", "uid")}
    return claim, "deletionTimestamp" in obj["metadata"]


KINDS_OF = {it.full_name: it for it in (*GROUP_RESOURCES.values(), PVCS, PODS, PVS)}
KINDS = {name: resource.kind for name, resource in KINDS_OF.items()}


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
        self.pending: dict[str, PendingPod] = {}
        self.api = self.status_api = self.build_api()
        self.events = RecordedEvents()
        self.observed: dict[GroupKey, GroupObject] = {}
        state = self.builder.state
        device_work = self.build_device_work()
        self.queue = Queue(state, device_work=device_work)
        self.activity = Activity()
        self.changed = asyncio.Event()
        self.freeze = Freeze()
        self.shell = Shell(state, self.queue, clock, self.activity, self.freeze, self.changed.set)
        self.stepwise = Stepwise(clock)
        self.bound_events = RecordedEvents()
        self.group_events = GroupEvents(self.events, state, self.observed, self.bound_events)
        self.expected, self.held_places = self.build_holding()
        self.reporter = Reporter(
            self.api,
            self.shell,
            self.group_events,
            config=Status(),
            observed=self.observed,
            pending=self.pending,
            held_places=self.held_places,
        )
        self.times = GangTimes(state, clock)
        self.allocations, self.claim_releases = self.build_allocations()
        self.binder = Binder(
            self.api,
            self.shell,
            Reports(self.group_events, self.times, self.reporter.refused),
            PreBind(
                VolumeBinder(self.api, state, clock, claim_news, self.freeze),
                self.allocations,
                self.claim_releases,
                self.expected,
            ),
            workers=workers,
            timeout=timeout,
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
        self.start_limits = StartLimits(state, clock, self.observed, self.reporter.last_refusal)
        self.cycle = Cycle(
            state,
            self.queue,
            CycleParts(
                self.binder,
                self.reporter,
                starvation=self.starvation,
                start_limits=self.start_limits,
                times=self.times,
                device_work=device_work or NoDeviceLimit(),
                claim_releases=self.claim_releases or NoClaimReleases(),
                held_places=self.held_places or NoHeldPlaces(),
            ),
            clock=clock,
            stepwise=self.stepwise,
            budget=self.budget,
            log_decisions=True,
        )
        self.loop = self.loop_of(self.cycle)
        self.fence = Fence(clock, 1, float("inf"))

    def build_state(self, claim_changed: Callable[[ClaimKey], None]) -> StateBuilder:
        """Return the builder of the state for the tests."""
        return StateBuilder(claim_changed)

    def build_api(self) -> SchedulerApi:
        """Return the API server of the tests."""
        return SchedulerApi(self.builder, self.pending)

    def build_device_work(self) -> DeviceWork | None:
        """Return the limit of device work; most tests have none."""
        return None

    def build_allocations(self) -> tuple[AllocationWriter | None, ClaimReleases | None]:
        """Return the writers of ResourceClaims; most tests have none."""
        return None, None

    def build_holding(self) -> tuple[ExpectedPods | None, HeldPlaces | None]:
        """Return the handlers of expected pods and held places; most tests have none."""
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

        At the end the scheduler must have settled, unless `unsettled` gives the reason.
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

    def parts_of_a_term(self) -> list[PartOfATerm]:
        """Return the parts that are reset when a term begins."""
        held = [self.held_places] if self.held_places is not None else []
        parts = (self.activity, self.queue, self.binder, self.starvation, self.cycle)
        return [*parts, self.start_limits, self.reporter, *held]

    async def new_term(self) -> None:
        """Begin a term as `Scheduler` does, after another leader."""
        for part in self.parts_of_a_term():
            part.reset()
        await self.binder.recover(self.fence)
        self.builder.state.reconsider_all()

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        return [self.loop.run(), self.binder.run(self.fence), self.reporter.run(self.fence)]

    async def _comes_to_rest(self) -> None:
        """Check that after all reports, five repeated decisions change nothing."""
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
        """Return the counts of all requests to the API server, and the nodes of pods."""
        api = self.api
        return {
            "where": {uid: pod.node for uid, pod in self.builder.state.pods.items()},
            "asked to bind": list(api.attempts),
            "deleted": list(api.deleted),
            "patched": list(api.patches),
            "stored": list(api.reservations),
            "told": list(self.events.told),
        }

    async def settle(self, seconds: float = 0.0) -> None:
        """Run everything that is due, and advance the time."""
        self.changed.set()
        for _ in range(5):
            await settle()
            await self.clock.advance(0.002)  # the loop's pause between two checks
        step = 0.25 if seconds <= 30 else 1.0
        for _ in range(int(seconds / step)):
            await self.clock.advance(step)
            self.changed.set()
        for _ in range(10):
            await settle()

    def observe(self, *keys: GroupKey, owner: dict[str, Any] | None = None) -> None:
        """Add the group objects as the watch delivers them, without a status."""
        for key in keys:
            meta = {"name": key[2], "uid": f"uid-{key[2]}", "generation": 1}
            obj: Json = {"metadata": meta, "spec": {}}
            stored = self.status_api.put(GROUP_RESOURCES[key[0]], obj, key[1])
            self.observed[key] = decode_group(msgspec.json.encode(stored))

    def observe_pods(self) -> None:
        """Add every pending pod as the watch delivers it, without conditions."""
        for pod in self.builder.state.pods.values():
            if pod.waiting:
                self.observe_pod(pod.info)

    def observe_pod(self, info: PodInfo) -> None:
        self.status_api.show_pod(info.name)
        stored = self.status_api.stored(PODS, info.name, info.namespace)
        assert stored is not None
        self.pending[info.uid] = PendingPod(stored["metadata"]["resourceVersion"], ())

    def condition(self, key: GroupKey) -> tuple[str, str, str]:
        """Return (status, reason, message) of the group's condition as last written."""
        status = self.observed[key].status or {}
        for condition in status.get("conditions", ()):
            return (condition["status"], condition["reason"], condition["message"])
        return ("", "", "")

    def summary(self, key: GroupKey) -> str:
        """Return the summary of the group's blocker as last written."""
        status = self.observed[key].status or {}
        return str(status.get("blocker", {}).get("summary", ""))
