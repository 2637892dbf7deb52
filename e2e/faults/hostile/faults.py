"""The faults of a random run: killed, stopped and disconnected processes, deleted nodes."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from e2e.faults.hostile.inventory import ended, node_of
from e2e.faults.hostile.site import Site
from e2e.harness.muster import WEBHOOK
from e2e.harness.support.rest import Rest

_LEASE = 3.0
"""Lease duration in seconds, as in `e2e.harness.muster`."""
_NODE = "/api/v1/nodes/"

Fault = Callable[[random.Random], Awaitable[None]]


class Faults:
    """Fault injection for a site; `done` counts faults by name.

    Longer faults continue in the background until `over`.
    """

    def __init__(self, site: Site, rest: Rest) -> None:
        self.done: Counter[str] = Counter()
        self.outage = False
        """True if the API server was down since this was set to False."""
        self._site = site
        self._rest = rest
        self._tasks: set[asyncio.Task[None]] = set()
        self._cordoned: set[str] = set()
        self._removed: set[str] = set()
        self._kinds: dict[str, tuple[int, Fault]] = {
            "scheduler": (34, self._kill_scheduler),
            "schedulers": (5, self._kill_schedulers),
            "controller": (20, self._kill_controller),
            "webhook": (10, self._kill_webhook),
            "server": (9, self._kill_server),
            "stop": (6, self._stop),
            "cut": (8, self._cut),
            "freeze": (4, self._freeze),
            "cordon": (3, self._cordon),
            "drain": (2, self._drain),
            "node": (3, self._remove_node),
        }

    async def one(self, chance: random.Random) -> None:
        """Inject a fault drawn by weight."""
        names = list(self._kinds)
        weights = [weight for weight, _ in self._kinds.values()]
        (name,) = chance.choices(names, weights)
        await self._kinds[name][1](chance)
        self.done[name] += 1

    async def over(self) -> None:
        """Wait until no process is stopped, frozen or down."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def repair(self, chance: random.Random) -> None:
        """Uncordon and restore some of the nodes; at most two remain removed."""
        for name in sorted(self._cordoned):
            if chance.random() < 0.5:
                await self._set_unschedulable(name, value=False)
                self._cordoned.discard(name)
        for name in sorted(self._removed):
            if chance.random() < 0.5 or len(self._removed) > 2:
                await self._site.add_node(self._rest, name)
                self._removed.discard(name)

    # Processes.

    async def _kill_scheduler(self, chance: random.Random) -> None:
        self._site.kill(chance.choice(self._site.schedulers), after=chance.choice((0.0, 0.0, 1.0)))

    async def _kill_schedulers(self, chance: random.Random) -> None:
        for name in self._site.schedulers:
            self._site.kill(name, after=chance.random())

    async def _kill_controller(self, chance: random.Random) -> None:
        self._site.kill(chance.choice(self._site.controllers), after=chance.choice((0.0, 0.0, 1.0)))

    async def _kill_webhook(self, chance: random.Random) -> None:
        self._site.kill(WEBHOOK, after=chance.random())

    async def _kill_server(self, chance: random.Random) -> None:
        self.outage = True
        if not self._site.servers:
            self._later(self._site.outage(chance.uniform(0.2, 4.0)))
            return
        name = chance.choice(("kube-apiserver", "kube-apiserver", "etcd"))
        self._site.kill(name, after=chance.uniform(0.0, 2.0))

    async def _stop(self, chance: random.Random) -> None:
        name = chance.choice((*self._site.schedulers, *self._site.controllers))
        self._later(self._site.pause(name, chance.uniform(_LEASE, 1.6 * _LEASE)))

    async def _cut(self, chance: random.Random) -> None:
        self._site.cut(chance.choice(self._site.replicas))

    async def _freeze(self, chance: random.Random) -> None:
        name = chance.choice(self._site.replicas)
        self._later(self._site.freeze(name, chance.uniform(1.0, 1.6 * _LEASE)))

    def _later(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Requests that fail because of an outage are skipped.

    def _node(self, chance: random.Random) -> str:
        there = set(self._site.names) - self._cordoned - self._removed
        return chance.choice(sorted(there))

    async def _set_unschedulable(self, name: str, *, value: bool) -> None:
        (await self._rest.patch(f"{_NODE}{name}", {"spec": {"unschedulable": value}})).ok()

    async def _cordon(self, chance: random.Random) -> None:
        name = self._node(chance)
        self._cordoned.add(name)
        await self._set_unschedulable(name, value=True)

    async def _drain(self, chance: random.Random) -> None:
        name = self._node(chance)
        self._cordoned.add(name)
        await self._set_unschedulable(name, value=True)
        for pod in (await self._rest.get("/api/v1/pods")).ok()["items"]:
            if node_of(pod) == name and not ended(pod):
                meta = pod["metadata"]
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
                where = {"name": meta["name"], "namespace": meta["namespace"]}
                kind = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": where}
                await self._rest.post(path, kind)

    async def _remove_node(self, chance: random.Random) -> None:
        name = self._node(chance)
        self._removed.add(name)
        await self._rest.delete(f"{_NODE}{name}")
