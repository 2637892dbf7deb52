"""An hour of arrivals and departures on the embedded cluster: does anything grow?

   python -m tools.bench.decisions.churn --minutes 60 --out report.md

Jobs arrive at random, run for a while, end and are deleted; nodes come, go and are cordoned. Each
minute adds one row: the memory and processor time of each process, the number of gangs that were
bound, and the time from a gang's last pod to its last Binding. The report is complete after each
row, so that one of an interrupted run is readable, too.
"""

import argparse
import asyncio
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from e2e.harness.clusters.local import Local
from e2e.harness.clusters.nodes import FINISH_ANNOTATION
from e2e.harness.muster import ALL, Muster
from e2e.harness.objects import NODE_LABEL, job
from e2e.harness.support.rest import MERGE_PATCH
from kube.base.errors import NotFound
from kube.client.client import Client
from kube.client.meta import Key, ObjectMeta
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, NAMESPACES, NODES, PODS
from kube.informers.reflector import Reflector

NAMESPACE: Final = "churn"
NODES_AT_ONCE: Final = 200
SIZES: Final = (1, 2, 4, 4, 4, 8, 16)
_JOB: Final = "batch.kubernetes.io/job-name"
_FINISH: Final = msgspec.json.encode(
    {"metadata": {"annotations": {FINISH_ANNOTATION: "Succeeded"}}}
)
_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")

MEMORY_LIMIT: Final = 1.1
"""Resident memory of Muster's processes at the end, divided by that after the first quarter."""
LATENCY_LIMIT: Final = 1.5
"""The median latency of the last third, divided by that of the second."""


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class Pod(msgspec.Struct, gc=False):
    metadata: ObjectMeta
    spec: _Spec


@dataclass(slots=True)
class Gang:
    """One Job by its observed pods: the bound ones by UID, and the time of the last arrival."""

    size: int
    seen: set[str] = field(default_factory=set)
    bound: dict[str, str] = field(default_factory=dict)
    came: float = 0.0


@dataclass(slots=True)
class Watch:
    """A sink of pods that measures; `latencies` are those of the current minute."""

    gangs: dict[str, Gang] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)
    living: set[Key] = field(default_factory=set)

    def upsert(self, obj: Pod) -> None:
        meta, now = obj.metadata, time.monotonic()
        self.living.add(meta.key)
        gang = self.gangs.get(meta.labels.get(_JOB, ""))
        if gang is None:
            return
        if meta.uid not in gang.seen:
            gang.seen.add(meta.uid)
            gang.came = now
        if obj.spec.node_name and meta.uid not in gang.bound:
            gang.bound[meta.uid] = meta.name
            if len(gang.bound) == len(gang.seen) == gang.size:
                self.latencies.append(now - gang.came)

    def delete(self, key: Key) -> None:
        self.living.discard(key)


@dataclass(frozen=True, slots=True)
class Row:
    """One minute."""

    minute: int
    gangs: int
    pods: int
    p50: float
    p99: float
    resident: dict[str, float]
    used: dict[str, float]


@dataclass(slots=True)
class Churn:
    """All changes of the cluster, from one seed."""

    client: Client
    cluster: Local
    group: asyncio.TaskGroup
    watch: Watch
    rate: float
    chance: random.Random
    nodes: list[str] = field(default_factory=list)
    made: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, part: Coroutine[Any, Any, None]) -> None:
        """Run it with the others; its failure ends all."""
        task = self.group.create_task(part)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def stop(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def prepare(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await self.client.create(NAMESPACES, body)
        for _ in range(NODES_AT_ONCE):
            await self._add_node(wait=False)

    async def arrivals(self) -> None:
        """Create Jobs at random times, `rate` a second on average."""
        number = 0
        while True:
            await asyncio.sleep(self.chance.expovariate(self.rate))
            number += 1
            self.start(self._life(f"job-{number}", self.chance.choice(SIZES)))

    async def changes(self) -> None:
        """Replace a node, or cordon one for a while."""
        while True:
            await asyncio.sleep(self.chance.expovariate(0.2))
            name = self.chance.choice(self.nodes)
            if self.chance.random() < 0.5:
                self.nodes.remove(name)
                await self.client.delete(NODES, name)
                await self._add_node(wait=False)
            else:
                await self._cordon(name, closed=True)
                await asyncio.sleep(self.chance.uniform(1, 5))
                await self._cordon(name, closed=False)

    async def _life(self, name: str, size: int) -> None:
        gang = self.watch.gangs[name] = Gang(size)
        body = job(name, NAMESPACE, pods=size)
        container = body["spec"]["template"]["spec"]["containers"][0]
        cpu = self.chance.choice(("100m", "250m", "500m", "1"))
        container["resources"]["requests"]["cpu"] = cpu
        await self.client.create(JOBS, body, NAMESPACE)
        # The running time of the gang.
        await asyncio.sleep(5 + self.chance.expovariate(1 / 25))
        for pod in list(gang.bound.values()):
            with suppress(NotFound):
                path = PODS.path(NAMESPACE, pod)
                await self.client.request("PATCH", path, body=_FINISH, content_type=MERGE_PATCH)
        await asyncio.sleep(3)  # the controller must see how it ended before the Job is deleted
        with suppress(NotFound):
            await self.client.delete(JOBS, name, NAMESPACE, propagation="Background")
        del self.watch.gangs[name]

    async def _add_node(self, *, wait: bool) -> None:
        name = f"node-{self.made}"
        self.made += 1
        await self.cluster.add_node(name, labels={NODE_LABEL: NAMESPACE}, wait=wait)
        self.nodes.append(name)

    async def _cordon(self, name: str, *, closed: bool) -> None:
        ops = PatchBuilder().add("/spec/unschedulable", closed)
        await self.client.patch(NODES, name, ops)


class Meter:
    """Memory and processor time of processes, from /proc."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._before = {name: cpu(pid) for name, pid in pids.items()}

    def resident(self) -> dict[str, float]:
        """Return the MiB of each."""
        return {name: resident(pid) for name, pid in self._pids.items()}

    def used(self) -> dict[str, float]:
        """Return the seconds of processor time of each since the last call."""
        now = {name: cpu(pid) for name, pid in self._pids.items()}
        used = {name: now[name] - self._before[name] for name in now}
        self._before = now
        return used


def resident(pid: int) -> float:
    """Return the MiB of physical memory of the process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * _PAGE_SIZE / 2**20


def cpu(pid: int) -> float:
    """Return the seconds of processor time of the process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _quantile(values: list[float], share: float) -> float:
    if not values:
        return math.nan
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def report(rows: list[Row], rate: float) -> tuple[str, bool]:
    """Return the rows as a page, and whether memory and latency stayed within limits."""
    names = list(rows[0].resident)
    lines = [
        f"{len(rows)} minutes on the embedded cluster.",
        f"{NODES_AT_ONCE} nodes, {rate:g} Jobs a second, a node changed about every 5 s.",
        "Latency: from a gang's last pod to its last Binding, as a watch sees both.",
        "",
        "| minute | gangs bound | pods there | P50 ms | P99 ms | "
        + " | ".join(f"{name} MiB / CPU s" for name in names)
        + " |",
        "|" + "---|" * (5 + len(names)),
    ]
    step = max(1, len(rows) // 12)
    for row in rows:
        if row.minute % step == 0 or row.minute in (1, len(rows)):
            cells = [f"{row.resident[n]:.1f} / {row.used[n]:.1f}" for n in names]
            lines.append(
                f"| {row.minute} | {row.gangs} | {row.pods} | {row.p50 * 1000:.0f} | "
                f"{row.p99 * 1000:.0f} | {' | '.join(cells)} |"
            )
    verdicts = list(_verdicts(rows))
    lines += ["", *(f"- {text}" for text, _ in verdicts), ""]
    return "\n".join(lines), all(good for _, good in verdicts)


def _verdicts(rows: list[Row]) -> list[tuple[str, bool]]:
    early, last = rows[(len(rows) - 1) // 4], rows[-1]
    verdicts = []
    for name in ALL:
        ratio = last.resident[name] / early.resident[name]
        text = f"{name}: memory at the end {ratio:.3f} of that in minute {early.minute}"
        verdicts.append((f"{text} (at most {MEMORY_LIMIT})", ratio <= MEMORY_LIMIT))
    third = len(rows) // 3
    if third:
        before = statistics.median(row.p50 for row in rows[third : 2 * third])
        after = statistics.median(row.p50 for row in rows[-third:])
        text = f"latency P50: last third {after / before:.2f} of the second"
        verdicts.append((f"{text} (at most {LATENCY_LIMIT})", after <= LATENCY_LIMIT * before))
    return verdicts


async def run(minutes: int, rate: float, seed: int, out: Path) -> bool:
    """Run the measurement; return whether nothing grew. A failed part ends all."""
    cluster = Local()
    await cluster.start()
    muster = Muster(cluster.kubeconfig)
    try:
        await muster.install()
        await muster.start(*ALL)
        pids = {name: muster.pid(name) for name in ALL} | {"localcluster": cluster.process.pid}
        meter = Meter(pids)
        async with (
            await Client.connect(cluster.kubeconfig) as client,
            asyncio.TaskGroup() as group,
        ):
            watch = Watch()
            churn = Churn(client, cluster, group, watch, rate, random.Random(seed))
            await churn.prepare()
            pods = Reflector(client, PODS, watch, decode=_decode, namespace=NAMESPACE)
            for part in (pods.run(), churn.arrivals(), churn.changes()):
                churn.start(part)
            good = await _observe(minutes, rate, watch, meter, out)
            churn.stop()
        return good
    finally:
        muster.stop()
        await cluster.stop()


async def _observe(minutes: int, rate: float, watch: Watch, meter: Meter, out: Path) -> bool:
    rows: list[Row] = []
    good = False
    for minute in range(1, minutes + 1):
        await asyncio.sleep(60)  # a row is a minute
        latencies, watch.latencies = watch.latencies, []
        p50, p99 = _quantile(latencies, 0.5), _quantile(latencies, 0.99)
        memory, used = meter.resident(), meter.used()
        rows.append(Row(minute, len(latencies), len(watch.living), p50, p99, memory, used))
        text, good = report(rows, rate)
        await asyncio.to_thread(out.write_text, text)
    return good


def _decode(data: bytes) -> Pod:
    return _decoder.decode(data)


_decoder = msgspec.json.Decoder(Pod)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.5, help="Jobs a second, of 5.6 pods each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="where the report goes")
    parsed = parser.parse_args()
    good = uvloop.run(run(parsed.minutes, parsed.rate, parsed.seed, parsed.out))
    print(parsed.out.read_text())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
