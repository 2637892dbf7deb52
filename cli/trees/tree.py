"""The trees of groups as users see them: owner, groups, members, and their nodes or blockers.

Pure: plain Kubernetes objects in, a forest of values out. The terminal view, the page and the plain
lines of the demo all draw the same values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from api import constants
from api.eviction import eviction_of
from api.groups import Form, groups_of_object
from api.membership import current_name_of
from api.reading import annotations_of, controller_of, dig, integer, is_true, text

Object = Mapping[str, Any]

_LEVELS: Final = 2 * constants.MAX_DEPTH
"""Levels of a tree that are shown, twice the allowed depth. A deeper tree is never scheduled."""
_GROUPS_OF_GROUPS: Final = frozenset(
    {constants.GROUP, constants.COSCHEDULING.group, constants.PLUGINS_POD_GROUP.group}
)

_COMPOSITE: Final = constants.COMPOSITE_POD_GROUP.kind
_GROUP: Final = constants.POD_GROUP.kind
_NATIVE_GROUP: Final = constants.NATIVE_POD_GROUP.full_kind
_NATIVE: Final = frozenset(it.full_kind for it in constants.NATIVE_GROUP_KINDS)

SCHEDULED: Final = constants.REASON_SCHEDULED
STARTING: Final = "Starting"
"""The state of a group whose pods have nodes, while its condition does not report that yet."""
WAITING: Final = "Waiting"


@dataclass(frozen=True, slots=True)
class Objects:
    """The input of the view: the items of lists, as the API server returned them."""

    jobsets: Sequence[Object] = ()
    jobs: Sequence[Object] = ()
    composites: Sequence[Object] = ()
    pod_groups: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    native_composites: Sequence[Object] = ()
    native_pod_groups: Sequence[Object] = ()
    nodes: Sequence[Object] = ()

    @property
    def groups(self) -> Iterator[tuple[str, Object]]:
        """All groups, each with its kind; that of a native one ends with its API group."""
        native_composite, native_group = (it.full_kind for it in constants.NATIVE_GROUP_KINDS)
        for kind, items in (
            (_COMPOSITE, self.composites),
            (_GROUP, self.pod_groups),
            (native_composite, self.native_composites),
            (native_group, self.native_pod_groups),
        ):
            yield from ((kind, obj) for obj in items)


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of the tree, and the lines below it.

    `minimum` is minCount or minGroupCount (None: no gang). `members` and `placed` count pods in
    every kind of branch. `nodes` maps a node's name to the number of the pods there. `held` is the
    number of held places for pods that do not exist yet.
    """

    kind: str
    namespace: str
    name: str
    state: str
    reason: str = ""
    minimum: int | None = None
    members: int = 0
    placed: int = 0
    nodes: Mapping[str, int] = field(default_factory=dict)
    children: tuple[Branch, ...] = ()
    held: int = 0


def build(objects: Objects) -> tuple[Branch, ...]:
    """Return every JobSet, Job, other owner, and group without one, each with the groups below it.

    A JobSet with a controller, such as a TrainJob, is below that.

    Order: namespace, then name; so the same objects always result in the same trees.
    """
    forest = _Forest(objects)
    owned = {
        (obj["metadata"].get("namespace", ""), uid)
        for _, obj in objects.groups
        # One with a parent may be in a tree that is not its owner's.
        for uid in (() if _parent(obj) else _owner_uids(obj))
    }
    roots = [
        _below_its_owner(obj, forest.owner(kind, obj))
        for kind, items in (("JobSet", objects.jobsets), ("Job", objects.jobs))
        for obj in items
        if _key_uid(obj) in owned
    ]
    owners = {_key_uid(obj) for obj in [*objects.jobsets, *objects.jobs]}
    others: dict[tuple[str, str, str], list[Branch]] = {}
    for kind, obj in objects.groups:
        namespace = obj["metadata"].get("namespace", "")
        if _parent(obj) or any((namespace, uid) in owners for uid in _owner_uids(obj)):
            continue
        above = _other_owner(obj)
        if above:
            others.setdefault((above[0], namespace, above[1]), []).append(forest.group(kind, obj))
        else:
            roots.append(forest.group(kind, obj))
    for key, children in others.items():
        below = tuple(sorted(children, key=lambda it: it.name))
        roots.append(branch_of(key, _all_state(below), children=below))
    return tuple(sorted(roots, key=lambda b: (b.namespace, b.name, b.kind)))


class _Forest:
    """Indexes over the listed objects; each is visited once."""

    def __init__(self, objects: Objects) -> None:
        self._pods: dict[tuple[str, str, str], list[Object]] = {}
        native = bool(objects.native_pod_groups)
        for pod in objects.pods:
            for reference in groups_of_object(pod, ours=False, native=native)[:1]:
                kind = _NATIVE_GROUP if reference.form is Form.NATIVE else _GROUP
                key = (kind, pod["metadata"]["namespace"], reference.name)
                self._pods.setdefault(key, []).append(pod)
        self._below: dict[tuple[str, str, str], list[tuple[str, Object]]] = {}
        self._tops: dict[tuple[str, str], list[tuple[str, Object]]] = {}
        for kind, obj in objects.groups:
            namespace = obj["metadata"].get("namespace", "")
            if parent := _parent(obj):
                above = (_composite_of(kind), namespace, parent)
                self._below.setdefault(above, []).append((kind, obj))
            else:
                for uid in _owner_uids(obj):
                    self._tops.setdefault((namespace, uid), []).append((kind, obj))

    def owner(self, kind: str, obj: Object) -> Branch:
        """Return a Job or JobSet with the roots of its trees."""
        children = tuple(self.group(k, o) for k, o in _by_name(self._tops.get(_key_uid(obj), ())))
        # Next to Muster's groups, a Job may have native ones that no pod names, without an effect.
        effective = [each for each in children if each.kind not in _NATIVE or each.members]
        ended = _ended(obj)
        if ended:
            # Its groups stay until it is deleted, and wait for no pod.
            children = tuple(_without_reason(each, ended) for each in children)
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        state = ended or _all_state(effective or children)
        return branch_of((kind, namespace, name), state, children=children)

    def group(self, kind: str, obj: Object, above: frozenset[str] = frozenset()) -> Branch:
        """Return a group with its descendants, down to `_LEVELS`; cycles are cut."""
        name, minimum = obj["metadata"]["name"], _minimum(obj)
        key = (kind, obj["metadata"].get("namespace", ""), name)
        if kind in (_GROUP, _NATIVE_GROUP):
            pods = self._pods.get((*key[:2], current_name_of(obj)), [])
            state, reason = _condition(obj, starting=_is_starting(obj, sum(map(_counts, pods))))
            nodes = [pod["spec"].get("nodeName", "") for pod in pods]
            return branch_of(key, state, reason, minimum, nodes=nodes, held=held_places(obj))
        ends = name in above or len(above) >= _LEVELS
        below = [] if ends else _by_name(self._below.get(key, ()))
        children = tuple(self.group(k, o, above | {name}) for k, o in below)
        # One child that is scheduled is not enough: the composite may need more of them.
        placed = sum(child.state in {SCHEDULED, STARTING} for child in children)
        starting = any(child.state == STARTING for child in children)
        starting = starting or (bool(children) and placed >= (minimum or 1))
        state, reason = _condition(obj, starting=starting)
        return branch_of(key, state, reason, minimum, children)


def _composite_of(kind: str) -> str:
    """Return the kind of the parents of groups of this kind."""
    return _COMPOSITE + kind.removeprefix(_COMPOSITE).removeprefix(_GROUP)


def branch_of(
    key: tuple[str, str, str],
    state: str,
    reason: str = "",
    minimum: int | None = None,
    children: tuple[Branch, ...] = (),
    *,
    nodes: Collection[str] = (),
    held: int = 0,
) -> Branch:
    """Return a branch with the sums of its children, and of its own pods and held places.

    `nodes` has the node of each of its own pods, empty for one without a node.
    """
    used = Counter(filter(None, nodes))
    for child in children:
        used.update(child.nodes)
    return Branch(
        *key,
        state,
        reason,
        minimum,
        members=len(nodes) + sum(child.members for child in children),
        placed=used.total(),
        nodes=dict(sorted(used.items())),
        children=children,
        held=held + sum(child.held for child in children),
    )


def _below_its_owner(obj: Object, branch: Branch) -> Branch:
    """Return the branch below the controller of its JobSet, such as a TrainJob."""
    above = controller_of(obj)
    if not above or branch.kind != "JobSet":
        return branch
    key = (above["kind"], branch.namespace, above["name"])
    return branch_of(key, branch.state, children=(branch,))


def _ended(owner: Object) -> str:
    """Return `Completed`, `Complete` or `Failed` for a JobSet or Job that has ended, or nothing."""
    ended = (it for it in ("Complete", "Failed") if is_true(owner, it))
    return text(dig(owner, "status", "terminalState")) or next(ended, "")


def _without_reason(branch: Branch, state: str) -> Branch:
    below = tuple(_without_reason(each, state) for each in branch.children)
    if branch.placed:
        return replace(branch, children=below)
    return replace(branch, state=state, reason="", children=below)


def _all_state(children: Iterable[Branch]) -> str:
    states = {child.state for child in children}
    if states == {SCHEDULED, STARTING}:
        return STARTING
    return states.pop() if len(states) == 1 else WAITING


def _is_starting(obj: Object, bound: int) -> bool:
    """Return true if more pods are bound than the status counts, or as many as the minimum.

    The scheduler writes the status after it has bound the pods.
    """
    counted = integer((obj.get("status") or {}).get("scheduledPods")) or 0
    return bound > counted or bound >= (_minimum(obj) or 1)


def _counts(pod: Object) -> bool:
    """Return true for a bound pod that counts for minCount, as it does for the scheduler."""
    leaving = pod["metadata"].get("deletionTimestamp") is not None
    failed = pod.get("status", {}).get("phase") == "Failed"
    return bool(pod["spec"].get("nodeName")) and not leaving and not failed


def _condition(obj: Object, *, starting: bool) -> tuple[str, str]:
    """Return `Scheduled` or the reason why the group waits, and the message that explains it.

    The condition of a group that is `starting` may be out of date.
    """
    status = obj.get("status", {})
    wanted = (
        constants.CONDITION_POD_GROUP_SCHEDULED,
        constants.CONDITION_COMPOSITE_SCHEDULED,
    )
    for condition in status.get("conditions", ()):
        if condition.get("type") in wanted:
            summary = status.get("blocker", {}).get("summary", "")
            if condition.get("status") == "True":
                # The condition stays True. With fewer than the minimum placed, the group waits
                # again; otherwise the blocker concerns only pods beyond the minimum.
                if not summary or not _is_below(obj):
                    return SCHEDULED, ""
                evicted = eviction_of(status)
                why = f"{evicted[:1].upper()}{evicted[1:]}. {summary}" if evicted else summary
                return (STARTING, "") if starting else (WAITING, why)
            if not starting:
                return condition.get("reason", WAITING), summary or condition.get("message", "")
    return (STARTING if starting else WAITING), ""


def _is_below(obj: Object) -> bool:
    """Return true if fewer than the minimum are placed."""
    status = obj.get("status", {})
    placed = status.get("scheduledPods", status.get("scheduledChildren", 0))
    return int(placed) < (_minimum(obj) or 1)


def held_places(obj: Object) -> int:
    """Return the number of held places in the group's status.

    A user may have written the status by hand, so any value is possible.
    """
    pods = ((obj.get("status") or {}).get("heldPlaces") or {}).get("pods") or ()
    return sum(max(0, integer(each.get("count")) or 0) for each in pods)


def _minimum(obj: Object) -> int | None:
    gang = obj.get("spec", {}).get("schedulingPolicy", {}).get("gang")
    return (gang.get("minCount") or gang.get("minGroupCount")) if gang else None


def _parent(obj: Object) -> str:
    return str(obj.get("spec", {}).get("parentCompositePodGroupName") or "")


def _owner_uids(obj: Object) -> list[str]:
    # The root of several owners is below none of them.
    if annotations_of(obj).get(constants.ANNOTATION_ROOT_OF):
        return []
    references = obj["metadata"].get("ownerReferences", ())
    return [ref["uid"] for ref in references if ref["kind"] in {"JobSet", "Job"}]


def _other_owner(obj: Object) -> tuple[str, str] | None:
    """Return kind and name of another controller of a group, such as a Deployment. It is not read.

    Groups that users wrote themselves do not count as controllers: a Workload, or a group of
    KEP-3370.
    """
    above = controller_of(obj)
    if not above or not annotations_of(obj).get(constants.ANNOTATION_MADE_FOR):
        return None
    group = text(above.get("apiVersion")).rpartition("/")[0]
    return None if group in _GROUPS_OF_GROUPS else (above["kind"], above["name"])


def _key_uid(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"].get("uid", "")


def _by_name(items: Iterable[tuple[str, Object]]) -> list[tuple[str, Object]]:
    return sorted(items, key=lambda item: item[1]["metadata"]["name"])
