"""Decisions alone, no I/O: python -m bench.decisions

Fixed inputs; each case is timed over several runs and printed as median and spread, beside the
target it has to stay under.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.core.explain import explain
from scheduler.core.placement import Budget, Placement, Refusal, place
from scheduler.core.state import State
from scheduler.core.values import POD_GROUP, GroupSpec, NodeInfo, PodInfo, Requirements, Topology

RUNS = 5
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    target_ms: float
    prepare: Callable[[], State]
    decide: Callable[[State], None]


def cluster(nodes: int, *, gpus: int = 8, racks: int = 50) -> State:
    state = State()
    for index in range(nodes):
        allocatable = {"cpu": 64_000, "memory": 512 * GIB, "pods": 110, "nvidia.com/gpu": gpus}
        labels = {"rack": f"r{index % racks:03}", "kubernetes.io/hostname": f"n{index}"}
        state.set_node(NodeInfo(f"n{index}", allocatable, labels))
    return state


def gang(state: State, name: str, size: int, *, rack: bool = False, gpu: int = 1) -> None:
    topology = Topology("rack") if rack else None
    state.set_group(GroupSpec((POD_GROUP, "ns", name), size, topology=topology))
    wants = Requirements((("cpu", 4000), ("memory", 16 * GIB), ("nvidia.com/gpu", gpu)))
    for index in range(size):
        pod = f"{name}-{index}"
        state.set_pod(PodInfo(pod, "ns", pod, wants, group=name))


def decide(state: State, name: str) -> Placement | Refusal:
    return place(state, state.forest.groups[POD_GROUP, "ns", name], Budget())


def one_large() -> State:
    state = cluster(50_000)
    gang(state, "large", 10_000)
    return state


def decide_large(state: State) -> None:
    assert isinstance(decide(state, "large"), Placement)


def many_small(*, rack: bool) -> State:
    state = cluster(5_000)
    for index in range(1_000):
        gang(state, f"g{index}", 4, rack=rack)
    return state


def decide_all(state: State) -> None:
    for index in range(1_000):
        decision = decide(state, f"g{index}")
        assert isinstance(decision, Placement)
        state.assume(decision.pods, decision.rows)


def too_large() -> State:
    state = cluster(5_000, gpus=1)
    gang(state, "never", 5_001)
    return state


def refuse(state: State) -> None:
    decision = decide(state, "never")
    assert isinstance(decision, Refusal)
    explain(state, decision)


CASES = (
    Case("10,000 equal pods on 50,000 nodes", 50, one_large, decide_large),
    Case("1,000 gangs x 4 on 5,000 nodes", 1_000, lambda: many_small(rack=False), decide_all),
    Case("1,000 gangs x 4, a rack each, 5,000 nodes", 1_000,
         lambda: many_small(rack=True), decide_all),
    Case("refusal with reasons on 5,000 nodes", 10, too_large, refuse),
)  # fmt: skip


def measure(case: Case) -> tuple[float, float]:
    """Median and spread in milliseconds."""
    times = []
    for _ in range(RUNS):
        state = case.prepare()
        start = time.perf_counter()
        case.decide(state)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times), max(times) - min(times)


def main() -> int:
    late = 0
    for case in CASES:
        median, spread = measure(case)
        late += median > case.target_ms
        print(f"{case.name:45} {median:9.2f} ms  ±{spread:8.2f}  target {case.target_ms:6.0f} ms")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
