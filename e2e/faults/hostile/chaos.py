"""A long random run: `python -m e2e.faults.hostile.chaos --rounds N --seed S`.

In each round users create and delete Jobs, JobSets and pods. Meanwhile processes of Muster, the API
server and etcd are killed, leaders stopped, connections broken or frozen, and nodes cordoned,
drained and deleted. Then the cluster must settle in a state in which `verdict` finds no problem. In
the end all objects are deleted, and none may remain. A run that fails keeps its evidence and exits
with 1.
"""

import argparse
import asyncio
import json
import random
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp

from e2e.faults.hostile import inventory, undeleted, verdict, workloads
from e2e.faults.hostile import site as sites
from e2e.faults.hostile.faults import Faults
from e2e.faults.hostile.inventory import Inventory
from e2e.faults.hostile.observer import Observer
from e2e.faults.hostile.site import CPU, Site
from e2e.faults.hostile.workloads import Work
from e2e.harness.controlplane.places import ROOT
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import Patience
from kube.client.resources import PODS

EVIDENCE = ROOT / ".cache" / "chaos"
NAMESPACES = ("chaos-0", "chaos-1", "chaos-2")
REST_SECONDS = 90.0
"""Maximum seconds to settle, including the backoff of Kubernetes' controllers."""

LATE_SECONDS = 300.0
"""Seconds for which remaining objects are watched, to distinguish lagging from leaked ones."""

_ALIVE = 14
"""Approximate number of Jobs, JobSets and pods at a time: more than fit."""
_UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError, AssertionError)


class ChaosError(AssertionError):
    """The run found problems; the text has one line for each."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run: `rounds` rounds from `first` on, each with about `faults` faults."""

    seed: int
    rounds: int
    first: int = 0
    faults: int = 12
    nodes: int = 9
    kills: int | None = None
    """Number of kills after which the run ends with the current round."""


@dataclass(slots=True)
class Result:
    """The statistics of a run."""

    rounds: int = 0
    kills: int = 0
    bound: int = 0
    faults: dict[str, int] = field(default_factory=dict)


class Run:
    """One run on a running site."""

    def __init__(self, site: Site, plan: Plan, say: Callable[[str], None], folder: Path) -> None:
        self.result = Result()
        self._site = site
        self._plan = plan
        self._say = say
        self._folder = folder
        self._observer = Observer(site.cluster.kubeconfig, 1000 * CPU)
        self._works: list[Work] = []
        self._number = 0
        self._pending: set[asyncio.Task[None]] = set()

    async def __call__(self) -> None:
        """Run all rounds. Raises ChaosError."""
        async with Rest.open(self._site.cluster.kubeconfig) as rest:
            for name in NAMESPACES:
                (await rest.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()
            faults = Faults(self._site, rest)
            observing = asyncio.ensure_future(self._observer.run())
            try:
                await self._rounds(rest, faults)
            except ChaosError as error:
                await self._keep_evidence(rest, str(error))
                raise
            finally:
                observing.cancel()
                with suppress(asyncio.CancelledError):
                    await observing

    async def _rounds(self, rest: Rest, faults: Faults) -> None:
        plan = self._plan
        for number in range(plan.first, plan.first + plan.rounds):
            chance = random.Random(f"{plan.seed}/{number}")
            began = time.monotonic()
            await self._trouble(rest, faults, chance)
            troubled = time.monotonic()
            seen = await self._come_to_rest(rest, f"round {number}", REST_SECONDS)
            self._count(faults)
            self._say(self._line(number, seen, troubled - began, time.monotonic() - troubled))
            if plan.kills is not None and self.result.kills >= plan.kills:
                break
            if number % 20 == 19:
                await self._delete_all(rest, f"after round {number}")
        await faults.over()
        await self._delete_all(rest, "in the end")

    def _count(self, faults: Faults) -> None:
        own = (*self._site.replicas, "kube-apiserver", "etcd")
        self.result.rounds += 1
        self.result.kills = sum(self._site.kills[name] for name in own)
        self.result.bound = self._observer.bound
        self.result.faults = dict(faults.done)

    def _line(self, number: int, seen: Inventory, trouble: float, rest: float) -> str:
        placed = sum(inventory.node_of(pod) is not None for pod in seen.of("pods"))
        waiting = sum(inventory.waits(pod) for pod in seen.of("pods"))
        nodes = sum(map(verdict.usable, seen.of("nodes")))
        return (
            f"seed {self._plan.seed} round {number}: {self.result.kills} kills so far, "
            f"{self.result.bound} bound so far; {trouble:.1f} s of faults, at rest after "
            f"{rest:.1f} s: {len(self._works)} works, {placed} pods run, "
            f"{waiting} wait, {nodes} nodes"
        )

    # Users and faults.

    async def _trouble(self, rest: Rest, faults: Faults, chance: random.Random) -> None:
        acts: list[Callable[[], Awaitable[None]]] = []
        users = chance.randint(4, 12)
        acts += [lambda: self._user(rest, chance)] * users
        acts += [lambda: self._fault(faults, chance)] * chance.randint(1, 2 * self._plan.faults - 1)
        chance.shuffle(acts)
        await self._try(lambda: faults.repair(chance))
        for act in acts:
            await act()
            await asyncio.sleep(
                chance.choice((0.0, chance.uniform(0.0, 0.2), chance.uniform(0.2, 1.0)))
            )
        await faults.over()
        if faults.outage and self._site.servers:
            # After an outage they back off for half a minute or more.
            for name in ("kube-controller-manager", "jobset"):
                self._site.kill(name)
        faults.outage = False

    async def _fault(self, faults: Faults, chance: random.Random) -> None:
        with suppress(*_UNREACHABLE):
            await faults.one(chance)

    async def _user(self, rest: Rest, chance: random.Random) -> None:
        """Submit, finish or delete a workload, retrying as long as necessary."""
        if len(self._works) < chance.randint(1, 2 * _ALIVE - 1):
            work = self._draw(chance, chance.choice(NAMESPACES), self._number)
            self._number += 1
            self._start(lambda: self._create(rest, work))
        elif not self._works:
            return
        elif chance.random() < 0.3:
            work = chance.choice(self._works)
            finish = self._site.cluster.finish_pods
            self._start(lambda: finish(work.namespace, work.selector))
        else:
            work = self._works.pop(chance.randrange(len(self._works)))
            propagation = chance.choice(("Background", "Foreground"))
            self._start(lambda: self._delete(rest, work, propagation))

    def _draw(self, chance: random.Random, namespace: str, number: int) -> Work:
        return workloads.draw(chance, namespace, number)

    def _start(self, act: Callable[[], Awaitable[object]]) -> None:
        task = asyncio.ensure_future(self._try(act))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _try(self, act: Callable[[], Awaitable[object]]) -> None:
        """Retry until success, as users do during an outage. Raises ChaosError after a timeout."""
        until = time.monotonic() + REST_SECONDS
        while True:
            try:
                await act()
                return
            except _UNREACHABLE as error:
                if time.monotonic() > until:
                    raise ChaosError(f"a user could not get through: {error!r}") from error
            await asyncio.sleep(0.3)

    async def _create(self, rest: Rest, work: Work) -> None:
        answer = await rest.post(work.kind.path(work.namespace), work.manifest)
        assert answer.status in (201, 409), answer.text
        self._works.append(work)

    async def _delete(self, rest: Rest, work: Work, propagation: str) -> None:
        path = work.kind.path(work.namespace, work.name)
        answer = await rest.delete(path, {"propagationPolicy": propagation})
        assert answer.status in (200, 202, 404), answer.text

    # The verdict.

    async def _come_to_rest(self, rest: Rest, when: str, seconds: float) -> Inventory:
        """Wait until two checks find no problem.

        Between the checks the leader decides on all pending pods again. Raises ChaosError if the
        problems have not become fewer for so many seconds.
        """
        await asyncio.gather(*self._pending)
        limit, good = Patience(seconds), 0
        while True:
            seen, problems = await self._look(rest)
            self._check_watched(when)
            if not problems and seen is not None:
                good += 1
                if good > 2:
                    return seen
                if await self._site.decide() is None:
                    good, problems = 0, ["no scheduler leads"]
            else:
                good = 0
            if limit.is_over(len(problems)):
                raise ChaosError("\n".join((f"{when}, after {seconds:.0f} s:", *problems)))
            await asyncio.sleep(0.2)

    async def _look(self, rest: Rest) -> tuple[Inventory | None, list[str]]:
        try:
            seen = await inventory.read(rest)
            await self._bury(rest, seen)
        except _UNREACHABLE as error:
            return None, [f"the API server does not answer: {error!r}"]
        problems = [f"{name} is not ready" for name in await self._site.ready()]
        problems += verdict.under_way(seen)
        problems += verdict.faults(seen, lambda key: self._whole(seen, key))
        return seen, problems

    def _whole(self, seen: Inventory, key: inventory.Key) -> bool:
        return self._observer.peak(key) >= inventory.minimum(seen.groups[key])

    def _check_watched(self, when: str) -> None:
        if wrongs := self._wrongs():
            raise ChaosError("\n".join((f"{when}:", *wrongs)))

    def _wrongs(self) -> list[str]:
        """Return what was wrong at any moment so far."""
        return [*self._observer.wrongs, *(f"{it} ended by itself" for it in self._site.ended)]

    async def _bury(self, rest: Rest, seen: Inventory) -> None:
        """Force-delete the pods of deleted nodes, as a cloud provider's controller does."""
        for pod in seen.of("pods"):
            node = inventory.node_of(pod)
            if node is not None and node not in seen.nodes:
                namespace, name = inventory.key_of(pod)
                await rest.delete(PODS.path(namespace, name), {"gracePeriodSeconds": 0})

    async def _delete_all(self, rest: Rest, when: str) -> None:
        """Delete every Job, JobSet and pod. Raises ChaosError if objects remain."""
        works, self._works = self._works, []
        for work in works:
            self._start(partial(self._delete, rest, work, "Background"))
        await asyncio.gather(*self._pending)
        seen = await self._left(rest, REST_SECONDS)
        if seen is None:
            self._say(f"seed {self._plan.seed} {when}: all was deleted, nothing is left")
            return
        lines = [f"{when}, all was deleted, and this is left:"]
        lines += await undeleted.report(self._site, seen)
        lines += await self._outcome(rest)
        raise ChaosError("\n".join(lines))

    async def _left(self, rest: Rest, seconds: float) -> Inventory | None:
        """Return the objects that remain after that many seconds; None once there are none."""
        until = time.monotonic() + seconds
        while True:
            seen, problems = await self._look(rest)
            if seen is not None and not undeleted.remaining(seen):
                return None
            if time.monotonic() > until:
                if seen is None:
                    raise ChaosError("\n".join(problems))
                return seen
            await asyncio.sleep(0.3)

    async def _outcome(self, rest: Rest) -> list[str]:
        """Report if the objects are deleted after all, which means that a controller lagged."""
        began = time.monotonic()
        seen = await self._left(rest, LATE_SECONDS)
        if seen is None:
            return [f"all of that was gone {time.monotonic() - began:.0f} s later"]
        lines = [f"and {LATE_SECONDS:.0f} s later this is still there:"]
        return [*lines, *await undeleted.report(self._site, seen)]

    async def _keep_evidence(self, rest: Rest, text: str) -> None:
        """Save the objects, the schedulers' state, and all logs."""
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "problems.txt").write_text(f"{text}\n")
        with suppress(*_UNREACHABLE):
            seen = await inventory.read(rest)
            (folder / "objects.json").write_text(json.dumps(seen.objects, indent=1))
            events = (await rest.get("/api/v1/events")).ok()["items"]
            (folder / "events.json").write_text(json.dumps(events, indent=1))
            (folder / "works.json").write_text(json.dumps([w.manifest for w in self._works]))
        for name in self._site.schedulers:
            (folder / f"{name}.snapshot.json").write_bytes(await self._site.snapshot(name))
        shutil.copytree(self._site.muster.logs, folder / "logs", dirs_exist_ok=True)
        self._say(f"the evidence is in {folder}")


async def run(
    kind: str, plan: Plan, say: Callable[[str], None] = print, *, keep: bool = False
) -> Result:
    """Run once on a new cluster, `local` or `real`. Raises ChaosError."""
    folder = EVIDENCE / f"{kind}-{plan.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    async with sites.made(kind, plan.nodes, folder).running() as site:
        chaos = Run(site, plan, say, folder)
        await chaos()
        if keep:
            shutil.copytree(site.muster.logs, folder / "logs", dirs_exist_ok=True)
    return chaos.result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the round to begin with")
    parser.add_argument("--kills", type=int, help="end after so many")
    parser.add_argument("--faults", type=int, default=12, help="in a round, about")
    parser.add_argument("--nodes", type=int, default=9)
    parser.add_argument("--cluster", choices=("local", "real"), default="real")
    parser.add_argument("--keep", action="store_true", help="the logs of a run that passed, too")
    given = parser.parse_args()
    plan = Plan(given.seed, given.rounds, given.first, given.faults, given.nodes, given.kills)
    try:
        result = asyncio.run(run(given.cluster, plan, _say, keep=given.keep))
    except ChaosError as error:
        _say(f"FAILED: {error}")
        return 1
    _say(f"passed: {result.rounds} rounds, {result.kills} kills, faults {result.faults}")
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
