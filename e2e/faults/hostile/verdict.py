"""The invariants of a settled cluster, checked without asking the scheduler.

Each function yields a line for each violation. `waiting_though_room` reports only certain ones: it
counts slots for the largest pod of a group, and omits cases that it cannot evaluate.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping

from api.constants import ANNOTATION_MADE_FOR, SCHEDULER_NAME
from e2e.faults.hostile.inventory import (
    Inventory,
    Key,
    allocatable,
    counts,
    ended,
    group_of,
    key_of,
    leaves,
    minimum,
    node_of,
    phase,
    priority,
    requested,
    required_key,
    waits,
)
from e2e.harness.objects import Json

ANYWHERE = ""
"""The domain of a group without a constraint."""


def faults(inventory: Inventory, whole: Callable[[Key], bool]) -> list[str]:
    """Return all violations; `whole` is True for a PodGroup that ever had enough running pods."""
    return [
        *half_gangs(inventory, whole),
        *overcommitted(inventory),
        *split(inventory),
        *waiting_though_room(inventory),
        *left_behind(inventory),
        *incomplete(inventory),
        *groupless(inventory),
    ]


def under_way(inventory: Inventory) -> list[str]:
    """Return what must finish before a verdict: deletions, starting pods, pending Bindings."""
    return [
        *(f"{_name(each)} is being deleted" for each in _all(inventory) if leaves(each)),
        *(f"{_name(pod)} starts" for pod in inventory.of("pods") if node_of(pod) and _starts(pod)),
        *(f"{_name(each)} is open" for each in inventory.of("reservations")),
        *(
            f"{_name(pod)} is on {node_of(pod)}, which is gone"
            for pod in inventory.of("pods")
            if node_of(pod) and not ended(pod) and node_of(pod) not in inventory.nodes
        ),
    ]


def incomplete(inventory: Inventory) -> Iterator[str]:
    """Yield Jobs without their pods and JobSets without their Jobs.

    A Job that lost a pod is omitted: its controller creates another after an increasing backoff.
    """
    owned: dict[str, int] = defaultdict(int)
    for each in (*inventory.of("pods"), *inventory.of("jobs")):
        for owner in each["metadata"].get("ownerReferences") or ():
            owned[owner["uid"]] += not leaves(each) and not ended(each)
    for job in inventory.of("jobs"):
        status, spec = job.get("status") or {}, job["spec"]
        if status.get("failed", 0) or _over(status):
            continue
        wanted = min(spec["parallelism"], spec["completions"] - status.get("succeeded", 0))
        if (there := owned[job["metadata"]["uid"]]) < wanted:
            yield f"{_name(job)} has {there} of {wanted} pods"
    for jobset in inventory.of("jobsets"):
        wanted = sum(each["replicas"] for each in jobset["spec"]["replicatedJobs"])
        there = owned[jobset["metadata"]["uid"]]
        if there < wanted and not _over(jobset.get("status") or {}):
            yield f"{_name(jobset)} has {there} of {wanted} Jobs"


def groupless(inventory: Inventory) -> Iterator[str]:
    """Yield pods that wait for a group that does not exist."""
    for pod in inventory.of("pods"):
        key = group_of(pod)
        if waits(pod) and key is not None and key not in inventory.groups:
            yield f"{_name(pod)} waits for PodGroup {_text(key)}, which is not there"


def half_gangs(inventory: Inventory, whole: Callable[[Key], bool]) -> Iterator[str]:
    """Yield gangs and trees that run partially and never ran completely."""
    satisfied: dict[Key, bool] = {}
    for key, group in inventory.groups.items():
        placed, need = _placed(inventory, key), minimum(group)
        satisfied[key] = placed >= need
        if 0 < placed < need and not whole(key):
            yield f"PodGroup {_text(key)} runs {placed} of {need} pods and never ran whole"
    for key, composite in inventory.composites.items():
        below = list(inventory.leaves(key))
        running = [leaf for leaf in below if _placed(inventory, leaf)]
        missing = [leaf for leaf in below if not satisfied[leaf] and not whole(leaf)]
        if running and missing and len(below) - len(missing) < minimum(composite):
            names = ", ".join(map(_text, missing))
            yield f"CompositePodGroup {_text(key)} runs in part; never ran: {names}"


def overcommitted(inventory: Inventory) -> Iterator[str]:
    for name, node in inventory.nodes.items():
        used = inventory.used(name)
        if used > allocatable(node):
            yield f"Node {name}: {used}m CPU asked for, {allocatable(node)}m there"


def split(inventory: Inventory) -> Iterator[str]:
    """Yield groups whose pods run in two domains of their required topology."""
    for key, group in inventory.groups.items():
        yield from _split(inventory, f"PodGroup {_text(key)}", group, [key])
    for key, composite in inventory.composites.items():
        below = list(inventory.leaves(key))
        yield from _split(inventory, f"CompositePodGroup {_text(key)}", composite, below)


def _split(inventory: Inventory, name: str, group: Json, below: Collection[Key]) -> Iterator[str]:
    if (key := required_key(group)) is None:
        return
    domains = _domains_of(inventory, key, below)
    if len(domains) > 1:
        yield f"{name} must share one {key} and is in {', '.join(sorted(domains))}"


def _domains_of(inventory: Inventory, key: str, below: Collection[Key]) -> set[str]:
    nodes = {
        node_of(pod)
        for leaf in below
        for pod in inventory.members[leaf]
        if node_of(pod) and counts(pod) and not ended(pod)
    }
    return {
        inventory.nodes[node]["metadata"]["labels"][key]
        for node in nodes
        if node in inventory.nodes
    }


def left_behind(inventory: Inventory) -> Iterator[str]:
    """Yield generated objects whose Job or JobSet is deleted and that have no running pods."""
    owners = {each["metadata"]["uid"] for each in (*inventory.of("jobs"), *inventory.of("jobsets"))}
    for plural in ("workloads", "compositepodgroups", "podgroups"):
        for each in inventory.of(plural):
            made_for = (each["metadata"].get("annotations") or {}).get(ANNOTATION_MADE_FOR)
            if made_for is None or made_for.rpartition("/")[2] in owners:
                continue
            if not any(_placed(inventory, leaf) for leaf in _leaves_of(inventory, each)):
                yield f"{_name(each)} is left, its owner {made_for} is gone"


def _leaves_of(inventory: Inventory, obj: Json) -> list[Key]:
    key = key_of(obj)
    if obj["kind"] == "PodGroup":
        return [key]
    if obj["kind"] == "CompositePodGroup":
        return list(inventory.leaves(key))
    named = (
        (leaf, (group["spec"].get("workloadRef") or {}).get("workloadName"))
        for leaf, group in inventory.groups.items()
    )
    return [leaf for leaf, workload in named if (leaf[0], workload) == key]


def waiting_though_room(inventory: Inventory) -> Iterator[str]:
    """Yield pending roots that fit, or would fit after evictions of less important pods."""
    room = _Room(inventory)
    for pod in inventory.of("pods"):
        if waits(pod) and group_of(pod) is None and _is_ours(pod):
            rank = int(pod["spec"].get("priority") or 0)
            if found := room.fits(ANYWHERE, None, 1, requested(pod), rank):
                yield f"{_name(pod)} waits, {found}"
    roots = {**inventory.groups, **inventory.composites}
    for key, group in roots.items():
        if not group["spec"].get("parentCompositePodGroupName"):
            yield from _root_waits(inventory, room, key, group)


def _root_waits(inventory: Inventory, room: "_Room", key: Key, root: Json) -> Iterator[str]:
    below = [key] if root["kind"] == "PodGroup" else list(inventory.leaves(key))
    waiting = [pod for leaf in below for pod in inventory.members[leaf] if waits(pod)]
    if not waiting or not _complete(inventory, key, root, below):
        return
    need = sum(max(0, minimum(inventory.groups[leaf]) - _placed(inventory, leaf)) for leaf in below)
    constraints = [required_key(root), *(required_key(each) for each in _under(inventory, key))]
    topology = next((each for each in constraints if each), None)
    pinned = _domains_of(inventory, topology, below) if topology else set[str]()
    if topology and pinned and (required_key(root) is None or len(pinned) > 1):
        return  # parts of a tree are pinned to domains, beyond this simple count
    size = max(map(requested, waiting))
    pin = next(iter(pinned), None)
    if found := room.fits(topology or ANYWHERE, pin, max(need, 1), size, priority(root)):
        yield f"{_name(root)} waits for {max(need, 1)} pods of {size}m CPU, {found}"


def _under(inventory: Inventory, key: Key) -> Iterator[Json]:
    for each, group in (*inventory.composites.items(), *inventory.groups.items()):
        if key in inventory.ancestors(each, group):
            yield group


def _complete(inventory: Inventory, key: Key, root: Json, below: Collection[Key]) -> bool:
    """Return True if every group of the tree exists and has the pods for its minimum."""
    children = defaultdict[Key, int](int)
    for each, group in (*inventory.composites.items(), *inventory.groups.items()):
        if parent := group["spec"].get("parentCompositePodGroupName"):
            children[each[0], parent] += 1
    composites = [each for each in _under(inventory, key) if each["kind"] == "CompositePodGroup"]
    if root["kind"] == "CompositePodGroup":
        composites.append(root)
    if any(children[key_of(each)] < minimum(each) for each in composites):
        return False
    return bool(below) and all(
        sum(counts(pod) for pod in inventory.members[leaf]) >= minimum(inventory.groups[leaf])
        for leaf in below
    )


class _Room:
    """The slots of the nodes for pods of one size, by the importance of evictable pods."""

    def __init__(self, inventory: Inventory) -> None:
        self._free: dict[str, int] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._lower: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for name, node in inventory.nodes.items():
            if usable(node):
                self._free[name] = allocatable(node) - inventory.used(name)
                self._labels[name] = node["metadata"]["labels"]
        for pod in inventory.of("pods"):
            place = node_of(pod)
            if place is not None and not ended(pod):
                self._lower[place].append((_rank(inventory, pod), requested(pod)))

    def fits(self, topology: str, pin: str | None, need: int, size: int, rank: int) -> str:
        """Describe the capacity for `need` pods in one domain; empty if there may be none."""
        for evicting in (False, True):
            slots: dict[str, int] = defaultdict(int)
            for node, free in self._free.items():
                domain = self._labels[node].get(topology) if topology else ANYWHERE
                if domain is None or (pin is not None and domain != pin):
                    continue
                lower = sum(asked for of, asked in self._lower[node] if of < rank)
                slots[domain] += max(0, free + evicting * lower) // size
            best = max(slots, key=lambda each: slots[each], default=None)
            if best is not None and slots[best] >= need:
                where = f" in {best}" if best else ""
                how = " once less important pods are evicted" if evicting else ""
                return f"and there is room for {slots[best]}{where}{how}"
        return ""


def _rank(inventory: Inventory, pod: Json) -> int:
    """Return the priority that protects a pod from eviction: its root's, but at least its own."""
    own = int(pod["spec"].get("priority") or 0)
    key = group_of(pod)
    if key is None or key not in inventory.groups:
        return own
    above = [inventory.composites[each] for each in inventory.ancestors(key, inventory.groups[key])]
    root = above[-1] if above else inventory.groups[key]
    return max(own, priority(root))


def usable(node: Json) -> bool:
    """Return True if new pods may be placed on the node."""
    ready = {c["type"]: c["status"] for c in node["status"].get("conditions") or ()}
    tainted = any(t["effect"] != "PreferNoSchedule" for t in node["spec"].get("taints") or ())
    return ready.get("Ready") == "True" and not tainted and not node["spec"].get("unschedulable")


def _placed(inventory: Inventory, key: Key) -> int:
    return sum(node_of(pod) is not None and counts(pod) for pod in inventory.members[key])


def _is_ours(pod: Json) -> bool:
    return bool(pod["spec"].get("schedulerName") == SCHEDULER_NAME)


def _starts(pod: Json) -> bool:
    return phase(pod) == "Pending" and not leaves(pod)


def _over(status: Json) -> bool:
    return any(
        c["type"] in ("Complete", "Completed", "Failed", "SuccessCriteriaMet", "FailureTarget")
        and c["status"] == "True"
        for c in status.get("conditions") or ()
    )


def _all(inventory: Inventory) -> Iterator[Json]:
    for plural, objects in inventory.objects.items():
        if plural != "nodes":
            yield from objects


def _text(key: Key) -> str:
    return "/".join(filter(None, key))


def _name(obj: Json) -> str:
    return f"{obj['kind']} {_text(key_of(obj))}"
