"""The example clusters of the page: running and pending workloads, and the history."""

import math

from e2e.console.clusters import RACK, Contents, Json, ago, blocks, filled, waiting

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
    contents.history = history()
    return contents


def large() -> Contents:
    """Return 5,000 nodes: 20 blocks of 10 racks of 25."""
    contents = filled(Contents(blocks(20, 10, 25)))
    contents.queue = [
        waiting(number, "NoRoom", f"0 of 5,000 nodes have room for {8 * number} pods in one rack")
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
        waiting(number, "NoRoom", SCRIPT, name=name, namespace=TURNED, waits_for=SCRIPT)
        | {"nearest": {"key": SCRIPT, "value": LONG, "slots": 1, "needed": 2}}
        for number, name in enumerate(HOSTILE, 1)
    ]
    id_ = f"{TURNED}/PodGroup/{LONG}"
    contents.workloads[id_] = gang(id_, running=1) | {"yaml": SCRIPT}
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
            "8 of 8 pods have nominated nodes in b1-rack-2; 3 pods are still ending there",
            waits_for="3 pods that end within 30 s",
            nearest={"key": RACK, "value": "b1-rack-2", "slots": 8, "needed": 8},
        ),
        waiting(
            2,
            "Evicting",
            "16 pods take the place of 2 workloads with lower priority; 11 pods are still ending",
            waits_for="the eviction of batch/PodGroup/nightly",
            nearest={"key": RACK, "value": "b2-rack-1", "slots": 9, "needed": 16},
        ),
        waiting(
            3,
            "NoRoom",
            "0/48 nodes are available for 24 pods in one rack: 31 Insufficient cpu, "
            "15 node(s) didn't match Pod's node affinity/selector, 2 node(s) were unschedulable",
            nearest={"key": RACK, "value": "b2-rack-3", "slots": 18, "needed": 24},
            age=5120,
        ),
        waiting(
            4,
            "Unready",
            "5 of 32 pods exist; minCount is 32",
            waits_for="27 more pods of the Job",
            age=12,
        ),
        waiting(
            5,
            "NoRoom",
            "0/48 nodes are available for 40 pods in one block: 44 Insufficient nvidia.com/gpu, "
            "4 node(s) had untolerated taint(s)",
            nearest={
                "key": "topology.example.com/block",
                "value": "block-2",
                "slots": 38,
                "needed": 40,
            },
            age=90_000,
        ),
    ]


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
            _condition("PodGroupScheduled", "True", "Scheduled", "all 16 pods are bound", 44),
            _condition("Running", "True" if whole else "False", state, "", 12),
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
    events = [
        (400, "Created", "Job with 16 pods", None),
        (398, "Quorum", "16 of 16 pods exist; minCount is 16", None),
        (
            397,
            "Refused",
            "0/48 nodes are available for 16 pods in one rack: 48 Insufficient cpu",
            None,
        ),
        (180, "Refused", "the nearest is b1-rack-1: 12 of 16 pods fit", None),
        (60, "Preempts", "evicts batch/PodGroup/nightly, 8 pods of priority 0", None),
        (46, "Placed", "16 pods in b1-rack-1 of block-1", "muster-scheduler"),
        (44, "Bound", "16 of 16 pods", "muster-scheduler"),
        *([(3, "Whole", "all 16 pods run, 41 s after they were bound", None)] if whole else []),
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
        "at": [ago(60 * (points - step)) for step in range(points)],
        "waiting": [max(0, round(9 + 8 * height)) for height in wave],
        "arrivals": [max(0, round(3 * height + step % 3)) for step, height in enumerate(wave)],
        "preemptions": [1 if step % 29 == 3 else 0 for step in range(points)],
        "utilisation": {
            "block-1": [round(min(1, 0.8 + 0.15 * height), 3) for height in wave],
            "block-2": [round(max(0, 0.45 + 0.3 * height), 3) for height in wave],
        },
    }
