"""The scheduler and the controllers with all parts, on an API server in memory, in virtual time."""

import asyncio
import contextlib
import copy
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from prometheus_client import REGISTRY

from api.features import USUAL, FeatureGates
from controllers.app import ControllerProcess
from e2e.faults.hostile.steps import COMPOSITES, GROUPS, KINDS, Step
from kube.base.errors import ApiError
from kube.base.settings import LeaderElection
from kube.client.meta import Json
from kube.client.resources import (
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Resource,
)
from scheduler.app import Scheduler
from scheduler.support.config import Config, Status
from tests.support.clock import FakeClock, settle
from tests.support.memory_api import MemoryApi

TENANT: Final = "mallory"
CALM: Final = "calm"
"""The namespace of the other tenant, which requests gangs all the time."""

GANG: Final = 4
BOUND_WITHIN: Final = 5.0
CLASSES: Final = {
    "hostile-high": (1_000_000, "PreemptLowerPriority"),
    "hostile-low": (-5, "PreemptLowerPriority"),
    "hostile-never": (500, "Never"),
}
_ROOM: Final = "calm.example/room"
_FAILURES: Final = REGISTRY.restricted_registry(["muster_quarantined_objects", "muster_failing"])
_ZONE: Final = "hostile.example/zone"
_ODD_LABELS: Final = {"hostile.example/k0": "v0", "hostile.example/number": "9" * 30}
_STEP: Final = 0.25
_PAUSE: Final = 100
_ELECTION: Final = LeaderElection()
_CONFIG: Final = Config(status=Status(delay_seconds=0.1, busy_seconds=0.5, pods_seconds=1))


_Labels = tuple[tuple[str, str], ...]


class HarmError(AssertionError):
    """A tenant affected another one, ended a process, or leaked state."""


class Processes:
    """The processes: `start` first, `stop` at the end; `carry_out` runs a tenant's steps.

    `gates` are the enabled feature gates.
    """

    def __init__(self, gates: FeatureGates = USUAL) -> None:
        self.clock = FakeClock()
        self.client = MemoryApi(self.clock, served=(PODS, SECRETS, STATEFUL_SETS))
        self.scheduler = Scheduler(self.client, _CONFIG, _ELECTION, clock=self.clock, gates=gates)
        self.controllers = ControllerProcess(self.client, _ELECTION, clock=self.clock, gates=gates)
        self.admitted = 0
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stop = asyncio.Event()
        self._gangs = 0
        self._before: Json = {}
        self._failed: dict[_Labels, float] = {}

    async def start(self) -> None:
        # The gauges are those of the complete test process: other tests may have left entries.
        self._failed = dict(_failing())
        for name in (TENANT, CALM, "muster-system"):
            self.client.add(NAMESPACES, {"metadata": {"name": name}})
        for name, (value, policy) in CLASSES.items():
            made = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            self.client.add(PRIORITY_CLASSES, made)
        storage = {"metadata": {"name": "hostile-later"}, "provisioner": "hostile.example"}
        storage["volumeBindingMode"] = "WaitForFirstConsumer"
        self.client.add(STORAGE_CLASSES, storage)
        for at in range(2):
            self._add_node(f"hostile-{at}", _ODD_LABELS | {_ZONE: f"z{at}"}, "hostile")
            self._add_node(f"calm-{at}", {_ROOM: "calm"}, "calm")
        self._run("scheduler", self.scheduler.run(self._stop))
        self._run("controllers", self.controllers.run(self._stop))
        await self.pass_time(2)
        self._before = await self.snapshot()

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def carry_out(self, steps: Sequence[Step]) -> None:
        """Carry out the steps in order, advancing the time in between; skip rejected ones."""
        for number, step in enumerate(steps, 1):
            if number % _PAUSE == 0 or number == len(steps):
                await self.pass_time(_STEP)
            with contextlib.suppress(ApiError):
                self._carry_out(step)
                self.admitted += 1
        await self.pass_time(1)
        self.check_failures()

    async def another_gang_runs(self) -> None:
        """Raise HarmError unless a gang of the other tenant is bound in time."""
        self._gangs += 1
        name = f"gang-{self._gangs}"
        group = {
            "metadata": {"name": name},
            "spec": {"schedulingPolicy": {"gang": {"minCount": GANG}}},
        }
        self._put(GROUPS, group, CALM)
        for at in range(GANG):
            self._put(PODS, _member(f"{name}-{at}", name), CALM)
        waited = 0.0
        while not self._bound(name):
            if waited >= BOUND_WITHIN:
                raise HarmError(f"{name} is not bound after {waited:g} s")
            await self.pass_time(_STEP)
            waited += _STEP
        for at in range(GANG):
            self.client.remove(PODS, f"{name}-{at}", CALM, grace=0)
        self.client.remove(GROUPS, name, CALM)

    async def all_goes(self) -> None:
        """Delete all of the tenant's objects. Raises HarmError for state that a process keeps."""
        for _ in range(40):
            self._delete_all(TENANT)
            self._delete_all(CALM)
            self.client.end_pods()
            await self.pass_time(_STEP)
            if not any(self.client.all(kind) for kind in KINDS):
                break
        else:
            left = {k.full_name: self.client.all(k) for k in KINDS}
            raise HarmError(
                f"objects stay: {json.dumps({k: v for k, v in left.items() if v})[:2000]}"
            )
        await self.pass_time(1)
        after = await self.snapshot()
        odd = {key: value for key, value in after.items() if value != self._before[key]}
        if odd:
            before = {key: self._before[key] for key in odd}
            raise HarmError(f"left behind: {str(odd)[:2000]}, before: {str(before)[:500]}")

    async def pass_time(self, seconds: float) -> None:
        """Advance the time. Raises HarmError if a process has ended."""
        for _ in range(round(seconds / _STEP)):
            await settle()
            await self.clock.advance(_STEP)
            self.client.end_pods()
            self.check()

    def check(self) -> None:
        """Raise HarmError if a process has ended, or had an unexpected error."""
        for name, task in self._tasks.items():
            if task.done():
                raise HarmError(f"the {name} has ended") from task.exception()

    def check_failures(self) -> None:
        """Raise HarmError for an object or key whose handler raised, even if that was caught."""
        failed = [labels for labels, count in _failing() if count > self._failed.get(labels, 0)]
        if failed:
            raise HarmError(f"errors about {failed}")

    async def snapshot(self) -> Json:
        """Return the scheduler's state without times and parts that depend on the event order."""
        page: Json = json.loads(b"".join(await self.scheduler.snapshot()))
        for key in ("limits", "vacant", "nodes", "units"):
            page.pop(key)
        return page

    def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.ensure_future(work)

    def _carry_out(self, step: Step) -> None:
        kind = step.resource
        if step.verb == "create":
            self._put(kind, step.body, TENANT)
        elif step.verb == "patch":
            self.client.change(kind, step.name, step.body, TENANT)
        else:
            grace = step.body.get("gracePeriodSeconds")
            self.client.remove(kind, step.name, TENANT, grace=grace)

    def _put(self, kind: Resource, obj: Json, namespace: str) -> None:
        obj = copy.deepcopy(obj)
        admit = {PODS: _admit_pod, GROUPS: _admit_group, COMPOSITES: _admit_group}
        admit.get(kind, lambda _: None)(obj["spec"])
        self.client.add(kind, obj, namespace)

    def _delete_all(self, namespace: str) -> None:
        """Remove the tenant's own finalizers, which it might keep, and delete its objects."""
        for kind in KINDS:
            for obj in self.client.all(kind, namespace):
                meta = obj["metadata"]
                kept = [each for each in meta.get("finalizers") or () if "muster" in each]
                if len(kept) != len(meta.get("finalizers") or ()):
                    patch = {"metadata": {"finalizers": kept}}
                    self.client.change(kind, meta["name"], patch, namespace)
                with contextlib.suppress(ApiError):
                    self.client.remove(kind, meta["name"], namespace, grace=0)

    def _bound(self, gang: str) -> bool:
        members = {f"{gang}-{at}" for at in range(GANG)}
        pods = self.client.all(PODS, CALM)
        return members == {
            pod["metadata"]["name"]
            for pod in pods
            if pod["spec"].get("nodeName") and pod["metadata"]["name"] in members
        }

    def _add_node(self, name: str, labels: dict[str, str], taint: str) -> None:
        room = {"cpu": "32", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        if taint == "hostile":
            room["cpu"] = "4"
            room["hostile.example/offered"] = "4"
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]},
            "status": {"allocatable": room, "capacity": room},
        }
        self.client.add(NODES, node)


Admit = Callable[[Json], None]


def _failing() -> list[tuple[_Labels, float]]:
    """Return skipped or failing objects, with the labels of their metric."""
    return [
        (tuple(sorted(sample.labels.items())), sample.value)
        for metric in _FAILURES.collect()
        for sample in metric.samples
    ]


def _admit_pod(spec: Json) -> None:
    """Set the fields that the API server's own admission adds."""
    _admit_group(spec)
    spec.setdefault("priority", 0)
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"


def _admit_group(spec: Json) -> None:
    name = spec.get("priorityClassName")
    if name in CLASSES:
        spec["priority"], policy = CLASSES[name]
        spec.setdefault("preemptionPolicy", policy)


def _member(name: str, group: str) -> Json:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "schedulerName": "muster-scheduler",
        "containers": [container],
        "nodeSelector": {_ROOM: "calm"},
        "tolerations": [{"key": "calm", "operator": "Exists"}],
    }
    labels = {"scheduling.muster.dev/pod-group": group}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}
