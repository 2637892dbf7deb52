"""Rows of the table under a running load of gangs, trees, claims and preemption, and the verdict.

After each row everything must come to rest. Then no gang is half bound, no node is over its
capacity, no device has two claims, everything that fits runs, nothing is left behind, the gangs
that no fault may touch are as before, and no replica wrote after it had lost its lease.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from e2e.faults.high_availability import table
from e2e.faults.high_availability.claims import ClaimObserver
from e2e.faults.high_availability.fences import Fences
from e2e.faults.high_availability.site import ThreeSite
from e2e.faults.high_availability.table import FAULTS, Row, Scene
from e2e.faults.hostile import chaos, inventory, workloads
from e2e.faults.hostile.chaos import NAMESPACES, REST_SECONDS, ChaosError, Plan
from e2e.faults.hostile.inventory import node_of
from e2e.faults.hostile.site import CPU, ROOM
from e2e.faults.hostile.workloads import Work
from e2e.harness.devices import (
    CLAIM_TEMPLATES,
    CLAIMS,
    claim_template,
    devices_in,
    request,
    with_claims,
)
from e2e.harness.objects import Json, job, jobset, of_job, of_jobset, replicated_job
from e2e.harness.support.rest import Rest
from kube.client.client import Client
from kube.client.resources import JOBS, JOBSETS

NODES = 6
_KEPT = "kept"
_TEMPLATE = "one-gpu"
_ENTRIES = {"gpu": {"resourceClaimTemplateName": _TEMPLATE}}
_DEVICES = "chaos"
_PAUSE = (0.1, 1.0)
"""Seconds between two acts of users while a fault holds."""


class Matrix(chaos.Run):
    """The rows on one running site, each with the objects that the last one left."""

    def __init__(self, site: ThreeSite, seed: int, say: Callable[[str], None], to: Path) -> None:
        super().__init__(site, Plan(seed, rounds=0), say, to)
        self.three = site
        self.rest = site.plane.client()
        self._evidence = to
        self._claims = ClaimObserver(site.plane.kubeconfig)
        logs = [member.audit_log for member in site.plane.members]
        self._fences = Fences(logs, site.muster_replicas.credentials)
        self._kept: dict[str, str | None] = {}
        self._deleted: list[Work] = []
        """The workloads that users deleted during the fault."""

    @classmethod
    @asynccontextmanager
    async def running(
        cls, seed: int, say: Callable[[str], None], folder: Path
    ) -> AsyncIterator["Matrix"]:
        """Run a site with the objects of all rows during the block."""
        async with AsyncExitStack() as stack:
            site = ThreeSite(NODES, folder)
            await stack.enter_async_context(site.running())
            made = cls(site, seed, say, folder)
            await stack.enter_async_context(made.rest)
            client = await stack.enter_async_context(await Client.connect(site.plane.kubeconfig))
            devices = await stack.enter_async_context(devices_in(client, _DEVICES))
            name = await devices.add_class()
            for node in site.names:
                await devices.publish(node, CPU)
            await made._prepare(name)
            followers = (made._observer, made._claims)
            following = [asyncio.ensure_future(each.run()) for each in followers]
            try:
                yield made
            finally:
                for task in following:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

    async def play(self, row: Row, seed: int) -> None:
        """Play one row, and judge. Raises ChaosError; the evidence is kept then."""
        for wrongs in (self._observer.wrongs, self._claims.wrongs, self.three.ended):
            wrongs.clear()  # those of a row that failed
        self._folder = self._evidence / f"{row.who}, {row.fault}, {seed}".replace(" ", "-")
        try:
            await self._play(row, seed)
        except ChaosError as error:
            await self._keep_evidence(self.rest, str(error))
            raise

    async def end(self) -> None:
        """Delete all objects; none may remain. Raises ChaosError."""
        self._works += self._kept_works()
        await self._delete_all(self.rest, "in the end")
        left = (await self.rest.get(CLAIMS.path())).ok()["items"]
        if left:
            raise ChaosError(f"{len(left)} claims are left")

    async def _play(self, row: Row, seed: int) -> None:
        chance = random.Random(f"{row}/{seed}")
        hit = await table.hit(self.three, self.rest, row.who, chance)
        began = time.monotonic()
        await self._hit(Scene(self.three, self.rest, hit, self._rewind), row, chance)
        healed = time.monotonic()
        seen = await self._come_to_rest(self.rest, f"{row}, {hit}", REST_SECONDS)
        self._check_rest(row, seen)
        placed = sum(node_of(pod) is not None for pod in seen.of("pods"))
        waiting = sum(inventory.waits(pod) for pod in seen.of("pods"))
        self._say(
            f"{row.who}, {row.fault} ({hit}, seed {seed}): {healed - began:.0f} s, at rest after "
            f"{time.monotonic() - healed:.0f} s, {placed} pods run, {waiting} wait, "
            f"{self._observer.bound} bound so far, {self._claims.allocated} claims, "
            f"{self._fences.writes} writes of leaders"
        )

    async def _hit(self, scene: Scene, row: Row, chance: random.Random) -> None:
        """Let the fault begin, hold and be over, with users at work."""
        fault = FAULTS[row.fault]
        self._deleted.clear()
        users = asyncio.ensure_future(self._users(chance))
        try:
            await asyncio.sleep(chance.uniform(*_PAUSE))
            async with fault.during(scene):
                await asyncio.sleep(fault.seconds)
        finally:
            users.cancel()
            with suppress(asyncio.CancelledError):
                await users

    def _check_rest(self, row: Row, seen: inventory.Inventory) -> None:
        late = self._fences.late()
        wrongs = late if len(late) > FAULTS[row.fault].late_writes else []
        now = _places(seen)
        wrongs += [f"{name} is on {now.get(name)}" for name, at in self._kept.items()
                   if now.get(name) != at]  # fmt: skip
        if wrongs:
            raise ChaosError("\n".join((f"{row}:", *wrongs)))

    def _rewind(self) -> None:
        """Take note of restored data: what users deleted since the snapshot may be there again."""
        self._observer.rewind()
        self._works += self._deleted

    async def _delete(self, rest: Rest, work: Work, propagation: str) -> None:
        self._deleted.append(work)
        await super()._delete(rest, work, propagation)

    async def _users(self, chance: random.Random) -> None:
        while True:
            await self._user(self.rest, chance)
            await asyncio.sleep(chance.uniform(*_PAUSE))

    def _draw(self, chance: random.Random, namespace: str, number: int) -> Work:
        if chance.random() > 0.25:
            return workloads.draw(chance, namespace, number)
        made = _job_with_claims(f"claims-{number}", chance.randint(1, 4))
        workloads.finish(made["spec"], chance, chance.choice(workloads.CLASSES))
        return Work(JOBS, namespace, made, of_job(f"claims-{number}"))

    def _wrongs(self) -> list[str]:
        return [*super()._wrongs(), *self._claims.wrongs]

    async def _prepare(self, device_class: str) -> None:
        """Create the namespaces, and the gangs that must stay as they are."""
        body = {"metadata": {"name": _KEPT}, "value": 1_000_000}
        (await self.rest.post("/apis/scheduling.k8s.io/v1/priorityclasses", body)).ok()
        template = claim_template(_TEMPLATE, request(device_class))
        for name in (*NAMESPACES, _KEPT):
            (await self.rest.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()
            (await self.rest.post(CLAIM_TEMPLATES.path(name), template)).ok()
        for work in self._kept_works():
            await self._try(lambda work=work: self._submit(work))  # type: ignore[misc]
        seen = await self._come_to_rest(self.rest, "at first", REST_SECONDS)
        self._kept = _places(seen)
        if len(self._kept) != 4 or None in self._kept.values():
            raise ChaosError(f"the first gangs are on {self._kept}")

    async def _submit(self, work: Work) -> None:
        answer = await self.rest.post(work.kind.path(work.namespace), work.manifest)
        assert answer.status in (201, 409), answer.text

    def _kept_works(self) -> list[Work]:
        gang = _job_with_claims("gang", 2)
        tree = jobset("tree", replicated_job("w", ROOM, replicas=2, pods=1), mode="Composite")
        for spec in (gang["spec"], tree["spec"]["replicatedJobs"][0]["template"]["spec"]):
            workloads.finish(spec, random.Random(0), _KEPT)
        return [
            Work(JOBS, _KEPT, gang, of_job("gang")),
            Work(JOBSETS, _KEPT, tree, of_jobset("tree")),
        ]


def _job_with_claims(name: str, pods: int) -> Json:
    """Return a gang Job, each of whose pods has a device of its own."""
    made = job(name, ROOM, pods=pods)
    template = made["spec"]["template"]
    template["spec"] = with_claims(template["spec"], _ENTRIES)
    return made


def _places(seen: inventory.Inventory) -> dict[str, str | None]:
    """Return the node of each pod that no fault may touch, by its name and UID."""
    of = (pod for pod in seen.of("pods") if pod["metadata"]["namespace"] == _KEPT)
    return {f"{it['metadata']['name']} {it['metadata']['uid']}": node_of(it) for it in of}
