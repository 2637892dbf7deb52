"""Muster and kube-scheduler allocate from the same pools; a ledger records the order.

The API server does not compare claims, and kube-scheduler does not check after its decision. So
both may allocate the same device. If Muster is second, no pod starts with it and Muster deallocates
it. If kube-scheduler is second, its pod keeps the device, and Muster reports it.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from e2e.harness.devices import (
    CLAIM_TEMPLATES,
    CLAIMS,
    Devices,
    claim_template,
    request,
    with_claims,
)
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members
from e2e.harness.objects import POD_GROUPS, Json, pod, pod_spec
from e2e.harness.support.waiting import eventually
from kube.client.meta import RawObject, decode_raw
from kube.client.resources import PODS
from kube.informers.cache import Cache
from kube.informers.reflector import Reflector

DEFAULT: Final = "default-scheduler"
LABEL: Final = "test.muster.dev/theirs"
_TURN: Final = 6.0
"""Seconds after which a workload that does not run is deleted to free its devices."""

KINDS: Final = ("plain", "share", "part", "whole")
"""Complete devices, shares of two units of one, and parts that use their pool's counters.

A pool has no parts while a pod uses the complete device.
"""

PER_NODE: Final = {"plain": 3, "share": 2, "part": 2}
"""Number of pods per node for which it has devices of a kind.

A node with parts has none for the complete device.
"""

SINCE_SHARES: Final = "1.36"
"""The first Kubernetes version with shares and counters by default; older ones drop the fields."""

PARTS: Final = {"part0": 1, "part1": 1, "whole": 2}
UNITS: Final = 4


async def publish(env: Environment, devices: Devices, nodes: int) -> None:
    """Create nodes with devices of all kinds, and a template for each kind."""
    for kind in KINDS:
        selector = f'device.attributes["{devices.driver}"].kind == "{kind}"'
        more: Json = {"capacity": {"requests": {"units": "2"}}} if kind == "share" else {}
        wanted = request(await devices.add_class(kind, selector), **more)
        await env.create(CLAIM_TEMPLATES, claim_template(kind, wanted))
    plain = [_device(f"plain{at}", "plain") for at in range(PER_NODE["plain"])]
    capacity = {"units": {"value": str(UNITS)}}
    shared = _device("shared", "share", allowMultipleAllocations=True, capacity=capacity)
    parts = [_part(name, count) for name, count in PARTS.items()]
    counters = [{"name": "set", "counters": {"parts": {"value": "2"}}}]
    for _ in range(nodes):
        node = await env.add_node(cpu=32)
        await devices.publish(node, [*plain, shared, *parts], counters=counters)


def _device(name: str, kind: str, **more: object) -> Json:
    return {"name": name, "attributes": {"kind": {"string": kind}}, **more}


def _part(name: str, parts: int) -> Json:
    takes = {"counterSet": "set", "counters": {"parts": {"value": str(parts)}}}
    return _device(name, name.rstrip("01"), consumesCounters=[takes])


@dataclass(frozen=True)
class Held:
    """The devices of a claim since a version."""

    version: int
    name: str
    pool: str
    device: str
    ours: bool
    units: int = 0


@dataclass
class Ledger:
    """Every allocation that a watch of the claims delivers, in the order of their versions.

    `doubled` are those that exceeded the remaining devices when they arrived; `started` the pods
    (by UID) that have a node.
    """

    held: dict[str, Held] = field(default_factory=dict)
    doubled: dict[str, Held] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    allocations: int = 0
    lost: int = 0
    theirs_second: int = 0
    faults: list[str] = field(default_factory=list)

    def claim(self, old: RawObject | None, new: RawObject | None) -> None:
        """Handle a changed claim; a deleted one uses no devices."""
        there = new or old
        assert there is not None
        name, owner = there.metadata.name, there.raw["metadata"]["ownerReferences"][0]
        status = (new.raw.get("status") or {}) if new is not None else {}
        if "allocation" not in status:
            self._freed(name, owner["uid"])
        elif name not in self.held:
            (result,) = status["allocation"]["devices"]["results"]
            units = int((result.get("consumedCapacity") or {}).get("units", 0))
            ours = owner["name"].startswith("ours")
            version = int(there.metadata.resource_version)
            self._allocated(Held(version, name, result["pool"], result["device"], ours, units))

    def pod(self, old: RawObject | None, new: RawObject | None) -> None:
        """Handle a changed pod."""
        if new is not None and new.raw["spec"].get("nodeName"):
            self.started.add(new.metadata.uid)

    def _allocated(self, new: Held) -> None:
        before = [one for one in self.held.values() if one.pool == new.pool]
        self.held[new.name] = new
        self.allocations += 1
        if new.device == "shared":
            full = sum(one.units for one in before) + new.units > UNITS
        else:
            taken = {one.device for one in before}
            parts = sum(PARTS.get(name, 0) for name in taken | {new.device})
            full = new.device in taken or (new.device in PARTS and parts > PARTS["whole"])
        if full:
            self.doubled[new.name] = new
            self.theirs_second += not new.ours

    def _freed(self, name: str, owner: str) -> None:
        self.held.pop(name, None)
        late = self.doubled.pop(name, None)
        if late is not None and late.ours:
            self.lost += 1
            if owner in self.started:
                self.faults.append(f"a pod started with {late}")

    def standing(self) -> list[Held]:
        """Return our second allocations that still exist."""
        return [one for one in self.doubled.values() if one.ours]


@asynccontextmanager
async def followed(env: Environment) -> AsyncIterator[Ledger]:
    """Follow this flow's claims and pods with a ledger."""
    ledger = Ledger()
    tasks = []
    for resource, listener in ((CLAIMS, ledger.claim), (PODS, ledger.pod)):
        cache: Cache[RawObject] = Cache()
        cache.subscribe(listener)
        reflector = Reflector(env.client, resource, cache, decode=decode_raw, namespace=env.name)
        tasks.append(asyncio.ensure_future(reflector.run()))
        await reflector.synced.wait()
    try:
        yield ledger
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class Crowd:
    """Our gangs and their single pods, created and deleted; `ran` counts those that ran."""

    def __init__(
        self, env: Environment, rng: random.Random, seconds: float, kinds: Sequence[str] = KINDS
    ) -> None:
        """Create a crowd that requests devices of these kinds."""
        self._kinds = kinds
        self.ran: Counter[str] = Counter()
        self._env = env
        self._rng = rng
        self._clock = asyncio.get_running_loop()
        self._ends = self._clock.time() + seconds
        self._numbers = itertools.count()

    async def come_and_go(self, gangs: int, pods: int) -> None:
        """Run that many gangs and pods at a time until the time is over."""
        async with asyncio.TaskGroup() as group:
            for _ in range(gangs):
                group.create_task(self._repeat("ours", 3))
            for _ in range(pods):
                group.create_task(self._repeat("theirs", 1))

    async def _repeat(self, whose: str, count: int) -> None:
        while self._clock.time() < self._ends:
            name = f"{whose}{next(self._numbers)}"
            await self.come(name, self._rng.choice(self._kinds), count)
            self.ran[whose] += await self._runs(name, count)
            await self.go(name, count)

    async def come(self, name: str, kind: str, count: int) -> None:
        """Create one of our gangs, or one of their pods; each pod has its own claim."""
        spec = using(self._env.name, kind)
        if name.startswith("ours"):
            await leaf(self._env, name, count, of_pod=spec)
            return
        made = pod(name, self._env.name, scheduler=DEFAULT)
        made["metadata"]["labels"] = {LABEL: name}
        made["spec"] |= spec
        await self._env.create(PODS, made)

    async def go(self, name: str, count: int) -> None:
        """Delete the gang or pod, and wait until it is deleted."""
        if name.startswith("ours"):
            for at in range(count):
                await self._env.delete(PODS, f"{name}-{at}")
            await self._env.delete(POD_GROUPS, name)
        else:
            await self._env.delete(PODS, name)
        await self._env.has_pods(selector(name), 0)

    async def _runs(self, name: str, count: int) -> bool:
        """Return True if all pods ran within the time limit."""

        async def probe() -> bool:
            return await self._env.running(selector(name)) == count

        try:
            await eventually(probe, f"{name} to run", _TURN)
        except TimeoutError:
            # It may be about to start: then all of its pods start.
            if await self._env.bound(selector(name)):
                await self._env.runs(selector(name), count)
                return True
            return False
        return True


def using(room: str, kind: str) -> Json:
    """Return the spec of a pod with its own claim for one device of the kind."""
    entries = {"device": {"resourceClaimTemplateName": kind}}
    return with_claims(pod_spec(room), entries)


def selector(name: str) -> str:
    """Return the selector of a gang's pods, or of one of their pods."""
    return members(name) if name.startswith("ours") else f"{LABEL}={name}"
