"""Jobs created at a constant rate on three API servers; one of them is killed half-way.

   python -m tools.bench.components.job_load --jobs 10000 --minutes 5

Each Job is a gang of two pods. There are three replicas of each process of Muster. The report has
how long the requests took that create Jobs, each with a review by the webhook, how long all pods
took to be bound, and the memory of each process. If a gang is not bound, or a process of Muster
ended, the exit code is 1.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.faults.high_availability.site import ThreeSite
from e2e.harness.objects import job
from e2e.harness.support.waiting import eventually
from kube.base.errors import AlreadyExists, KubeError
from kube.client.client import Client
from kube.client.meta import RawObject, decode_raw
from kube.client.resources import JOBS, PODS
from kube.informers.cache import Cache
from kube.informers.reflector import Reflector
from tools.bench.components.created import make_room
from tools.bench.end_to_end.usage import peak_mib
from tools.bench.report.frame import percentile

ROOM: Final = "bench-jobs"
PODS_EACH: Final = 2
_AGAIN_SECONDS: Final = 0.5
"""Seconds until a request is repeated that got no response."""
_DOWN_SECONDS: Final = 30.0
"""How long the API server is lost."""
_WAIT_SECONDS: Final = 3600.0
_P99: Final = 0.1
"""Range of the P99 outside the outage, in seconds."""


@dataclass(frozen=True, slots=True)
class Created:
    """One Job: when it was to be created, and the seconds until its request succeeded."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured; `lost` are gangs that are not bound as a whole, `ended` processes."""

    created: Sequence[Created]
    outage: tuple[float, float]
    bound_after: float
    peak_mib: dict[str, float]
    lost: int
    ended: Sequence[str]

    @property
    def kept(self) -> bool:
        return not self.lost and not self.ended and self._p99(during=False) < _P99

    def __str__(self) -> str:
        rows = [self._row("outside the outage", during=False), self._row("in it", during=True)]
        memory = ", ".join(f"{name} {peak:.0f} MiB" for name, peak in self.peak_mib.items())
        return "\n".join(
            (
                "| requests that create a Job | number | P50 | P99 | worst |",
                "|---|---:|---:|---:|---:|",
                *rows,
                f"range: P99 outside the outage below {_P99 * 1000:.0f} ms",
                f"all {PODS_EACH * len(self.created)} pods bound after {self.bound_after:.0f} s",
                f"gangs lost: {self.lost}; processes that ended: {', '.join(self.ended) or 'none'}",
                f"peak memory: {memory}",
            )
        )

    def _seconds(self, *, during: bool) -> list[float]:
        begin, end = self.outage
        return sorted(it.seconds for it in self.created if (begin <= it.at < end) is during)

    def _p99(self, *, during: bool) -> float:
        return percentile(self._seconds(during=during), 99)

    def _row(self, name: str, *, during: bool) -> str:
        found = self._seconds(during=during)
        shown = (statistics.median(found), percentile(found, 99), found[-1])
        cells = " | ".join(f"{seconds * 1000:.0f} ms" for seconds in shown)
        return f"| {name} | {len(found)} | {cells} |"


class Load:
    """The Jobs of one run; times are seconds since its begin."""

    def __init__(self, site: ThreeSite, client: Client, jobs: int, seconds: float) -> None:
        self._site = site
        self._client = client
        self._times = [seconds * number / jobs for number in range(jobs)]
        self._pods: Cache[RawObject] = Cache()
        self._bound = 0
        self._began = 0.0

    async def run(self) -> Result:
        """Create all Jobs, with the loss of a server half-way, and wait until their pods run."""
        self._pods.subscribe(self._on_change)
        reflector = Reflector(self._client, PODS, self._pods, decode=decode_raw, namespace=ROOM)
        following = asyncio.ensure_future(reflector.run())
        try:
            await reflector.synced.wait()
            self._began = time.monotonic()
            losing = asyncio.ensure_future(self._lose_server(self._times[-1] / 2))
            created = await asyncio.gather(*map(self._create, range(len(self._times))))
            outage = await losing
            await eventually(self._all_bound, "all pods to be bound", _WAIT_SECONDS)
            return Result(
                created, outage, self._now(), self._memory(), self._lost(), self._site.ended
            )
        finally:
            following.cancel()
            await asyncio.wait({following})

    def _now(self) -> float:
        return time.monotonic() - self._began

    async def _create(self, number: int) -> Created:
        """Create one Job at its time; repeat the request until there is a response."""
        at = self._times[number]
        await asyncio.sleep(at - self._now())
        begun = time.monotonic()
        made = job(f"j{number}", ROOM, pods=PODS_EACH)
        while True:
            try:
                await self._client.create(JOBS, made, ROOM)
            except AlreadyExists:  # the response to an earlier request was lost
                pass
            except KubeError as error:
                print(f"j{number}: {error}", flush=True)
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            return Created(at, time.monotonic() - begun)

    async def _lose_server(self, at: float) -> tuple[float, float]:
        """Kill the API server that the leader uses; return when it was lost and ready again."""
        await asyncio.sleep(at)
        plane, lost = self._site.plane, self._site.member_of(self._site.schedulers[0])
        begin = self._now()
        self._site.kill(lost.server, after=_DOWN_SECONDS)
        await asyncio.sleep(_DOWN_SECONDS + 1)
        await plane.ready(lost)
        return begin, self._now()

    def _on_change(self, old: RawObject | None, new: RawObject | None) -> None:
        self._bound += _is_bound(new) - _is_bound(old)

    async def _all_bound(self) -> bool:
        return self._bound >= PODS_EACH * len(self._times)

    def _lost(self) -> int:
        """Return the number of Jobs with another number of bound pods than they ask for."""
        counts = dict.fromkeys((f"j{number}" for number in range(len(self._times))), 0)
        for pod in self._pods.values():
            name = pod.metadata.labels["batch.kubernetes.io/job-name"]
            counts[name] += _is_bound(pod)
        return sum(count != PODS_EACH for count in counts.values())

    def _memory(self) -> dict[str, float]:
        return {name: peak_mib(self._site.muster.pid(name)) for name in self._site.replicas}


def _is_bound(pod: RawObject | None) -> bool:
    return pod is not None and "nodeName" in pod.raw["spec"]


async def measure(jobs: int, seconds: float) -> Result:
    """Run the load on a new control plane of three."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        site = ThreeSite(0, folder)
        await stack.enter_async_context(site.running())
        client = await stack.enter_async_context(await Client.connect(site.plane.kubeconfig))
        await make_room(client, site.plane, ROOM, PODS_EACH * jobs)
        return await Load(site, client, jobs, seconds).run()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=5.0)
    options = parser.parse_args()
    measured = asyncio.run(measure(options.jobs, 60 * options.minutes))
    print(measured)
    return 0 if measured.kept else 1


if __name__ == "__main__":
    sys.exit(main())
