"""Description of a life at the moment it fails."""

from collections.abc import Iterator

from api.constants import ANNOTATION_MADE_FOR, ANNOTATION_WAITING_FOR, LABEL_POD_GROUP
from e2e.faults.lives.state import State, labels, leaving, node_of, notes, phase, status_of
from e2e.harness.objects import Json

_COUNTS = ("active", "ready", "succeeded", "failed", "terminating", "failedIndexes", "restarts")


def seen(state: State) -> Iterator[str]:
    """Yield a line for each existing object."""
    for owner in (*state.jobsets, *state.jobs):
        yield _owner(owner)
    for workload in state.workloads:
        yield f"  {_name(workload)}, owners {_owners(workload)}"
    for group in (*state.composites, *state.groups):
        yield _group(group)
    for pod in state.pods:
        where = node_of(pod) or "no node"
        yield f"  {_name(pod)} {phase(pod)} on {where}, group {labels(pod).get(LABEL_POD_GROUP)}"


def _name(obj: Json) -> str:
    held = ", ".join(obj["metadata"].get("finalizers") or ())
    going = f" (being deleted, held by {held or 'nothing'})" if leaving(obj) else ""
    return f"{obj.get('kind', 'Pod')} {obj['metadata']['name']}{going}"


def _owners(obj: Json) -> str:
    found = obj["metadata"].get("ownerReferences") or ()
    return ", ".join(f"{each['kind']}/{each['name']}" for each in found) or "none"


def _owner(owner: Json) -> str:
    status = status_of(owner)
    counts = {key: status[key] for key in _COUNTS if status.get(key)}
    said = [c["type"] for c in status.get("conditions") or () if c["status"] == "True"]
    waits = notes(owner).get(ANNOTATION_WAITING_FOR)
    return f"  {_name(owner)} {counts} {said}" + (f", waits for: {waits}" if waits else "")


def _group(group: Json) -> str:
    policy = group["spec"].get("schedulingPolicy")
    made_for = notes(group).get(ANNOTATION_MADE_FOR, "").split("/")
    said = [
        f"{c['type']} {c['status']} {c.get('reason')}: {c.get('message')}"
        for c in status_of(group).get("conditions") or ()
    ]
    of = f"for {'/'.join(made_for[1:3])}, owners {_owners(group)}"
    return f"  {_name(group)} {policy} {of}: {' | '.join(said)}"
