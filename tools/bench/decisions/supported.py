"""The numbers of objects that one installation supports, each with what it costs.

`python -m tools.bench.decisions.supported` measures the scheduler at these numbers, on a cluster of
15,000 nodes where nodes matter. `--record` stores the results and updates docs/scale.md. Times are
processor time of a quiet machine with two cores, as in `tools.bench.report.frame`.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from api.constants import GROUP, VERSION
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.state.state import State
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP
from scheduler.decoding.objects import decode_group, decode_workload
from scheduler.watch.event_handlers import GroupHandler
from scheduler.watch.object_handlers import workload_handler
from tools.bench import page
from tools.bench.decisions import events
from tools.bench.decisions.clusters import cluster, composite, gang
from tools.bench.decisions.events import resident_mib
from tools.bench.report import frame, supported_results
from tools.bench.report.frame import clock
from tools.bench.report.supported_results import Supported

NODES: Final = 15_000
_GANG: Final = 8

Json = dict[str, Any]


def held(kind: str, count: int) -> float:
    """Return the MiB that so many objects of a kind, read as watch events, add to a scheduler."""
    gc.collect()
    before = resident_mib()
    state = State()
    groups = GroupHandler(kind, state, lambda: None, {})
    workloads = workload_handler(state, lambda: None)
    for number in range(count):
        line = json.dumps(_object(kind, number)).encode()
        if kind == "Workload":
            workloads.upsert(decode_workload(line))
        else:
            groups.upsert(decode_group(line))
    gc.collect()
    assert kind == "Workload" or len(state.forest.groups) >= count
    return resident_mib() - before


def one_gang(pods: int, nodes: int = NODES) -> float:
    """Return the seconds of the decision about one gang of so many pods."""
    state = cluster(nodes, cpu=64)
    return _decided(state, lambda: gang(state, "g", pods).key)


def one_tree(leaves: int, nodes: int = NODES) -> float:
    """Return the seconds of the decision about a tree of four levels with so many PodGroups."""
    state = cluster(nodes, cpu=64, racks=nodes // 20)

    def load() -> tuple[str, str, str]:
        root = composite(state, "t", 2)
        for half in range(2):
            composite(state, f"t-{half}", 5, None, "t")
            for part in range(5):
                composite(state, f"t-{half}-{part}", leaves // 10, None, f"t-{half}")
                for leaf in range(leaves // 10):
                    gang(state, f"t-{half}-{part}-{leaf}", 4, parent=f"t-{half}-{part}")
        return root.key

    return _decided(state, load)


def woken(gangs: int, nodes: int = NODES) -> float:
    """Return the seconds until the queue has handled one ended pod, while so many gangs wait."""
    return next(events.woken(gangs, nodes, _GANG))


def measure() -> Iterator[Supported]:
    """Yield each supported number with its cost."""
    for what, (number, unit, run) in MEASURED.items():
        speed = frame.quick_loop() / frame.LOOP_MS * 1000
        cost = _alone(run, number)
        yield Supported(what, number, round(cost if unit == "MiB" else cost / speed, 3), unit)


MEASURED: Final[Mapping[str, tuple[int, str, Callable[..., float]]]] = {
    "PodGroups": (50_000, "MiB", partial(held, POD_GROUP)),
    "CompositePodGroups": (10_000, "MiB", partial(held, COMPOSITE_POD_GROUP)),
    "Workloads": (50_000, "MiB", partial(held, "Workload")),
    "pods in one PodGroup": (10_000, "s", one_gang),
    "PodGroups in one tree of four levels": (1_000, "s", one_tree),
    "gangs of eight that wait": (10_000, "s", woken),
}
"""What is counted: the supported number, the unit of its cost, and the function that returns it."""


def _alone(run: Callable[[int], float], count: int) -> float:
    """Return the cost in a process of its own, whose memory nothing else uses."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(run, (count,))


def _decided(state: State, load: Callable[[], tuple[str, str, str]]) -> float:
    root = state.forest.groups[load()]
    start = clock()
    decision = place(state, root, SearchBudget())
    end = clock()
    assert isinstance(decision, Placement), decision
    return end - start


def _object(kind: str, number: int) -> Json:
    """Return an object as Muster creates it for a JobSet, about 1 KB."""
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": f"js-{number}"}
    reference = owner | {"uid": f"5f0c2f8e-0000-4000-8000-{number:012}", "controller": True}
    count = "minCount" if kind == POD_GROUP else "minGroupCount"
    policy = {"schedulingPolicy": {"gang": {count: _GANG}}, "priorityClassName": "normal"}
    meta = {
        "name": f"pg-js-{number}",
        "namespace": f"team-{number % 100}",
        "uid": f"5f0c2f8e-1111-4000-8000-{number:012}",
        "resourceVersion": str(number),
        "creationTimestamp": "2026-11-01T08:00:00Z",
        "labels": {"app.kubernetes.io/managed-by": "muster"},
        "annotations": {"scheduling.muster.dev/made-for": f"jobset.x-k8s.io/JobSet/js-{number}/u"},
        "ownerReferences": [reference],
    }
    if kind == "Workload":
        return {"metadata": meta, "spec": {"podGroupTemplates": [{"name": "pg", **policy}]}}
    refers = {"workloadRef": {"workloadName": f"w-js-{number}", "templateName": "pg"}}
    return {"metadata": meta, "spec": {**refers, **policy}}


def created_workload(number: int) -> Json:
    """Return such a Workload, to be sent to an API server."""
    made = _object("Workload", number)
    # Without its owner, which does not exist: it would be garbage.
    for key in ("uid", "resourceVersion", "creationTimestamp", "ownerReferences"):
        del made["metadata"][key]
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Workload", **made}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="keep the results and show them")
    options = parser.parse_args()
    found = []
    for each in measure():
        found.append(each)
        print(each, flush=True)
    if options.record:
        supported_results.keep(found)
        page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
