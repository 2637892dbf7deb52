"""Writes for gangs that wait for capacity: python -m tools.bench.decisions.waiting

A complete scheduler runs on an API server in memory, in virtual time, in which writes take 5 ms. So
the numbers hardly depend on the machine. 1,000 gangs of four come to 5,000 full nodes. Then nothing
happens; nodes and other pods come and go; one gang gets capacity; and at last pods are bound all
the time while one more gang comes. The table shows the last stored result, too
(tools/bench/results/waiting.json); `--record` stores the new one and updates
docs/performance-results.md. Ends with 1 if a target was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, Literal, NamedTuple

from api.constants import LABEL_POD_GROUP, SCHEDULER_NAME
from kube.base.settings import LeaderElection
from kube.client.meta import Json
from kube.client.resources import NAMESPACES, NODES, PODS
from scheduler.app import Scheduler
from scheduler.support.config import Config
from scheduler.support.kinds import GROUPS
from tests.support.clock import FakeClock, settle
from tests.support.memory_api import WRITES, MemoryApi, Request
from tools.bench import page
from tools.bench.decisions import targets
from tools.bench.report import waiting_results
from tools.bench.report.waiting_results import Phase

GANG: Final = 4
TEAMS: Final = 10
WRITE_SECONDS: Final = 0.005
BINDING_SECONDS: Final = 0.06
"""Seconds of a Binding: longer than of other writes, so that with one every 50 ms there is always
one in progress."""
ELECTION: Final = LeaderElection(lease_seconds=15, renew_seconds=10, retry_seconds=2)
_GROUPS: Final = GROUPS["PodGroup"]
_OTHERS: Final = "others"
"""The namespace of pods of another scheduler, and of those that are bound all the time."""


class Write(NamedTuple):
    """A request that changes an object."""

    at: float
    what: str
    about: tuple[str, str]
    """Namespace and name; for an event, those of its object."""


class Site:
    """The scheduler and its API server, with the actions of users and other schedulers."""

    def __init__(self, nodes: int, gangs: int) -> None:
        self.clock = FakeClock()
        self.server = MemoryApi(self.clock)
        self.server.on(self._write, *WRITES)
        self.writes: list[Write] = []
        self.scheduler = Scheduler(self.server, Config(), ELECTION, clock=self.clock)
        self.nodes = nodes
        self.gangs: list[tuple[str, str]] = []
        self._pods = 0
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        for namespace in (_OTHERS, "muster-system", *(f"team-{n}" for n in range(TEAMS))):
            self.server.add(NAMESPACES, {"metadata": {"name": namespace}})
        for index in range(nodes):
            self.server.add(NODES, node(f"n{index}"))
            self.server.add(PODS, pod(f"full-{index}", 3, f"n{index}"), _OTHERS)
        self._first = gangs

    async def start(self) -> None:
        """Start the scheduler; once it is the leader, all gangs come at once."""
        self._task = asyncio.ensure_future(self.scheduler.run(self._stop))
        await self.pass_time(5)
        for _ in range(self._first):
            self.arrive()

    async def stop(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        while not self._task.done():  # it releases its lease, which takes virtual time
            await self.clock.advance(0.25)
        await asyncio.gather(self._task, return_exceptions=True)

    def arrive(self) -> None:
        """Create a gang that needs a node for each pod, once the pods there are deleted."""
        number = len(self.gangs)
        namespace, name = f"team-{number % TEAMS}", f"gang-{number}"
        spec = {"schedulingPolicy": {"gang": {"minCount": GANG}}}
        self.server.add(_GROUPS, {"metadata": {"name": name}, "spec": spec}, namespace)
        for index in range(GANG):
            member = pod(f"{name}-{index}", 3, group=name)
            self.server.add(PODS, member, namespace)
        self.gangs.append((namespace, name))

    def bind_another(self) -> None:
        """Create a small pod that fits, for this scheduler to bind."""
        self.server.add(PODS, pod(f"small-{self._pods}", 0.01), _OTHERS)
        self._pods += 1

    def churn(self, second: int) -> None:
        """Send heartbeats, toggle a cordon, add a small node and another scheduler's pod."""
        beat = {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": str(second)}]}}
        for index in range(100):
            self.server.change(NODES, f"n{(second * 100 + index) % self.nodes}", beat)
        for index, closed in ((second, True), (second - 1, False)):
            name = f"n{index % self.nodes}"
            self.server.change(NODES, name, {"spec": {"unschedulable": closed}})
        self.server.add(NODES, node(f"tiny-{second}", 1))
        where = f"n{second * 7 % self.nodes}"
        self.server.add(PODS, pod(f"passing-{second}", 1, where), _OTHERS)
        if second >= 5:
            self.server.remove(PODS, f"passing-{second - 5}", _OTHERS, grace=0)

    def make_room(self) -> None:
        """Free the capacity for one gang."""
        for index in range(GANG):
            self.server.remove(PODS, f"full-{index}", _OTHERS, grace=0)

    async def pass_time(self, seconds: float, step: float = 0.25) -> None:
        for _ in range(round(seconds / step)):
            await settle()
            await self.clock.advance(step)
            assert self._task is None or not self._task.done(), "the scheduler has ended"

    async def phase(
        self,
        kind: Literal["come", "quiet", "churn", "busy"],
        title: str,
        seconds: int,
        each: Callable[[int], None] = lambda _second: None,
        *,
        step: float = 1.0,
    ) -> Phase:
        """Call `each` with the number of every step as time passes; return what was written."""
        begun, first = self.clock.monotonic(), len(self.writes)
        for number in range(round(seconds / step)):
            each(number)
            await self.pass_time(step, min(step, 0.25))
        writes = self.writes[first:]
        waiting = self._waiting()
        about = {(space, f"{name}{end}") for space, name in waiting for end in _ENDS}
        patched = "patch pods/status"
        known = {write.about for write in self.writes[:first] if write.what == patched}
        told = [w.at - begun for w in writes if w.what == patched and w.about not in known]
        return Phase(
            kind,
            title,
            seconds,
            len(waiting),
            dict(Counter(write.what for write in writes)),
            sum(write.about not in about for write in writes),
            max(Counter(int(write.at - begun) for write in writes).values(), default=0),
            max(told, default=float("inf")) if kind in ("come", "busy") else None,
        )

    def _write(self, request: Request) -> Awaitable[None]:
        """Record the write, unless it is of a lease, and let it take its time."""
        plural, name, sub = request.collection.partition(".")[0], request.name, request.subresource
        if plural == "events":
            name = name.rpartition(".")[0]  # an event's name begins with that of its object
        if plural != "leases" and request.namespace:
            what = f"{request.verb} {plural}/{sub}" if sub else f"{request.verb} {plural}"
            self.writes.append(Write(self.clock.monotonic(), what, (request.namespace, name)))
        return self.clock.sleep(BINDING_SECONDS if sub == "binding" else WRITE_SECONDS)

    def _waiting(self) -> list[tuple[str, str]]:
        bound = {
            (obj["metadata"]["namespace"], obj["metadata"]["name"])
            for obj in self.server.all(PODS)
            if obj["spec"].get("nodeName")
        }
        return [(space, name) for space, name in self.gangs if (space, f"{name}-0") not in bound]

    def unschedulable(self) -> int:
        """Return the number of pods that are Unschedulable."""
        conditions = (
            condition
            for obj in self.server.all(PODS)
            if not obj["spec"].get("nodeName")
            for condition in obj["status"].get("conditions", ())
        )
        return sum(condition["reason"] == "Unschedulable" for condition in conditions)


_ENDS: Final = ("", *(f"-{index}" for index in range(GANG)))


def node(name: str, cpu: int = 4) -> Json:
    room = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name}
    status = {"allocatable": room, "capacity": room}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def pod(name: str, cpu: float, on: str = "", group: str = "") -> Json:
    """Return a pod of this scheduler, or of another that has bound it to a node."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": str(cpu)}}}
    spec: Json = {"containers": [container], "priority": 0, "schedulerName": SCHEDULER_NAME}
    if on:
        spec |= {"nodeName": on, "schedulerName": "default-scheduler"}
    labels = {LABEL_POD_GROUP: group} if group else {}
    status = {"phase": "Running" if on else "Pending"}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


async def play(nodes: int, gangs: int) -> list[Phase]:
    """Play all phases, one after another."""
    site = Site(nodes, gangs)
    await site.start()
    phases = [await site.phase("come", "they come to a full cluster", 20)]
    assert site.unschedulable() == gangs * GANG
    phases.append(await site.phase("quiet", "nothing happens", 60))
    phases.append(await site.phase("churn", "nodes and other pods come and go", 60, site.churn))
    site.make_room()
    phases.append(await site.phase("churn", "there is room for one more", 60))
    site.arrive()
    busy = await site.phase(
        "busy",
        "one more comes while pods are bound all the time",
        30,
        lambda _step: site.bind_another(),
        step=0.05,
    )
    phases.append(busy)
    await site.stop()
    return phases


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="keep the results and show them")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--gangs", type=int, default=1_000)
    options = parser.parse_args()
    phases = asyncio.run(play(options.nodes, options.gangs))
    print(waiting_results.table(phases, waiting_results.load()))
    print(targets.waiting(phases))
    if options.record:
        waiting_results.keep(phases)
        page.write()
    return 0 if targets.waiting_kept(phases) else 1


if __name__ == "__main__":
    sys.exit(main())
