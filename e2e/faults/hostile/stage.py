"""The stage of the hostile suites: nodes, classes, a hostile tenant and one with real work.

There are several kinds of nodes, each with a taint that only its pods tolerate: those of the other
tenant, those of the hostile one, and some unused.
"""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from e2e.faults.hostile.steps import Step, shown
from e2e.faults.hostile.tenants import OtherTenant, Tenant, tenant
from e2e.faults.hostile.vitals import Vitals, stalled_seconds
from e2e.harness.clusters import nodes
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.muster import SCHEDULER, Muster
from e2e.harness.objects import Json, pod_group
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from kube.client.resources import NAMESPACES, NODES, PRIORITY_CLASSES

BOUND_WITHIN: Final = 5.0
"""Seconds that another tenant's gang may always wait; TIMES_SLOWER allows more.

The time in which processes wait for a CPU does not count, up to twice as much: then the machine is
busy with other suites, and BUSY is what limits Muster.
"""

BUSY: Final = 5.0
"""Maximum CPU seconds of Muster's processes while a gang of another tenant waits."""

TIMES_SLOWER: Final = 10.0
"""Maximum ratio of the wait to the usual one, or to a write without Muster's involvement."""

STALL: Final = 1.0
"""Maximum CPU seconds for which a process's event loop may block."""

GROWTH_MIB: Final = 200.0
"""Maximum growth of a process during one attack."""

_SHOWN: Final = 10_000
"""Number of characters of the requests in a report of harm."""

_ROOM: Final = "hostile.example/room"
CLASSES: Final[dict[str, Json]] = {
    "hostile-high": {"value": 1_000_000},
    "hostile-low": {"value": -5},
    "hostile-never": {"value": 500, "preemptionPolicy": "Never"},
    "calm-mid": {"value": 1000},
    "calm-high": {"value": 2_000_000},
}
_OTHERS: Final = frozenset(
    {
        "limits",
        "protection",
        "vacant",
        "nodes",
        "namespaces",
        "priorities",
        "units",
        "queue",
        "decisions",
    }
)


def on(room: str) -> Json:
    """Return the spec of pods on the nodes of one kind."""
    return {
        "nodeSelector": {_ROOM: room},
        "tolerations": [{"key": room, "operator": "Exists", "effect": "NoSchedule"}],
    }


class HarmError(AssertionError):
    """A tenant affected another one, ended a process, or leaked objects."""


@dataclass
class Stage:
    """The participants.

    `calm` binds gangs within `usual` seconds while undisturbed.

    `at_rest` is the scheduler's state without objects of either tenant.
    """

    cluster: Cluster
    muster: Muster
    admin: Rest
    hostile: list[Tenant]
    calm: OtherTenant
    usual: float = 0.0
    at_rest: Json = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)

    @property
    def mallory(self) -> Tenant:
        """The hostile tenant, for tests with one."""
        return self.hostile[0]

    @asynccontextmanager
    async def harmless(self) -> AsyncIterator[Vitals]:
        """Raise HarmError if the block, or the deletion of its objects, does harm."""
        with Vitals(self.muster) as vitals:
            try:
                yield vitals
                await self.gang_runs(vitals)
                self.check(vitals)
                await self.hostile_leave()
            except TimeoutError as error:
                self.check(vitals)
                raise HarmError(_said(error)) from error
            self.check(vitals)
        await self._nothing_is_left()

    async def hostile_leave(self, patience: float = 60.0) -> None:
        """Delete all objects of hostile tenants.

        Raises TimeoutError that names the remaining ones.
        """
        await asyncio.gather(*(each.leave(patience) for each in self.hostile))

    async def gang_runs(self, vitals: Vitals) -> float:
        """Run one gang of the other tenant. Raises HarmError if it is bound too late."""
        stalled, used = stalled_seconds(), vitals.cpu_seconds()
        try:
            took = await self.calm.gang()
        except (TimeoutError, AssertionError) as error:
            self.check(vitals)
            raise HarmError(_said(error)) from error
        stalled, used = stalled_seconds() - stalled, vitals.cpu_seconds() - used
        slowest = max(self.usual, self.calm.slowest_write)
        limit = max(BOUND_WITHIN, TIMES_SLOWER * slowest)
        limit += min(stalled, 2 * limit)
        if took > limit:
            raise HarmError(f"a gang of another tenant waited {took:.1f} s, more than {limit:.1f}")
        if used > max(BUSY, TIMES_SLOWER * self.usual):
            raise HarmError(
                f"Muster used {used:.1f} s of CPU while a gang of another tenant waited"
            )
        return took

    def check(self, vitals: Vitals) -> None:
        """Raise HarmError if a process ended, blocked, or grew too much."""
        for name in vitals.restarted():
            log = (self.muster.logs / f"{name}.log").read_text(errors="replace")
            raise HarmError(f"the {name} ended:\n{log[-3000:]}")
        for name, seconds in vitals.slowest.items():
            if seconds > STALL:
                raise HarmError(f"the {name} stood still for {seconds:.1f} s")
        for name, grown in vitals.growth().items():
            if grown > GROWTH_MIB:
                raise HarmError(f"the {name} grew by {grown:.0f} MiB")

    async def snapshot(self) -> Json:
        """Return the scheduler's state without times and other tenants' roots."""
        page: Json = json.loads(await self.page(SCHEDULER, "/debug/snapshot"))
        return {key: _without_others(value) for key, value in page.items() if key not in _OTHERS}

    async def page(self, process: str, path: str) -> bytes:
        """Return a process's own page. Raises aiohttp.ClientResponseError if it fails."""
        url = self.muster.page(process, path)
        async with aiohttp.ClientSession(trust_env=False) as session, session.get(url) as answer:
            answer.raise_for_status()
            return await answer.read()

    async def _decide_all(self) -> None:
        url = self.muster.page(SCHEDULER, "/debug/decide")
        async with aiohttp.ClientSession(trust_env=False) as session, session.post(url) as answer:
            answer.raise_for_status()

    async def recover(self) -> None:
        """Restart ended processes and delete the tenants' objects after harm."""
        with contextlib.suppress(TimeoutError):
            await self.hostile_leave(20)
        for name in (SCHEDULER, "controller", "webhook"):
            if not self.muster.running(name):
                await self.muster.start(name)
        await self.hostile_leave(120)
        await self.calm.tenant.leave(120)
        await self.muster.restart(SCHEDULER)
        await _rests(self)

    async def add_nodes(self, room: str, count: int, **capacity: str) -> list[str]:
        """Add nodes of one kind; they are removed with the stage."""
        names = [f"{room}-{len(self.nodes) + at}" for at in range(count)]
        taint = {"key": room, "effect": "NoSchedule"}
        labels = {_ROOM: room, f"{room}.example/zone": "z"}
        for name in names:
            await nodes.add(
                self.admin, name, labels=labels, capacity=capacity, taints=[taint], wait=False
            )
        self.nodes += names

        async def usable() -> bool:
            items = (await self.admin.get(NODES.path())).ok()["items"]
            ready = {item["metadata"]["name"] for item in items if _is_usable(item)}
            return ready.issuperset(names)

        await eventually(usable, f"{count} nodes of {room} to be ready", 120)
        return names

    async def remove_nodes(self, names: Sequence[str]) -> None:
        for name in names:
            self.nodes.remove(name)
            await nodes.remove(self.admin, name)

    async def _nothing_is_left(self) -> None:
        """Raise HarmError if the scheduler's state has content that it did not have at rest."""
        odd: dict[str, object] = {}

        async def same() -> bool:
            nonlocal odd
            now = await self.snapshot()
            odd = {key: more for key in now if (more := _added(now[key], self.at_rest[key]))}
            if odd:
                await self._decide_all()  # unused entries are freed with the next event
            return not odd

        try:
            await eventually(same, "the state to be as before", 60)
        except TimeoutError as error:
            raise HarmError(f"{error}: {str(odd)[:3000]}") from error


def _said(error: Exception) -> str:
    """Return an error's text; a request timeout has none by itself."""
    return str(error) or f"{type(error).__name__}: the API server did not answer"


def _without_others(value: object) -> object:
    """Return the value without the content of other tests' namespaces."""
    if not isinstance(value, list):
        return value
    return [it for it in value if not (isinstance(it, dict) and _is_of_others(it))]


def _is_of_others(entry: Json) -> bool:
    of = entry.get("namespace") or next(iter(entry.get("key") or [""]))
    return str(of).startswith("conformance-")


def _added(now: object, before: object) -> object:
    """Return the new content; removed content belonged to an earlier test."""
    if isinstance(now, list) and isinstance(before, list):
        return [each for each in now if each not in before]
    if isinstance(now, dict) and isinstance(before, dict):
        return {key: value for key, value in now.items() if before.get(key) != value}
    return now if now != before else None


@asynccontextmanager
async def staged(
    cluster: Cluster, muster: Muster, *, hollow: int, hostile: int = 1
) -> AsyncIterator[Stage]:
    """Create the stage with that many hostile tenants and unused nodes; delete it at the end."""
    suffix = secrets.token_hex(2)
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Rest.open(cluster.kubeconfig))
        calm = await stack.enter_async_context(tenant(admin, f"calm-{suffix}"))
        names = [f"mallory-{suffix}-{at}" for at in range(hostile)]
        mallories = [await stack.enter_async_context(tenant(admin, name)) for name in names]
        for name, content in CLASSES.items():
            made = {"metadata": {"name": name}, **content}
            (await admin.post(PRIORITY_CLASSES.path(), made)).ok()
        stage = Stage(cluster, muster, admin, mallories, OtherTenant(calm, on("calm")))
        try:
            await stage.add_nodes("hostile", 2, **{"cpu": "4", "hostile.example/offered": "4"})
            await stage.add_nodes("calm", 2, cpu="32")
            await stage.add_nodes("hollow", hollow)
            await _classes_known(stage)
            stage.usual = max([await stage.calm.gang() for _ in range(3)])
            await calm.leave()
            await _others_are_gone(admin)
            await _rests(stage)
            yield stage
        finally:
            await calm.leave()
            for name in stage.nodes:
                await nodes.remove(admin, name)
            for name in CLASSES:
                await admin.delete(PRIORITY_CLASSES.path(name=name))


async def _others_are_gone(admin: Rest) -> None:
    """Wait until the objects of earlier tests are deleted; they would change `at_rest` later."""

    async def gone() -> bool:
        items = (await admin.get(NAMESPACES.path())).ok()["items"]
        return not any("deletionTimestamp" in item["metadata"] for item in items)

    await eventually(gone, "the namespaces that are being deleted to be gone", 120)


async def _rests(stage: Stage) -> None:
    """Wait until the scheduler has observed the deletion of the other tenant's gangs."""

    async def seen() -> bool:
        stage.at_rest = await stage.snapshot()
        return stage.calm.tenant.name not in json.dumps(stage.at_rest)

    await eventually(seen, "the scheduler to have seen that the gangs are gone", 60)


async def _classes_known(stage: Stage) -> None:
    """Wait until the webhook has observed the classes."""
    group = pod_group("asks", 1)
    group["spec"]["priorityClassName"] = "calm-high"
    path = (
        "/apis/scheduling.muster.dev/v1alpha3/namespaces/" + stage.calm.tenant.name + "/podgroups"
    )

    async def known() -> bool:
        return (await stage.calm.tenant.rest.post(path, group)).status < 300

    await eventually(known, "the classes to be known", 30)
    await stage.calm.tenant.rest.delete(f"{path}/asks")


def _is_usable(node: Json) -> bool:
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or []}
    taints = {taint["key"] for taint in node.get("spec", {}).get("taints") or []}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints


class Player:
    """Player for synchronous tests; after harm it restores the stage."""

    def __init__(self, runner: asyncio.Runner, stage: Stage) -> None:
        self.runner = runner
        self.stage = stage

    def play(self, *campaigns: Sequence[Step], gangs: int = 1) -> None:
        """Play each campaign's steps in order, with gangs of the other tenant.

        Raises HarmError.

        Each campaign belongs to one hostile tenant, and all run concurrently. The player prints its
        measurements; `pytest -rP` shows them.
        """
        self.runner.run(self._guarded(campaigns, gangs))

    def act(self, scenario: Callable[[Stage], Awaitable[None]]) -> None:
        """Run a scenario with both tenants, then check for leaks. Raises the scenario's errors."""
        self.runner.run(self._acted(scenario))

    async def _acted(self, scenario: Callable[[Stage], Awaitable[None]]) -> None:
        stage = self.stage
        try:
            await scenario(stage)
        finally:
            await stage.hostile_leave()
            await stage.calm.tenant.leave()

    async def _guarded(self, campaigns: Sequence[Sequence[Step]], gangs: int) -> None:
        calm = self.stage.calm
        each = zip(self.stage.hostile[: len(campaigns)], campaigns, strict=True)
        calm.took.clear()
        try:
            async with self.stage.harmless() as vitals:
                work = asyncio.gather(*(who.carry_out(steps) for who, steps in each))
                try:
                    for _ in range(gangs - 1):
                        await self.stage.gang_runs(vitals)
                    await work
                finally:
                    work.cancel()
                    await asyncio.wait({work})
            print(f"gangs waited {max(calm.took):.2f} s at most; {vitals}")
        except HarmError as harm:
            await self.stage.recover()
            told = "\n".join(map(shown, campaigns))
            # Repeated at the end, because readers and truncated reports keep the end of a long
            # text.
            raise HarmError(f"{harm}\n{told[:_SHOWN]}\nafter these requests: {harm}") from harm
