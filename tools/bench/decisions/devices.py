"""Decisions for gangs with device claims, without I/O: python -m tools.bench.decisions.devices

Measured as in `tools.bench.decisions.decisions`, and shown with ranges. The last results are in
tools/bench/results/devices.json. `--record` stores the new ones and updates
docs/performance-results.md. Ends with 1 if a range was missed. `--states` shows the cost of a
decision on nodes in many different device states.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import statistics
import sys
from collections.abc import Callable, Iterator

from scheduler.core.devices.allocator import DevicesRefused, allocate
from scheduler.core.devices.kinds import NOTHING, watched_by
from scheduler.core.devices.layouts import FREE
from scheduler.core.devices.requests import ResolvedAsk, resolve
from scheduler.core.explain.explain import explain
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.batching import place_batch
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.state.state import State
from scheduler.core.values.device_asks import Ask, DeviceConstraint, exactly
from scheduler.core.values.devices import (
    AllocatedDevice,
    Attribute,
    DeviceInfo,
    NodeScope,
    SliceInfo,
)
from scheduler.core.values.model import POD_GROUP, GroupSpec
from scheduler.decoding.device_decode import resource_claim_info, slice_info
from scheduler.decoding.device_objects import decode_resource_claim, decode_resource_slice
from tools.bench import page
from tools.bench.decisions.clusters import full
from tools.bench.decisions.device_clusters import (
    DRIVER,
    ONE,
    PAIR_OF_A_POOL,
    PAIR_OF_A_RAIL,
    TWO_SHARES,
    cluster,
    full_of_holders,
    gang,
    give,
    hold,
    nodes_alone,
    parts_for_all,
    shared_by_all,
    slice_of,
)
from tools.bench.decisions.events import resident_mib
from tools.bench.report import frame
from tools.bench.report.frame import Case, Measured, clock

_STATES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def one_by_one(ask: Ask, nodes: int = 5_000, gangs: int = 1_000) -> Iterator[float]:
    """Time gangs of four, each decided by itself."""
    state = cluster(nodes)
    groups = [gang(state, f"g{at:05}", 4, ask) for at in range(gangs)]
    state.devices.sorting(NOTHING)
    for group in groups:
        start = clock()
        decision = place(state, group, SearchBudget())
        yield clock() - start
        assert isinstance(decision, Placement)
        state.assume(decision.pods, decision.rows, devices=decision.devices)


def together(nodes: int = 5_000, gangs: int = 1_000) -> Iterator[float]:
    """Time the same gangs in one batch."""
    state = cluster(nodes)
    groups = [gang(state, f"g{at:05}", 4, ONE) for at in range(gangs)]
    state.devices.sorting(NOTHING)
    start = clock()
    placements = place_batch(state, groups, SearchBudget())
    yield clock() - start
    assert placements


def one_large(*, known: bool, nodes: int = 5_000, pods: int = 3_000) -> Iterator[float]:
    """Time one gang with a claim for each pod, the first time or with all states known."""
    state = cluster(nodes)
    group = gang(state, "large", pods, ONE)
    state.devices.sorting(NOTHING)
    gc.collect()
    for again in (False, True):
        state.nodes.touch()
        start = clock()
        decision = place(state, group, SearchBudget())
        if again == known:
            yield clock() - start
        assert isinstance(decision, Placement)


def refusal(nodes: int = 5_000) -> Iterator[float]:
    """Time the refusal of a gang that lacks one device, with the reasons."""
    state = cluster(nodes)
    group = gang(state, "never", nodes * 8 + 1, ONE)
    place(state, group, SearchBudget())
    for number in range(8):
        # As after an event: no cached result is valid.
        state.set_group(GroupSpec((POD_GROUP, "ns", f"event-{number}"), 1))
        state.nodes.touch()
        start = clock()
        decision = place(state, group, SearchBudget())
        assert isinstance(decision, Refusal)
        explain(state, decision)
        yield clock() - start


def read(nodes: int = 5_000) -> Iterator[float]:
    """Time slices as the API server sends them, until their devices are sorted."""
    state = nodes_alone(nodes)
    lines = [_written(slice_of(f"n{at:05}", 8)) for at in range(nodes)]
    start = clock()
    for line in lines:
        state.devices.slices.set(slice_info(decode_resource_slice(line))[0])
    _sort(state, ONE)
    yield clock() - start


def slices_change(nodes: int = 5_000, times: int = 50) -> Iterator[float]:
    """Time a change of one node's slice by one device, until its devices are sorted."""
    state = cluster(nodes)
    _sort(state, ONE)
    for at in range(times):
        info = slice_of(f"n{at:05}", 7)
        start = clock()
        state.devices.slices.set(info)
        _sort(state, ONE)
        yield clock() - start


def claims_come(nodes: int = 5_000, claims: int = 2_000) -> Iterator[float]:
    """Time claims from the watch, allocated and reserved, until their devices are in use."""
    state = cluster(nodes)
    _sort(state, ONE)
    lines = [_claim(at) for at in range(claims)]
    gc.collect()
    start = clock()
    for line in lines:
        state.devices.set_claim(resource_claim_info(decode_resource_claim(line))[0])
    yield (clock() - start) / claims
    state.devices.refresh()


def searches() -> Iterator[float]:
    """Time searches that try much and find no allocation, until they are out of steps."""
    for devices in (32, 64, 128):
        infos = tuple(
            DeviceInfo(
                f"gpu-{at}", tuple((name, Attribute("int", at % by)) for name, by in _MODULI)
            )
            for at in range(devices)
        )
        state = nodes_alone(1)
        state.devices.slices.set(SliceInfo("n", DRIVER, "n", infos, NodeScope("n00000")))
        constraints = tuple(
            DeviceConstraint(f"{DRIVER}/{name}", distinct=True) for name, _ in _MODULI
        )
        ask = _resolved(Ask((exactly("gpu", "gpu", count=8),), constraints), state)
        sorting = state.devices.sorting(watched_by((ask,)))
        layout = sorting.layouts[int(sorting.column[0])]
        start = clock()
        found = allocate(layout, FREE, [(ask,)])
        yield clock() - start
        assert isinstance(found, DevicesRefused)
        assert found.cut


def for_all(state: State, ask: Ask, pods: int = 200) -> Iterator[float]:
    """Time pods one after another, with devices that every node reaches; without the first one."""
    for at in range(pods):
        group = gang(state, f"g{at:05}", 1, ask)
        start = clock()
        decision = place(state, group, SearchBudget())
        assert isinstance(decision, Placement)
        state.assume(decision.pods, decision.rows, devices=decision.devices)
        took = clock() - start
        give(state, decision.devices or {})
        if at:
            yield took


def evicting(state: State, *, claims: bool, gangs: int = 60) -> Iterator[float]:
    """Time gangs of one to twenty that take capacity, or devices, from groups of ten pods."""
    state.units.refresh()
    gc.collect()
    for number in range(gangs):
        size, key = (1, 4, 8, 20)[number % 4], "rack" if number % 8 > 3 else None
        root = gang(state, f"p{number}", size, ONE if claims else None, priority=9, key=key)
        start = clock()
        decision = place(state, root, SearchBudget())
        if isinstance(decision, Placement):
            state.assume(decision.pods, decision.rows, devices=decision.devices)
            continue
        plan = preempt(state, root, decision, SearchBudget())
        yield clock() - start
        assert isinstance(plan, Plan)
        for uid in [uid for unit in plan.victims for uid in unit.pods]:
            for claim in list(state.devices.consumers.claims_of(uid)):
                state.devices.remove_claim(claim)
            state.remove_pod(uid)
        placement = plan.placement
        state.assume(placement.pods, placement.rows, devices=placement.devices)


def in_states(count: int, nodes: int = 5_000) -> tuple[float, float]:
    """Time a gang of 50 on nodes in so many device states, before and after these are known."""
    state = cluster(nodes)
    for at in range(nodes):
        name = f"n{at:05}"
        # Each number is a state: its bits are the devices in use. 255 would leave none.
        used = [number for number in range(8) if at % count % 255 >> number & 1]
        for number in used:
            device = AllocatedDevice("gpu", (DRIVER, name, f"gpu-{number}"))
            hold(state, ("ns", f"{name}-{number}"), (device,), "other")
    _sort(state, ONE)
    group, took = gang(state, "gang", 50, PAIR_OF_A_RAIL), []
    for _ in range(2):
        state.nodes.touch()
        start = clock()
        assert isinstance(place(state, group, SearchBudget()), Placement)
        took.append(clock() - start)
    return took[0] * 1000, took[1] * 1000


_MODULI = (("a", 7), ("b", 11), ("c", 13))
"""Moduli of the distinct attributes. No eight devices have different remainders of seven, which no
count of devices reveals."""

CASES = (
    Case("1,000 gangs x 4, a device each, 5,000 nodes", lambda: one_by_one(ONE), {"total": 2_000}),
    Case("1,000 gangs x 4, two devices of a rail each, 5,000 nodes",
         lambda: one_by_one(PAIR_OF_A_RAIL), {"total": 2_000}),
    Case("1,000 gangs x 4, a device each, decided together", together, {"total": 2_000}),
    Case("3,000 pods with a device each, first time", lambda: one_large(known=False),
         {"total": 100}),
    Case("3,000 pods with a device each, states known", lambda: one_large(known=True),
         {"total": 30}),
    Case("refusal with reasons, 40,000 devices", refusal, {"P50": 15}),
    Case("40,000 devices read and sorted", read, {"total": 2_000}),
    Case("a slice of 5,000 changes", slices_change, {"P50": 1}),
    Case("an event of a claim", claims_come, {"each": 0.03}),
    Case("a search that runs out of steps", searches, {"P99": 50}),
    Case("a pod with two shares, 2,000 pools of all 5,000 nodes",
         lambda: for_all(shared_by_all(5_000, 2_000), TWO_SHARES), {"P50": 2}),
    Case("a pod with two partitions, 1,000 pools of all 5,000 nodes",
         lambda: for_all(parts_for_all(5_000, 1_000), PAIR_OF_A_POOL), {"P50": 10}),
    Case("preemption for devices, 1,000 nodes, 10,000 pods in groups",
         lambda: evicting(full_of_holders(1_000), claims=True), {"P50": 20, "P99": 100}),
)  # fmt: skip

MEMORY = ("memory of 400,000 devices on 50,000 nodes", "MiB", 500.0)
MANAGEMENT = ("preemption for devices beside preemption for room", "x", 2.0)


def memory(nodes: int = 50_000) -> float:
    """Return the MiB that the devices of existing nodes add to this process."""
    state = nodes_alone(nodes)
    gc.collect()
    before = resident_mib()
    for at in range(nodes):
        state.devices.slices.set(
            slice_info(decode_resource_slice(_written(slice_of(f"n{at:05}", 8))))[0]
        )
    _sort(state, PAIR_OF_A_RAIL)
    gc.collect()
    return round(resident_mib() - before, 1)


def measure_memory() -> Measured:
    """Measure in a process that has done nothing else."""
    title, unit, limit = MEMORY
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return Measured(title, unit, pool.apply(memory), 0.0, limit)


def measure_beside(rounds: int = 3) -> Measured:
    """Measure the median decision with devices as a multiple of that without, in turns."""
    title, unit, limit = MANAGEMENT
    ratios = []
    for _ in range(rounds):
        plain = statistics.median(evicting(full(1_000), claims=False))
        devices = statistics.median(evicting(full_of_holders(1_000), claims=True))
        ratios.append(devices / plain)
    spread = (max(ratios) - min(ratios)) / 2
    return Measured(title, unit, round(statistics.median(ratios), 2), round(spread, 2), limit)


def _sort(state: State, ask: Ask) -> None:
    state.devices.sorting(watched_by((_resolved(ask, state),)))


def _resolved(ask: Ask, state: State) -> ResolvedAsk:
    answer = resolve(ask, state.devices.classes)
    assert isinstance(answer, ResolvedAsk), answer
    return answer


def _written(info: SliceInfo) -> bytes:
    """Return the slice as the API server sends it."""
    devices = [
        {
            "name": device.name,
            "attributes": {name: {each.type: each.value} for name, each in device.attributes},
        }
        for device in info.devices
    ]
    pool = {"name": info.pool, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": info.driver, "pool": pool, "nodeName": info.name, "devices": devices}
    return json.dumps({"metadata": {"name": info.name, "uid": info.name}, "spec": spec}).encode()


def _claim(at: int) -> bytes:
    """Return the at-th claim, with its allocation and its pod, as the API server sends it."""
    name, node = f"c{at}", f"n{at:05}"
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": "gpu-0"}
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        "allocationTimestamp": "2026-11-01T08:00:00Z",
    }
    reserved = [{"resource": "pods", "name": f"pod-{at}", "uid": f"uid-{at}"}]
    metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(100 + at)}
    status = {"allocation": allocation, "reservedFor": reserved}
    spec = {"devices": {"requests": [request]}}
    return json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode()


def _show_states() -> None:
    print("| device states | first time | states known |\n| ---: | ---: | ---: |")
    for count in _STATES:
        first, known = in_states(count)
        print(f"| {count} | {first:.1f} ms | {known:.1f} ms |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="keep the results and show them")
    parser.add_argument("--only", default="", help="cases with these words in their title")
    parser.add_argument("--runs", type=int, default=frame.RUNS, help="of each case")
    parser.add_argument("--states", action="store_true", help="only over distinct device states")
    options = parser.parse_args()
    if options.states:
        _show_states()
        return 0
    last = frame.load(frame.DEVICES)
    results: list[Measured] = []
    for case in CASES:
        if options.only in case.title:
            results += frame.measure(case, options.runs)
            print(frame.table(results, last).splitlines()[-1], flush=True)
    whole: tuple[tuple[str, Callable[[], Measured]], ...] = (
        (MEMORY[0], measure_memory),
        (MANAGEMENT[0], measure_beside),
    )
    results += [measure() for title, measure in whole if options.only in title]
    print(frame.table(results, last))
    if options.record:
        frame.keep([*(last | {it.name: it for it in results}).values()], frame.DEVICES)
        page.write()
    return 0 if all(measured.kept for measured in results) else 1


if __name__ == "__main__":
    sys.exit(main())
