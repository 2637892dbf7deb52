"""How soon another scheduler binds pods when the leader is gone.

   python -m tools.bench.components.failover --cluster real --rounds 50

Two schedulers run with the default times of leader election. In each round the leader is ended,
killed or stopped, and a pod is created at that moment. The report has the time until the pod is
bound by the other one, and the requests for leases of both while nothing happens.

With `--servers 3` there are three API servers, each with an etcd member, and one of each is killed
in turn, too.
"""

import argparse
import asyncio
import itertools
import json
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from e2e.harness.clusters.local import Local
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.high_availability.servers import ThreeServers
from e2e.harness.muster import ALL, CONFIG, NAMESPACE, SCHEDULER, Muster
from e2e.harness.objects import pod
from e2e.harness.support.waiting import eventually
from kube.base.errors import AlreadyExists, NotFound, ServerError, Unreachable
from kube.client.client import Client
from kube.client.resources import LEASES, PODS
from tools.bench.components.created import make_room
from tools.bench.report.frame import percentile

ROOM: Final = "bench-failover"
OTHER: Final = "second"
_REST: Final = 30.0
"""Seconds at rest in which requests for leases are counted."""

Act = Callable[[Muster, str], None]

WAYS: Final[Mapping[str, tuple[Act, float, float]]] = {
    "ended": (lambda muster, name: muster.send(name, signal.SIGTERM), 1.0, 3.0),
    "killed": (lambda muster, name: muster.kill(name), 5.0, 8.0),
    "stopped": (lambda muster, name: muster.send(name, signal.SIGSTOP), 5.0, 8.0),
}
"""What happens to the leader, and the ranges of the median and of the worst time in seconds."""
SERVER, ETCD = "apiserver-killed", "etcd-killed"
SERVERS: Final[Mapping[str, tuple[float, float]]] = {SERVER: (1.0, 8.0), ETCD: (1.0, 8.0)}
"""The process that is killed on one of three members, and the ranges of the times."""


@dataclass(frozen=True, slots=True)
class Way:
    """The seconds of all rounds in which one thing happened to the leader."""

    name: str
    seconds: Sequence[float]

    @property
    def kept(self) -> bool:
        """True if the median and the worst time are in their ranges."""
        median, worst = ranges(self.name)
        return statistics.median(self.seconds) < median and max(self.seconds) < worst

    def __str__(self) -> str:
        found = sorted(self.seconds)
        at = [percentile(found, percent) for percent in (50, 90, 99)]
        median, worst = ranges(self.name)
        return (
            f"| {self.name} | {len(found)} | {at[0]:.2f} s | {at[1]:.2f} s | {at[2]:.2f} s |"
            f" {found[-1]:.2f} s | < {median:g} s, < {worst:g} s |"
            f" {'kept' if self.kept else '**missed**'} |"
        )


def ranges(way: str) -> tuple[float, float]:
    """Return the limits of the median and of the worst time, in seconds."""
    return SERVERS[way] if way in SERVERS else WAYS[way][1:]


class Failover:
    """Two schedulers on a cluster; one leads."""

    def __init__(self, cluster: Cluster, muster: Muster, client: Client) -> None:
        self._cluster = cluster
        self._muster = muster
        self._client = client
        self._number = 0
        self._members = itertools.cycle(
            cluster.members if isinstance(cluster, ThreeServers) else ()
        )

    async def leader(self) -> str:
        """Wait until one of the two leads, and return its name."""
        found: list[str] = []

        async def probe() -> bool:
            lease = await self._client.get(LEASES, "muster-scheduler", NAMESPACE)
            holder = str(lease["spec"].get("holderIdentity"))
            found[:] = [
                name
                for name in (SCHEDULER, OTHER)
                if self._muster.running(name) and f"_{self._muster.pid(name)}_" in holder
            ]
            return bool(found)

        await eventually(partial(_reached, probe), "a scheduler to lead", 60)
        return found[0]

    async def bound(self) -> float:
        """Create a pod; return the seconds until it is bound."""
        self._number += 1
        name, begun = f"p{self._number}", time.monotonic()
        made = pod(name, ROOM)
        made["spec"]["terminationGracePeriodSeconds"] = 0

        async def create() -> bool:
            with suppress(AlreadyExists):  # the response to an earlier attempt was lost
                await self._client.create(PODS, made, ROOM)
            return True

        async def probe() -> bool:
            return "nodeName" in (await self._client.get(PODS, name, ROOM))["spec"]

        async def delete() -> bool:
            with suppress(NotFound):
                await self._client.delete(PODS, name, ROOM, grace_seconds=0)
            return True

        await eventually(partial(_reached, create), f"{name} to be created", 60)
        await eventually(partial(_reached, probe), f"{name} to be bound", 60)
        seconds = time.monotonic() - begun
        await eventually(partial(_reached, delete), f"{name} to be deleted", 60)
        return seconds

    async def round(self, way: str) -> float:
        """Let it happen; return the seconds until a pod is bound that is created then."""
        leader = await self.leader()
        await self.bound()
        if way in SERVERS:
            return await self._without(way)
        WAYS[way][0](self._muster, leader)
        seconds = await self.bound()
        await self._muster.restart(leader)
        return seconds

    async def _without(self, process: str) -> float:
        """Kill one of the three, and start it again afterwards."""
        assert isinstance(self._cluster, ThreeServers)
        member = next(self._members)
        name = member.server if process == SERVER else member.etcd
        self._cluster.kill(name)
        seconds = await self.bound()
        await self._cluster.restart(name)
        await self._cluster.ready(member)
        return seconds


async def _reached(act: Callable[[], Awaitable[bool]]) -> bool:
    """Return what the act returns; False if the server that had our connection is gone."""
    try:
        return await act()
    except (Unreachable, ServerError):
        return False


async def measure(cluster: Cluster, ways: Sequence[str], rounds: int) -> list[Way]:
    """Run all rounds, and print the requests at rest first."""
    # With the default times, other than all other end-to-end tests.
    config = {key: value for key, value in CONFIG.items() if key != "leaderElection"}
    muster = Muster(cluster.kubeconfig, config=config)
    try:
        await muster.install()
        await muster.start(*ALL)
        muster.add(OTHER, SCHEDULER, muster.kubeconfig(SCHEDULER))
        await muster.start(OTHER)
        async with await Client.connect(cluster.kubeconfig) as client:
            await make_room(client, cluster, ROOM, 10)
            failover = Failover(cluster, muster, client)
            await failover.bound()
            if logs := audit_logs(cluster):
                print(await at_rest(logs), flush=True)
            found: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(rounds):
                for way, seconds in found.items():
                    seconds.append(await failover.round(way))
            return [Way(way, seconds) for way, seconds in found.items()]
    finally:
        muster.stop()


def audit_logs(cluster: Cluster) -> Sequence[Path]:
    """Return the audit logs of all API servers, if known."""
    if isinstance(cluster, ThreeServers):
        return [member.audit_log for member in cluster.members]
    return [cluster.audit_log] if cluster.audit_log else []


async def at_rest(logs: Sequence[Path]) -> str:
    """Return the requests for Muster's leases in a second while nothing happens."""
    before = sum(map(_requests, logs), Counter[str]())
    await asyncio.sleep(_REST)
    counts = sum(map(_requests, logs), Counter[str]()) - before
    each = ", ".join(f"{verb}: {n / _REST:.2f}" for verb, n in sorted(counts.items()))
    return f"requests for leases in a second at rest: {each}"


def _requests(audit: Path) -> Counter[str]:
    """Return the requests for Muster's leases so far, by verb and name."""
    found = Counter[str]()
    for line in audit.read_text().splitlines(keepends=True):
        if not line.endswith("\n"):
            break  # it is being written
        event = json.loads(line)
        target = event.get("objectRef", {})
        name = target.get("name", "")
        if target.get("resource") == "leases" and name.startswith("muster-"):
            found[f"{event['verb']} {name}"] += event["stage"] == "ResponseComplete"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cluster", choices=("local", "real"), default="local")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--way", action="append", choices=[*WAYS, *SERVERS])
    parser.add_argument("--servers", type=int, choices=(1, 3), default=1, help="3: --cluster real")
    options = parser.parse_args()
    three = options.servers == 3
    wanted = options.way or [*WAYS, *(SERVERS if three else ())]
    if (not three and set(wanted) & set(SERVERS)) or (three and options.cluster != "real"):
        parser.error(f"--way {' and '.join(SERVERS)} are for --cluster real --servers 3")
    ways = asyncio.run(_on(options.cluster, wanted, options.rounds, three=three))
    print("| the leader is, or what is killed | rounds | P50 | P90 | P99 | worst | range | |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    print("\n".join(map(str, ways)))
    return 0 if all(way.kept for way in ways) else 1


async def _on(kind: str, ways: Sequence[str], rounds: int, *, three: bool) -> list[Way]:
    plane = ThreeServers if three else ControlPlane
    cluster = Local() if kind == "local" else plane(Options())
    try:
        await cluster.start()
        return await measure(cluster, ways, rounds)
    finally:
        await cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
