"""Time from the scheduler's start to its first decision in a large cluster, and its memory.

   python -m tools.bench.components.startup --nodes 50000 --pods 200000

A server (`tools.bench.decisions.replay`) returns the lists in pages over TLS. The scheduler is a
process of its own, with imports and election. Its time ends when the server receives the first
Binding. Then the same process decides a few roots on its state, and prints the times.
"""

import argparse
import asyncio
import gc
import json
import ssl
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import uvloop
from prometheus_client import REGISTRY

from e2e.harness.support import kubeconfig, pki
from kube.base import process
from kube.base.settings import LeaderElection
from kube.client.client import Client
from scheduler.app import Scheduler
from scheduler.core.groups.forest import Group
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.state.state import State
from scheduler.core.values.model import POD_GROUP, GroupSpec, PodInfo, Requirements, Topology
from scheduler.support.config import Config
from tools.bench.decisions import replay

SECONDS: Final = 60.0
MEMORY_MIB: Final = 2048.0
_LIMITS: Final = {
    "10,000 equal pods": 0.050,
    "gang of 8": 0.010,
    "gang of 64 in a rack": 0.010,
    "refusal": 0.010,
}
_REPEATS: Final = 9
_LARGE: Final = 1000
"""Number of nodes from which decisions are measured: with fewer they do not fit."""

Json = dict[str, Any]


async def lead(nodes: int, pods: int) -> Json:
    """Run the server here and the scheduler as a child; return what both measured."""
    with tempfile.TemporaryDirectory() as folder:
        made = pki.issue(Path(folder))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(made.certificate, made.key)
        cluster = replay.Cluster(nodes, pods)
        server, url = await replay.serve(cluster, tls)
        access = Path(folder) / "kubeconfig"
        kubeconfig.write(access, server=url, ca_pem=made.ca_pem, token="bench")
        started = time.monotonic()
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tools.bench.components.startup", "--follow", str(access),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await child.communicate()
        server.close()
        if child.returncode:
            raise SystemExit(f"the scheduler ended with {child.returncode}")
    measured: Json = json.loads(out.splitlines()[-1])
    return measured | {
        "nodes": nodes,
        "pods": pods,
        "seconds": cluster.first_binding - started,
        "sent MiB": cluster.sent / 2**20,
    }


def follow(access: str) -> None:
    """Run the scheduler until it has decided; print its memory and its decision times."""
    process.configure_logging("scheduler", "info")

    async def main(stop: asyncio.Event) -> None:
        async with await Client.connect(access, user_agent="muster-scheduler") as client:
            scheduler = Scheduler(client, Config(), LeaderElection())
            running = asyncio.create_task(scheduler.run(stop))
            await _bound(replay.WAITING)
            state = scheduler.state
            measured = {"resident MiB": _resident("VmRSS"), "peak MiB": _resident("VmHWM"),
                        "cpu": time.process_time()}  # fmt: skip
            stop.set()
            await running
        large = state.nodes.size >= _LARGE
        print(json.dumps(measured | {"decisions": _decisions(state) if large else {}}))

    process.run(main)


async def _bound(count: int) -> None:
    """Wait until so many Bindings succeeded; the scheduler has no event for it."""
    while (_bindings() or 0) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.1)


def _bindings() -> float | None:
    return REGISTRY.get_sample_value("muster_scheduler_binds_total", {"result": "bound"})


def _resident(what: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    raise LookupError(what)


def _decisions(state: State) -> dict[str, float]:
    """Return the median seconds of several decisions of each kind, on the current state."""
    # Frozen objects are not scanned: the collector must not run into the measurement.
    gc.collect()
    gc.freeze()
    rack = Topology(replay.RACK)
    return {
        "10,000 equal pods": _median(state, _gang(state, "large", 10_000, cpu=250)),
        "gang of 8": _median(state, _gang(state, "small", 8, cpu=1000)),
        "gang of 64 in a rack": _median(state, _gang(state, "rack", 64, cpu=4000, topology=rack)),
        "refusal": _median(state, _gang(state, "never", 8, cpu=65_000)),
    }


def _gang(
    state: State, name: str, size: int, *, cpu: int, topology: Topology | None = None
) -> Group:
    key = (POD_GROUP, "default", name)
    state.set_group(GroupSpec(key, minimum=size, topology=topology, created="2026-11-21T08:00:00Z"))
    requirements = Requirements(requests=(("cpu", cpu), ("memory", 1 << 26)))
    for index in range(size):
        pod = f"{name}-{index}"
        state.set_pod(PodInfo(f"uid-{pod}", "default", pod, requirements, group=name))
    return state.forest.groups[key]


def _median(state: State, gang: Group) -> float:
    times = []
    for _ in range(_REPEATS):
        state.nodes.touch()  # as after any event
        started = time.perf_counter()
        decision = place(state, gang, SearchBudget())
        times.append(time.perf_counter() - started)
    wanted = Refusal if gang.key[2] == "never" else Placement
    assert isinstance(decision, wanted), (gang.key, decision)
    return statistics.median(times)


def report(measured: Json) -> tuple[str, bool]:
    """Return a table, and whether every figure is in its range."""
    per_pod = (
        (measured["resident MiB"] - measured["empty MiB"])
        * 1024
        / (measured["pods"] + measured["nodes"])
    )
    rows = [
        ("start to first Binding", measured["seconds"], SECONDS, "s"),
        ("resident memory", measured["resident MiB"], MEMORY_MIB, "MiB"),
        ("peak memory", measured["peak MiB"], MEMORY_MIB, "MiB"),
        *((f"decision: {name}", took * 1000, _LIMITS[name] * 1000, "ms")
          for name, took in measured["decisions"].items()),
    ]  # fmt: skip
    size = f"{measured['nodes']:,} nodes and {measured['pods']:,} running pods"
    sent = f"{measured['sent MiB']:,.0f} MiB of lists over TLS"
    cost = f"{measured['cpu']:.1f} s of processor time, {per_pod:.2f} KiB for each object"
    lines = [
        f"{size}, {sent}, {cost}:",
        "",
        "| | measured | at most |",
        "|---|---|---|",
        *(f"| {name} | {value:,.1f} {unit} | {most:,.0f} {unit} |"
          for name, value, most, unit in rows),
        "",
    ]  # fmt: skip
    return "\n".join(lines), all(value <= most for _, value, most, _ in rows)


async def _measure(nodes: int, pods: int) -> Json:
    empty = await lead(16, 0)
    return await lead(nodes, pods) | {"empty MiB": empty["resident MiB"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--pods", type=int, default=200_000)
    parser.add_argument("--out", type=Path, help="where the table goes, besides standard output")
    parser.add_argument("--follow", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.follow:
        follow(parsed.follow)
        return 0
    text, good = report(uvloop.run(_measure(parsed.nodes, parsed.pods)))
    print(text)
    if parsed.out:
        parsed.out.write_text(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
