"""Decisions for gangs with device claims alone: `python -m bench.devices`.

Each case is decided by itself on a fresh state, as the cycle does for equal roots (`place_batch`)
and one by one (`place`). Times are the process's own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from scheduler.core.devices.asks import Ask, DeviceConstraint, DeviceRequest, exactly
from scheduler.core.devices.kinds import NOTHING
from scheduler.core.devices.model import (
    Attribute,
    DeviceClaimInfo,
    DeviceClassInfo,
    DeviceInfo,
    NodeScope,
    SliceInfo,
)
from scheduler.core.model import (
    POD_GROUP,
    GroupSpec,
    NodeInfo,
    PodInfo,
    Requirements,
)
from scheduler.core.place import Placement, SearchBudget, place
from scheduler.core.search.batching import place_batch
from scheduler.core.state import State

DRIVER = "gpu.example.com"


def judge(_expression: str, driver: str, _device: DeviceInfo) -> bool | str:
    """The one selector of the class: the driver's name."""
    return driver == DRIVER


def cluster(nodes: int, each: int) -> State:
    """Nodes with so many devices, each of which has a name of its own among its attributes."""
    state = State(judge=judge)
    state.devices.set_class(DeviceClassInfo("gpu", (f'device.driver == "{DRIVER}"',)))
    for at in range(nodes):
        name = f"n{at:05}"
        allocatable = {"cpu": 64_000, "memory": 1 << 38, "pods": 110}
        state.set_node(NodeInfo(name, allocatable, {"rack": f"r{at // 20}"}))
        devices = tuple(
            DeviceInfo(
                f"gpu-{number}",
                (
                    ("model", Attribute("string", "a100")),
                    ("rail", Attribute("int", number // 2)),
                    ("uuid", Attribute("string", f"{name}-{number}")),
                ),
            )
            for number in range(each)
        )
        state.devices.set_slice(SliceInfo(name, DRIVER, name, devices, NodeScope(name)))
    return state


def gangs(state: State, count: int, size: int, ask: Ask) -> None:
    """Gangs whose pods have a claim of their own each."""
    wants = Requirements((("cpu", 1000),), asks=(ask,))
    for gang in range(count):
        name = f"g{gang:05}"
        state.set_group(GroupSpec((POD_GROUP, "ns", name), size))
        for at in range(size):
            pod, key = f"{name}-{at}", ("ns", f"{name}-{at}-gpu")
            state.devices.set_claim(DeviceClaimInfo(key, key[1], ask, pod))
            state.set_pod(
                PodInfo(
                    pod, "ns", pod, wants, group=name, created=f"{gang:05}", device_claims=(key,)
                )
            )


def timed(work: Callable[[], int]) -> tuple[float, int]:
    start = time.process_time()
    done = work()
    return time.process_time() - start, done


def decide_each(state: State) -> int:
    """All gangs one by one, each assumed before the next."""
    placed = 0
    for group in list(state.forest.groups.values()):
        decision = place(state, group, SearchBudget())
        if isinstance(decision, Placement):
            state.assume(decision.pods, decision.rows, devices=decision.devices)
            placed += len(decision.pods)
    return placed


def decide_together(state: State) -> int:
    """All gangs as one batch."""
    placements = place_batch(state, list(state.forest.groups.values()), SearchBudget())
    for each in placements:
        state.assume(each.pods, each.rows, devices=each.devices)
    return sum(len(each.pods) for each in placements)


ONE = (exactly("gpu", "gpu"),)
PAIR = (exactly("gpu", "gpu", count=2),)
RAIL = (DeviceConstraint(f"{DRIVER}/rail"),)
CASES: dict[str, tuple[int, int, tuple[DeviceRequest, ...], tuple[DeviceConstraint, ...]]] = {
    "1,000 gangs of 4, one device each": (1000, 4, ONE, ()),
    "1,000 gangs of 4, two of one rail each": (1000, 4, PAIR, RAIL),
    "1 gang of 3,000, one device each": (1, 3000, ONE, ()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8)
    arguments = parser.parse_args()
    for name, (count, size, requests, constraints) in CASES.items():
        for how, decide in (("together", decide_together), ("one by one", decide_each)):
            state = cluster(arguments.nodes, arguments.devices)
            gangs(state, count, size, Ask(requests, constraints))
            sort, _ = timed(lambda state=state: _sort(state))  # type: ignore[misc]
            took, placed = timed(lambda state=state, decide=decide: decide(state))  # type: ignore[misc]
            searches = state.devices.states.searches
            print(
                f"{name}, {how}: {took * 1000:.0f} ms for {placed} pods,"
                f" {searches} searches; devices sorted in {sort * 1000:.0f} ms"
            )


def _sort(state: State) -> int:
    state.devices.sorting(NOTHING)
    return state.nodes.size


if __name__ == "__main__":
    main()
