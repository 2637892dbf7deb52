"""Decisions alone, without I/O: python -m tools.bench.decisions.decisions

The inputs are fixed. Each case is measured as in `tools.bench.report.frame`, and shown with its
range and the last stored result (tools/bench/results/decisions.json). `--record` stores the new
ones and updates docs/performance-results.md. Ends with 1 if a range was missed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator

from scheduler.core.decide import decide
from scheduler.core.explain.explain import explain
from scheduler.core.groups.forest import Group
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.equal_plans import preempt_equals
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.state.nominations import Nomination
from scheduler.core.state.state import State
from scheduler.core.values.model import POD_GROUP, GroupSpec
from tools.bench import page
from tools.bench.decisions.clusters import (
    GPU,
    cluster,
    composite,
    crowded,
    expecting_gang,
    full,
    gang,
    preemptor,
)
from tools.bench.decisions.events import decoded, memory, received, woken
from tools.bench.decisions.held import looks
from tools.bench.report import frame
from tools.bench.report.frame import Case, Measured, clock

_TOGETHER = 33
"""Equal pods that the scheduler plans together, including the first one."""


def one_large(nodes: int = 50_000, pods: int = 10_000) -> Iterator[float]:
    """Time a gang of equal pods."""
    state = cluster(nodes, gpus=8, cpu=64)
    yield placed(state, gang(state, "large", pods, wants=GPU))


def small_gangs(
    nodes: int = 5_000, gangs: int = 1_000, *, key: str | None = None
) -> Iterator[float]:
    """Time gangs of four, one after another."""
    state = cluster(nodes, gpus=8, cpu=64)
    groups = [gang(state, f"g{index}", 4, wants=GPU, key=key) for index in range(gangs)]
    for group in groups:
        yield placed(state, group)


def in_racks(nodes: int = 5_000, gangs: int = 750) -> Iterator[float]:
    """Time gangs of four, each in one rack of 50, on nodes for ten pods."""
    state = cluster(nodes)
    groups = [gang(state, f"g{index}", 4, key="rack") for index in range(gangs)]
    for group in groups:
        yield placed(state, group)


def expecting(
    nodes: int = 5_000, gangs: int = 1_000, *, stages: tuple[int, int] = (0, 0)
) -> Iterator[float]:
    """Time gangs of a large pod that exists and eight small ones to come, which get held places."""
    state = cluster(nodes, gpus=8, cpu=64)
    groups = [expecting_gang(state, f"g{index}", 8, stages=stages) for index in range(gangs)]
    for group in groups:
        yield placed(state, group)


def beside_held_places(nodes: int = 5_000, gangs: int = 1_000) -> Iterator[float]:
    """Time gangs of four without expected pods, while a thousand others hold eight places each."""
    state = cluster(nodes, gpus=8, cpu=64)
    for index in range(gangs):
        placed(state, expecting_gang(state, f"h{index}", 8))
    groups = [gang(state, f"g{index}", 4, wants=GPU) for index in range(gangs)]
    for group in groups:
        yield placed(state, group)


def three_levels(nodes: int = 20_000, trees: int = 8) -> Iterator[float]:
    """Time a tree: one zone, two blocks in it, four racks in each."""
    state = cluster(nodes, racks=max(20, nodes // 20))
    for number in range(trees):
        root = composite(state, f"t{number}", 2, "zone")
        for block in range(2):
            name = f"t{number}-{block}"
            composite(state, name, 4, "block", root.name)
            for rack in range(4):
                gang(state, f"{name}-{rack}", 16, key="rack", parent=name)
        start = clock()
        decision = place(state, root, SearchBudget())
        seconds = clock() - start
        if isinstance(decision, Refusal):  # the smallest cluster is full by then
            return
        yield seconds
        state.assume(decision.pods, decision.rows)


def refusal(nodes: int = 5_000) -> Iterator[float]:
    """Time the refusal of a gang that is one pod larger than the cluster, with the reasons."""
    state = cluster(nodes, gpus=1, cpu=64)
    yield from _refused(state, gang(state, "never", nodes + 1, wants=GPU))


def refusal_in_racks(nodes: int = 5_000) -> Iterator[float]:
    """Time the refusal of a gang that is one pod larger than any rack of 50."""
    state = cluster(nodes)
    yield from _refused(state, gang(state, "never", nodes // 50 * 10 + 1, key="rack"))


def preemption(
    nodes: int = 1_000, *, pods: int = 10, gangs: int = 200, racks: int = 50
) -> Iterator[float]:
    """Time gangs of one to twenty that evict groups of ten pods, with and without a rack."""
    state = full(nodes, pods=pods, racks=racks)
    state.units.refresh()
    for number in range(gangs):
        size = (1, 4, 8, 20)[number % 4]
        root = gang(state, f"p{number}", size, priority=9, key="rack" if number % 8 > 3 else None)
        start = clock()
        decision = place(state, root, SearchBudget())
        if isinstance(decision, Placement):  # complete units released more capacity than was needed
            state.assume(decision.pods, decision.rows)
            continue
        plan = preempt(state, root, decision, SearchBudget())
        yield clock() - start
        assert isinstance(plan, Plan)
        for unit in plan.victims:
            for uid in list(unit.pods):
                state.remove_pod(uid)
        state.assume(plan.placement.pods, plan.placement.rows)


def evicting_each(pods: int = 500, *, volumes: bool = False) -> Iterator[float]:
    """Time pods that evict three of four on a node each, before the first victim is deleted.

    Equal pods are planned together; with a volume of their own each they are not equal.
    """
    state = crowded(pods)
    waiting = [preemptor(state, number, volume=volumes) for number in range(pods)]
    state.units.refresh()
    while waiting:
        start = clock()
        refusal = decide(state, waiting[0], SearchBudget())
        assert isinstance(refusal, Refusal)
        plan = preempt(state, waiting[0], refusal, SearchBudget(), SearchEffort())
        assert isinstance(plan, Plan)
        evict(state, plan)
        roots = [] if volumes else waiting[1:_TOGETHER]
        more = (
            preempt_equals(state, roots, (refusal, plan), SearchBudget(), SearchEffort())
            if roots
            else []
        )
        yield clock() - start
        for each in more:
            evict(state, each)
        waiting = waiting[1 + len(more) :]


def evict(state: State, plan: Plan) -> None:
    """Nominate the nodes of the plan, and mark its victims as being evicted."""
    (pod,), (row,) = plan.placement.pods, plan.placement.rows
    places = ((pod.shape, ((state.nodes.name_of(row), 1),)),)
    state.nominations.set(Nomination(plan.root, pod.priority, places))
    assert len(plan.victims) == 3
    for unit in plan.victims:
        state.units.mark_evicting(unit.pods.values())


def placed(state: State, group: Group) -> float:
    """Return the seconds of the decision on a group that fits; assume its pods."""
    start = clock()
    decision = place(state, group, SearchBudget())
    seconds = clock() - start
    assert isinstance(decision, Placement)
    state.assume(decision.pods, decision.rows)
    return seconds


def _refused(state: State, root: Group) -> Iterator[float]:
    for number in range(20):
        # As after an event: no cached result is valid.
        state.set_group(GroupSpec((POD_GROUP, "ns", f"event-{number}"), 1))
        state.nodes.touch()
        start = clock()
        decision = place(state, root, SearchBudget())
        assert isinstance(decision, Refusal)
        explain(state, decision)
        yield clock() - start


CASES = (
    Case("10,000 equal pods on 50,000 nodes", one_large, {"total": 50}),
    Case("1,000 gangs x 4 on 5,000 nodes", small_gangs, {"total": 1_000}),
    Case("1,000 gangs x 4, a rack each, 5,000 nodes", lambda: small_gangs(key="rack"),
         {"total": 1_000}),
    Case("750 gangs x 4, one of 50 racks each, 5,000 nodes", in_racks, {"total": 750}),
    Case("1,000 gangs of one pod and 8 to come on 5,000 nodes", expecting, {"total": 2_000}),
    Case("the same in two stages", lambda: expecting(stages=(1, 2)), {"total": 4_000}),
    Case("1,000 gangs x 4 beside 8,000 held places", beside_held_places, {"total": 1_000}),
    Case("a look at 8,000 held places, 200 nodes changed", looks, {"P50": 10}),
    Case("trees of 128 pods on three levels, 20,000 nodes", three_levels, {"P50": 100}),
    Case("refusal with reasons, 5,000 nodes", refusal, {"P50": 10}),
    Case("refusal with reasons, 5,000 nodes in 50 racks", refusal_in_racks, {"P50": 10}),
    Case("preemption, 1,000 nodes, 10,000 pods in groups", preemption, {"P50": 10, "P99": 50}),
    Case("preemption, 500 equal pods, three victims each", evicting_each, {"total": 600}),
    Case("preemption, 500 pods with a volume, three victims each",
         lambda: evicting_each(volumes=True), {"total": 4_000}),
    Case("queue: an arriving pod, 5,000 gangs x 4", received, {"each": 0.1}),
    Case("queue: a node is freed, 2,000 refused gangs", woken, {"P50": 20}),
    Case("decoding a 6 KB pod event into the state", decoded, {"each": 0.1}),
)  # fmt: skip

MEMORY = ("memory of 5,000 nodes and 20,000 pods of 6 KB", "MiB", 120.0)


def run(cases: Iterable[Case], tell: Callable[[Measured], None]) -> list[Measured]:
    results = []
    for case in cases:
        for measured in frame.measure(case):
            results.append(measured)
            tell(measured)
    return results


def measure_memory() -> Measured:
    """Measure in a process that has done nothing else."""
    title, unit, limit = MEMORY
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return Measured(title, unit, pool.apply(memory), 0.0, limit)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="keep the results and show them")
    parser.add_argument("--only", default="", help="cases with these words in their title")
    options = parser.parse_args()
    last = frame.load(frame.DECISIONS)
    cases = [case for case in CASES if options.only in case.title]
    results = run(cases, lambda it: print(frame.table([it], last).splitlines()[-1], flush=True))
    if options.only in MEMORY[0]:
        results.append(measure_memory())
    print(frame.table(results, last))
    if options.record:
        frame.keep([*(last | {it.name: it for it in results}).values()], frame.DECISIONS)
        page.write()
    return 0 if all(measured.kept for measured in results) else 1


if __name__ == "__main__":
    sys.exit(main())
