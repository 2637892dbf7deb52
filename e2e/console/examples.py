"""The example clusters of the page: running and pending workloads, and the history."""

import math

from e2e.console.clusters import (
    BLOCK,
    RACK,
    Contents,
    Json,
    ago,
    blocks,
    filled,
    listed,
    waiting,
)
from scheduler.core.explain.advice import available, need
from scheduler.core.state.shortage import BestDomain, Shortage

GANG = "research/Job/llama-pretrain"
"""The partially running workload of the small cluster."""

SCRIPT = "<img src=x onerror=document.title='taken'><script>document.title='taken'</script>"
TAG = "<img src=x onerror=document.title='taken'>"
"""A hostile name without a slash, which no name can contain."""
TURNED = "\u0634\u0628\u0643\u0629-\u05e9\u05dc\u05d5\u05dd-1"
OVERRIDE = "\u202eterces eht\u202c"
LONG = "a-name-of-253-characters." + "x" * 228
HOSTILE = (TAG, TURNED, LONG)


def small() -> Contents:
    """Return 48 nodes in two blocks, one gang that starts, and five that are pending."""
    contents = filled(Contents(blocks(2, 3, 8)))
    for number in range(1, 9):
        contents.full[f"node-1-1-{number}"] = 1.0
    for number in range(1, 9):
        contents.full[f"node-2-3-{number}"] = 0.0 if number > 2 else 0.5
    contents.flags["node-2-1-4"] = {"schedulable": False}
    contents.flags["node-2-1-5"] = {"ready": False, "schedulable": False}
    contents.queue = _queue()
    contents.workloads[GANG] = gang(GANG, running=12)
    contents.listed = [
        listed(GANG, "running", "Starting", running=12),
        listed("research/Job/train-1", "waiting", "Waiting"),
        listed("vision/JobSet/nightly", "finished", "Succeeded"),
        listed("vision/Pod/notebook", "running", "Running", pods=1, minimum=None),
    ]
    contents.history = history()
    return contents


def large() -> Contents:
    """Return 5,000 nodes: 20 blocks of 10 racks of 25."""
    contents = filled(Contents(blocks(20, 10, 25)))
    contents.queue = [
        waiting(number, "Unschedulable", "0/5000 nodes are available: 5000 Insufficient cpu.")
        for number in range(1, 201)
    ]
    contents.history = history()
    return contents


def hostile() -> Contents:
    """Return a cluster with names that do harm unless they are handled as text."""
    names = [f"{name}-{number}"[:253] for number, name in enumerate(HOSTILE)]
    contents = Contents({TAG: {TURNED: names[:2], LONG: names[2:]}})
    contents.full = dict.fromkeys(names, 0.5)
    contents.queue = [
        waiting(number, "Unschedulable", SCRIPT, name=name, namespace=TURNED, waits_for=SCRIPT)
        | {"nearest": {"key": SCRIPT, "value": LONG, "slots": 1, "needed": 2}}
        for number, name in enumerate(HOSTILE, 1)
    ]
    id_ = f"{TURNED}/PodGroup/{LONG}"
    contents.workloads[id_] = gang(id_, running=1) | {"yaml": SCRIPT}
    contents.listed = [
        listed(id_, "running", SCRIPT),
        *(listed(f"{TURNED}/{TAG}/{name}", "finished", SCRIPT) for name in HOSTILE),
    ]
    branch = contents.workloads[id_]["tree"]
    branch["children"][0] |= {"name": SCRIPT, "state": SCRIPT}
    branch["children"][0]["pods"][0] |= {"name": TURNED, "node": names[0], "state": SCRIPT}
    contents.workloads[id_]["timeline"].append(
        {"at": ago(1), "event": SCRIPT, "sentence": OVERRIDE + LONG, "by": SCRIPT}
    )
    contents.history = history() | {"utilisation": {name: [0.5] * 180 for name in HOSTILE}}
    contents.user = SCRIPT
    return contents


def _queue() -> list[Json]:
    return [
        waiting(
            1,
            "Nominated",
            "8 pods nominated to 8 nodes; 3 pods there must terminate",
            waits_for="3 pods to terminate",
            nearest={"key": RACK, "value": "b1-rack-2", "slots": 8, "needed": 8},
        ),
        waiting(
            2,
            "Preempting",
            "16 pods nominated to 4 nodes; 11 pods there must be evicted",
            waits_for="11 pods to terminate",
            nearest={"key": RACK, "value": "b2-rack-1", "slots": 9, "needed": 16},
        ),
        _refused(
            3,
            {
                "Insufficient cpu": 31,
                "node(s) didn't match Pod's node affinity/selector": 15,
                "node(s) were unschedulable": 2,
            },
            BestDomain(RACK, "b2-rack-3", 6),
            needed=24,
            age=5101,
        ),
        waiting(
            4,
            "Incomplete",
            'The group has 5 of 32 pods. If Job "train-4" creates no more pods, see its status '
            "and events.",
            waits_for="27 more pods",
            age=12,
        ),
        _refused(
            5,
            {
                "Insufficient nvidia.com/gpu": 44,
                "node(s) had untolerated taint {dedicated: infra}": 4,
            },
            BestDomain(BLOCK, "block-2", 2),
            needed=40,
            age=90_000,
        ),
    ]


def _refused(
    number: int, counts: dict[str, int], best: BestDomain, *, needed: int, age: float
) -> Json:
    slots = needed - best.missing
    return waiting(
        number,
        "Unschedulable",
        _no_room(counts, best, needed),
        f"capacity for {best.missing} more pods",
        nearest={"key": best.key, "value": best.value, "slots": slots, "needed": needed},
        age=age,
    )


def _no_room(counts: dict[str, int], best: BestDomain, needed: int) -> str:
    """Return the scheduler's sentences about a group that does not fit into one domain."""
    group = ("PodGroup", "research", "train")
    short = Shortage("capacity", group, "", needed, needed - best.missing, best=best)
    return f"{available(48, list(counts.items()))} {need(short)}"


def gang(id_: str, *, running: int, pods: int = 16) -> Json:
    """Return a Job of two groups with `running` running pods."""
    name = id_.rpartition("/")[2]
    groups = [
        _group(f"{name[:200]}-workers-{part}", range(8 * part, 8 * part + 8), running)
        for part in range(pods // 8)
    ]
    whole = running >= pods
    state = "Running" if whole else "Starting"
    return {
        "id": id_,
        "tree": {
            "kind": "Job",
            "name": name,
            "state": state,
            "counts": {"pods": pods, "bound": pods, "running": running, "minimum": pods},
            "conditions": [],
            "children": groups,
            "pods": [],
        },
        "timeline": _timeline(whole=whole),
        "conditions": [
            _condition(
                "PodGroupInitiallyScheduled",
                "True",
                "Scheduled",
                "minCount pods are scheduled.",
                44,
            ),
        ],
        "yaml": "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: llama-pretrain\n"
        "  namespace: research\nspec:\n  parallelism: 16\n  completions: 16\n"
        "  completionMode: Indexed\n",
    }


def _group(name: str, numbers: range, running: int) -> Json:
    pods = [
        {
            "name": f"{name}-{number}",
            "node": f"node-1-1-{number % 8 + 1}",
            "state": "Running" if number < running else "Bound",
            "since": ago(44 - number),
        }
        for number in numbers
    ]
    started = sum(pod["state"] == "Running" for pod in pods)
    return {
        "kind": "PodGroup",
        "name": name,
        "state": "Running" if started == len(pods) else "Starting",
        "counts": {"pods": 8, "bound": 8, "running": started, "minimum": 8},
        "conditions": [],
        "children": [],
        "pods": pods,
    }


def _condition(kind: str, status: str, reason: str, message: str, age: int) -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(age),
    }


def _timeline(*, whole: bool) -> list[Json]:
    first, second = (
        _no_room({"Insufficient cpu": 48}, BestDomain(RACK, "b1-rack-1", missing), 16)
        for missing in (16, 4)
    )
    scheduler = "muster-scheduler"
    events = [
        (400, "Created", "PodGroup llama-pretrain with minCount 16", None),
        (398, "Quorum", "16 of 16 pods exist; minCount is 16", None),
        (397, "Unschedulable", first, None),
        (180, "Unschedulable", second, None),
        (46, "Scheduled", "minCount pods are scheduled.", scheduler),
        (44, "Started", "the first of 16 pods started", None),
        *([(3, "All started", "16 pods started", None)] if whole else []),
    ]
    return [
        {"at": ago(age), "event": event, "sentence": sentence, "by": by}
        for age, event, sentence, by in events
    ]


def history(points: int = 180) -> Json:
    """Return three hours in steps of a minute: a wave of load, some preemptions, two blocks."""
    wave = [math.sin(step / 17) + math.sin(step / 5) / 3 for step in range(points)]
    return {
        "step": 60,
        "first": None,
        "at": [ago(60 * (points - step)) for step in range(points)],
        "waiting": [max(0, round(9 + 8 * height)) for height in wave],
        "arrivals": [max(0, round(3 * height + step % 3)) for step, height in enumerate(wave)],
        "preemptions": [1 if step % 29 == 3 else 0 for step in range(points)],
        "utilisation": {
            "block-1": [round(min(1, 0.8 + 0.15 * height), 3) for height in wave],
            "block-2": [round(max(0, 0.45 + 0.3 * height), 3) for height in wave],
        },
    }
