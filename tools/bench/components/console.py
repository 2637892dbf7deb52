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
from functools import partial
from typing import Final

import msgspec

from analysis.fit.messages import FitRequest, FitResult
from analysis.what_if.messages import FitQuestion
from console.base.messages import WorkloadsPage
from console.base.protocols import Creation, Viewer
from console.fit import LiveFit
from console.following.following import Following
from console.following.history import RecentHistory
from console.serving.stream import Streams, StreamSubject
from console.state.state import ClusterState
from console.views import workloads
from console.views.queue import Filters
from console.views.workloads import WorkloadFilters
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
        found = asyncio.run(_searched(following, "w29"))
        yield clock() - start
        assert found.total > 1


async def _searched(following: Following, text: str) -> WorkloadsPage:
    async def fresh() -> None:
        following.refresh()

    filters = WorkloadFilters(search=text)
    return await workloads.page(
        following.workloads, ALL, filters, "", 30, fresh=fresh, clock=following.clock
    )


def rooms(rounds: int = 20) -> Iterator[float]:
    """Time the largest gang of a shape in each rack, after a change."""
    following = watched()
    for number in range(rounds):
        following.cluster.state.remove_pod(f"running-{number}")
        following.refresh()
        start = clock()
        following.map.largest("cpu=2,memory=1Gi", "rack")
        yield clock() - start


def questions(cpu: str, count: int, *, topology: str = "", priority: str = "") -> Iterator[float]:
    """Time a question about a Job of so many pods of this size, from its JSON to its answer."""
    yield from asyncio.run(_questions(_body(cpu, count, topology, priority)))


async def _questions(body: bytes, rounds: int = 15) -> list[float]:
    answer = LiveFit(watched(), _NoProcess())

    async def may_create(_: Creation) -> bool:
        return True

    spent = []
    for _ in range(rounds):
        start = clock()
        request = msgspec.json.decode(body, type=FitRequest)
        msgspec.json.encode(await answer(request, ALL, may_create))
        spent.append(clock() - start)
    return spent


def _body(cpu: str, count: int, topology: str, priority: str) -> bytes:
    """Return the question about a gang; `priority` is the name of a class that it brings."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    pod = {"containers": [container], "priorityClassName": priority}
    asks = {"scheduling.muster.dev/gang-mode": "Gang"}
    if topology:
        asks["scheduling.muster.dev/topology"] = topology
    objects: list[dict[str, object]] = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j", "annotations": asks},
            "spec": {"parallelism": count, "completions": count, "template": {"spec": pod}},
        }
    ]
    if priority:
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        objects.append({**kind, "metadata": {"name": priority}, "value": 1000})
    return msgspec.json.encode({"workloads": [{"objects": objects}]})


class _NoProcess:
    """No process: all of it is decided on the live state."""

    async def fit(self, question: FitQuestion, viewer: Viewer) -> list[FitResult]:
        raise AssertionError(question.only, viewer)


CASES: Final = (
    Case("console: an update, 64 pods start and 64 end, 12 pages", updates, {"P50": 20}),
    Case("console: an update without changes", quiet, {"P50": 2}),
    Case("console: the whole map", maps, {"P50": 60}),
    Case("console: 200 rows of the queue", queues, {"P50": 20}),
    Case("console: a search", searches, {"P50": 20}),
    Case("console: the largest gang in each rack", rooms, {"P50": 10}),
    Case("console: fit, 64 pods", partial(questions, "1", GANG), {"P50": 100}),
    Case(
        "console: fit, 64 pods in a rack",
        partial(questions, "1", GANG, topology="rack"),
        {"P50": 100},
    ),
    Case("console: fit, 64 pods that do not fit", partial(questions, "9", GANG), {"P50": 100}),
    Case(
        "console: fit, 64 pods that evict others",
        partial(questions, "9", GANG, priority="high"),
        {"P50": 100},
    ),
    Case("console: fit, 8 pods", partial(questions, "1", 8), {"P50": 100}),
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
