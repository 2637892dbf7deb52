"""The cost of the console at 5,000 nodes and 20,000 pods, without I/O.

`python -m tools.bench.components.console` measures it.

Twelve pages are open. Cases are measured as in `tools.bench.report.frame`. The table shows their
ranges and the last stored result (tools/bench/results/console.json); `--record` stores the new one.
Ends with 1 if a range was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec

from console.base.protocols import Viewer
from console.following.following import Following
from console.following.history import RecentHistory
from console.serving.stream import Streams, StreamSubject
from console.state.state import ClusterState
from console.views import workload
from console.views.queue import Filters
from scheduler.core.values.model import PodInfo
from tools.bench.decisions.clusters import SMALL, cluster, gang
from tools.bench.report import frame
from tools.bench.report.frame import RESULTS, Case, clock

NODES: Final = 5_000
PODS: Final = 20_000
WAITING: Final = 500
GANG: Final = 64
ROUNDS: Final = 40
PATH: Final = RESULTS / "console.json"
ALL: Final = Viewer("admin", "one")


def watched(nodes: int = NODES, pods: int = PODS, waiting: int = WAITING) -> Following:
    """Return nodes in racks and blocks, each with a few pods, and gangs that wait for more."""
    state = cluster(nodes, racks=max(1, nodes // 25))
    for index in range(pods):
        uid = f"running-{index}"
        info = PodInfo(uid, "ns", uid, SMALL, node=f"n{index % nodes}", phase="Running")
        state.set_pod(info)
    for number in range(waiting):
        gang(state, f"w{number}", 4, key="block" if number % 2 else "rack")
    following = Following(ClusterState(state))
    following.refresh()
    return following


def updates(rounds: int = ROUNDS, *, viewers: int = 12) -> Iterator[float]:
    """Time an update: a gang of 64 starts on as many nodes, another comes, 64 pods end."""
    yield from asyncio.run(_updates(rounds, viewers))


async def _updates(rounds: int, viewers: int) -> list[float]:
    following = watched()
    state = following.cluster.state
    streams = Streams(following, RecentHistory(following))
    resources = ("cpu", "memory")
    wanted = [
        StreamSubject(map=number % 2 == 0, queue=True, resource=resources[number % 4 // 2])
        for number in range(viewers)
    ]
    wanted[-1] = StreamSubject(workload="ns/PodGroup/starts-0", queue=True)
    starting = gang(state, "starts-0", GANG)

    async def lasting() -> Viewer | None:
        return ALL

    async def read(asked: StreamSubject) -> int:
        return len([event async for event in streams.open(ALL, asked, lasting)])

    readers = [asyncio.create_task(read(each)) for each in wanted]
    await asyncio.sleep(0)
    streams.tick()
    spent = []
    for number in range(rounds):
        for at, pod in enumerate(list(starting.members.values())):
            node = f"n{(number * GANG + at) * 7 % NODES}"
            state.set_pod(replace(pod.info, node=node, phase="Running"))
            state.remove_pod(f"running-{number * GANG + at}")
        starting = gang(state, f"starts-{number + 1}", GANG)
        start = clock()
        streams.tick()
        spent.append(clock() - start)
        for _ in wanted:
            await asyncio.sleep(0)  # lets each reader take its events
    streams.end()
    told = await asyncio.gather(*readers)
    assert min(told) > rounds, told
    return spent


def quiet(rounds: int = 200) -> Iterator[float]:
    """Time an update without changes."""
    following = watched()
    streams = Streams(following, RecentHistory(following))
    streams.tick()
    for _ in range(rounds):
        start = clock()
        streams.tick()
        yield clock() - start


def maps(rounds: int = 10) -> Iterator[float]:
    """Time the complete map as JSON."""
    following = watched()
    for _ in range(rounds):
        start = clock()
        answer = msgspec.json.encode(following.map.full("cpu"))
        yield clock() - start
        assert len(answer) > 100 * NODES


def queues(rounds: int = 20) -> Iterator[float]:
    """Time the first 200 rows of the queue as JSON."""
    following = watched()
    for _ in range(rounds):
        start = clock()
        page = following.queue.page(ALL, Filters(), "", 200)
        msgspec.json.encode(page)
        yield clock() - start
        assert len(page.items) == 200


def searches(rounds: int = 20) -> Iterator[float]:
    """Time a search among all workloads."""
    following = watched()
    for _ in range(rounds):
        start = clock()
        found = workload.search(following.cluster, "w29", 30, ALL)
        yield clock() - start
        assert found.total > 1


def rooms(rounds: int = 20) -> Iterator[float]:
    """Time the largest gang of a shape in each rack, after a change."""
    following = watched()
    for number in range(rounds):
        following.cluster.state.remove_pod(f"running-{number}")
        following.refresh()
        start = clock()
        following.map.largest("cpu=2,memory=1Gi", "rack")
        yield clock() - start


CASES: Final = (
    Case("console: an update, 64 pods start and 64 end, 12 pages", updates, {"P50": 20}),
    Case("console: an update without changes", quiet, {"P50": 2}),
    Case("console: the whole map", maps, {"P50": 60}),
    Case("console: 200 rows of the queue", queues, {"P50": 20}),
    Case("console: a search", searches, {"P50": 20}),
    Case("console: the largest gang in each rack", rooms, {"P50": 10}),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="keep the results")
    parser.add_argument("--only", default="", help="cases with these words in their title")
    options = parser.parse_args()
    last = frame.load(PATH)
    results = [
        measured
        for case in CASES
        if options.only in case.title
        for measured in frame.measure(case, runs=3)
    ]
    print(frame.table(results, last))
    if options.record:
        frame.keep([*(last | {it.name: it for it in results}).values()], PATH)
    return 0 if all(measured.kept for measured in results) else 1


if __name__ == "__main__":
    sys.exit(main())
