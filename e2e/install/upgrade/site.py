"""One real cluster with active users, on which Muster changes its version."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from e2e.flows.scheduling.gangs.bindings import Bindings
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members, remove_finalizers
from e2e.harness.muster import CONTROLLER, NAMESPACE, SCHEDULER, WEBHOOK, Muster
from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, job, of_job
from e2e.harness.support.intercepting_proxy import InterceptingProxy
from e2e.harness.support.rest import Rest
from e2e.install.upgrade.fleet import Fleet
from e2e.install.upgrade.residents import Residents
from e2e.install.upgrade.traffic import NAMESPACE as USERS
from e2e.install.upgrade.traffic import Traffic
from e2e.install.upgrade.versions import Version
from kube.base.errors import Forbidden, NotFound
from kube.client.client import Client
from kube.client.resources import JOBS, NAMESPACES, PODS, PRIORITY_CLASSES

SIZE = 8
_BOUND = 3
"""Number of a gang's bound pods at the moment its scheduler is killed."""
# A killed leader is replaced within seconds, and a slow machine loses no running one.
_ELECTION = {"leaseSeconds": 8, "renewSeconds": 6, "retrySeconds": 0.5}
# It includes a field that only the old versions have by this name: one ConfigMap serves both.
_CONFIG = {
    "namespace": NAMESPACE,
    "leaderElection": _ELECTION,
    "scheduler": {"profile": "pack"},
}
_RATE = 4.0
_HOLD = "test.muster.dev/hold"
_CLASS = "important"


class Site:
    """A site from `Site.opened`. `transition` changes the version, and checks the invariants."""

    def __init__(
        self, plane: ControlPlane, muster: Muster, client: Client, rest: Rest,
        fleet: Fleet, proxy: InterceptingProxy,
    ) -> None:  # fmt: skip
        self._client = client
        self._fleet = fleet
        self._muster = muster
        self._proxy = proxy
        self.traffic = Traffic(rest, _RATE)
        self._plane = plane
        self._rest = rest
        self._residents: list[Residents] = []
        self._starting = Environment(plane, muster, client, "starting")
        self._preempting = Environment(plane, muster, client, "preempting")
        self._number = 0
        self.crossed = 0
        """Number of half-bound gangs that one version started and the other finished."""
        self._bindings: Bindings | None = None

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self._plane.kubeconfig

    @classmethod
    @asynccontextmanager
    async def opened(cls, version: Version, folder: Path) -> AsyncIterator[Self]:
        """Create a cluster on which this version is installed and has run for a while."""
        options = Options(routes_services=True)
        async with ControlPlane(options) as plane, Rest.open(plane.kubeconfig) as rest:
            muster = Muster(plane.kubeconfig, config=_CONFIG, logs=folder / "logs")
            proxy = InterceptingProxy(muster.kubeconfig(SCHEDULER), folder)
            fleet = Fleet(plane.kubeconfig, muster, folder, proxy.kubeconfig)
            try:
                await fleet.apply(version)
                await plane.kinds_installed()
                await muster.give_access()
                async with proxy.running(), await Client.connect(plane.kubeconfig) as client:
                    await fleet.start(version)
                    site = cls(plane, muster, client, rest, fleet, proxy)
                    async with site._inhabited():
                        yield site
                    await fleet.stop()
            finally:
                muster.stop()

    @asynccontextmanager
    async def _inhabited(self) -> AsyncIterator[None]:
        await self._client.create(NAMESPACES, {"metadata": {"name": USERS}})
        important = {"metadata": {"name": _CLASS}, "value": 1000}
        await self._client.create(PRIORITY_CLASSES, important)
        for env in (self._starting, self._preempting):
            await env.open()
        await self._starting.add_node(cpu=SIZE)
        await self._preempting.add_node(cpu=4)
        await self.settle("residents")
        working = asyncio.create_task(self.traffic.run())
        try:
            async with Bindings.followed(self._starting) as bindings:
                self._bindings = bindings
                yield
        finally:
            self.traffic.stop()
            await working

    async def settle(self, name: str) -> None:
        """Create gangs and objects under the running version, in their own namespace.

        From now on no transition may change them.
        """
        env = Environment(self._plane, self._muster, self._client, name)
        residents = Residents(env, self._rest)
        await residents.settle_in()
        self._residents.append(residents)

    async def transition(
        self, version: Version, install: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        """Change to another version, one replica at a time.

        Raises AssertionError, TimeoutError.

        `install` applies its objects, by default with kubectl. Meanwhile a gang is half-bound when
        the leading scheduler is killed, and another waits for the termination of the pods that it
        preempted.
        """
        self._number += 1
        preempting = await self._begin_preemption()
        await (self._fleet.apply(version) if install is None else install())
        await asyncio.gather(
            self._fleet.replace(WEBHOOK, version),
            self._fleet.replace(CONTROLLER, version),
            self._replace_schedulers(version),
        )
        await self._end_preemption(preempting)
        await self._a_gang_runs(f"after-{self._number}")
        for residents in self._residents:
            await residents.check()
        await self._users_were_served()

    async def leave(self) -> None:
        """Delete everything; that must succeed, whichever version created it."""
        self.traffic.stop()
        for residents in self._residents:
            await residents.leave()
        for env in (self._starting, self._preempting):
            await env.close()

        async def gone() -> bool:
            found = [await self._client.list(kind, USERS) for kind in (
                POD_GROUPS, COMPOSITE_POD_GROUPS
            )]  # fmt: skip
            return not any(one["items"] for one in found)

        await self._starting.until("what users made and deleted to be gone", gone)

    async def _replace_schedulers(self, version: Version) -> None:
        """Replace the schedulers, the leader last; kill the leader while a gang is half-bound."""
        leader = await self._fleet.leader(self._client)
        (other,) = (one for one in self._fleet.of(SCHEDULER) if one is not leader)
        await self._fleet.add(SCHEDULER, version)
        await self._fleet.end(other)
        await self._fleet.add(SCHEDULER, version)

        name = f"half-{self._number}"
        pause = self._proxy.pause_at(
            lambda method, path: method == "POST" and f"/{name}-" in path and "/binding" in path,
            nth=_BOUND + 1,
        )
        await self._starting.create(JOBS, job(name, self._starting.name, pods=SIZE))
        async with asyncio.timeout(60):
            await pause.reached.wait()

        async def half_bound() -> bool:
            return await self._starting.bound(of_job(name)) == _BOUND

        await self._starting.until(f"{_BOUND} pods of {name} to be bound", half_bound)
        holder = await self._fleet.leader(self._client)
        self._muster.kill(holder.name)
        await self._fleet.forget(holder)
        self._proxy.end(pause)
        if holder is leader:
            self.crossed += 1
        else:  # on a slow machine it can lose its lease before
            await self._fleet.add(SCHEDULER, version)
            await self._fleet.end(leader)
        await self._runs_whole(name)

    async def _a_gang_runs(self, name: str) -> None:
        await self._starting.create(JOBS, job(name, self._starting.name, pods=SIZE))
        await self._runs_whole(name)

    async def _runs_whole(self, name: str) -> None:
        """Check that the gang runs, every pod on its first node; delete its Job and wait."""
        assert self._bindings is not None
        await self._starting.runs(of_job(name), SIZE)
        await self._starting.scheduled(f"pg-job-{name}")
        here = {pod["metadata"]["uid"] for pod in await self._starting.pods(of_job(name))}
        assert self._bindings.nodes.keys() == here, f"other pods were bound for {name}"
        assert not self._bindings.twice, f"bound twice: {self._bindings.twice}"
        await self._starting.delete(JOBS, name)
        await self._starting.empty()
        self._bindings.nodes.clear()

    async def _begin_preemption(self) -> tuple[str, str]:
        env = self._preempting
        low, high = f"low-{self._number}", f"high-{self._number}"
        await leaf(env, low, 4, mode="all", finalizers=(_HOLD,))
        await env.runs(members(low), 4)
        of_pod = {"priorityClassName": _CLASS}

        async def made() -> bool:
            # A webhook that has just started may not know the class yet, and then rejects it.
            with contextlib.suppress(Forbidden):
                await leaf(env, high, 4, priority_class=_CLASS, of_pod=of_pod)
                return True
            return False

        await env.until(f"{high} to be accepted", made)

        async def evicted() -> bool:
            return all("deletionTimestamp" in p["metadata"] for p in await env.pods(members(low)))

        await env.until(f"{low} to be preempted", evicted)
        return low, high

    async def _end_preemption(self, groups: tuple[str, str]) -> None:
        """End the preemption: victims of one version release capacity under the other."""
        env = self._preempting
        low, high = groups
        assert await env.bound(members(high)) == 0, f"{high} did not wait for the end of {low}"
        await remove_finalizers(env, members(low))
        await env.runs(members(high), 4)
        for index in range(4):
            await env.delete(PODS, f"{high}-{index}")
        for group in groups:
            with contextlib.suppress(NotFound):
                await env.delete(POD_GROUPS, group)
        await env.empty()

    async def _users_were_served(self) -> None:
        failures = self.traffic.failures
        assert self.traffic.made > 0, "nobody asked for anything"
        assert not failures, f"{len(failures)} of {self.traffic.made}, first {failures[:5]}"
