"""The history of a scenario: what the API server showed, and what the kit itself did.

It is plain data: `checks` judges it alone, so a stored history can be judged again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from kubernetes.utils.quantity import parse_quantity
from msgspec import Struct

GANG_LABEL = "gang-conformance/gang"
"""Label of the kit's pods: the name of their gang, or of their pods without one."""

RACK_LABEL = "gang-conformance/rack"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"

Json = dict[str, Any]


class Pod(Struct, frozen=True, kw_only=True):
    """What the checks need of a pod; `gang` is empty for a pod that is not of the kit."""

    uid: str
    name: str
    gang: str = ""
    node: str = ""
    priority: int = 0
    requests: Mapping[str, Decimal] = {}
    ending: bool = False
    """True once its deletion was requested."""
    finished: bool = False
    """True in the phases Succeeded and Failed."""
    scheduled: str = ""
    """The status of the condition PodScheduled."""
    reason: str = ""
    message: str = ""

    @property
    def placed(self) -> bool:
        return bool(self.node) and not self.ending and not self.finished


class Node(Struct, frozen=True, kw_only=True):
    """What the checks need of a node."""

    name: str
    allocatable: Mapping[str, Decimal] = {}
    rack: str = ""
    ready: bool = False


class PodSeen(Struct, frozen=True, tag="pod"):
    """A pod was created or changed."""

    at: float
    pod: Pod


class PodGone(Struct, frozen=True, tag="pod-gone"):
    """A pod no longer exists."""

    at: float
    uid: str


class NodeSeen(Struct, frozen=True, tag="node"):
    """A node was created or changed."""

    at: float
    node: Node


class Deleted(Struct, frozen=True, tag="deleted"):
    """The kit is about to delete these pods: none of them is an eviction."""

    at: float
    uids: Sequence[str]


class Removed(Struct, frozen=True, tag="removed"):
    """The kit is about to remove a gang with all its pods."""

    at: float
    gang: str


class Killed(Struct, frozen=True, tag="killed"):
    """The kit killed the scheduler."""

    at: float


class Awaited(Struct, frozen=True, tag="awaited"):
    """A state was reached, or was not in time. `wanted` states it in words."""

    at: float
    wanted: str
    reached: bool


class Settled(Struct, frozen=True, tag="settled"):
    """No placement changed for a while.

    `claims` has for each gang whether its group's status reports it as scheduled, None if its API
    has no such status.
    """

    at: float
    claims: Mapping[str, bool | None]


Event = PodSeen | PodGone | NodeSeen | Deleted | Removed | Killed | Awaited | Settled


class Board:
    """The pods and nodes at one moment of the history."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.gone: set[str] = set()
        self.nodes: dict[str, Node] = {}
        self.removed: set[str] = set()
        self.deleted: set[str] = set()

    def apply(self, event: Event) -> None:
        match event:
            case PodSeen(_, pod):
                self.pods[pod.uid] = pod
            case PodGone(_, uid):
                self.pods.pop(uid, None)
                self.gone.add(uid)
            case NodeSeen(_, node):
                self.nodes[node.name] = node
            case Deleted(_, uids):
                self.deleted.update(uids)
            case Removed(_, gang):
                self.removed.add(gang)

    def of(self, gang: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.gang == gang]

    def placed(self, gang: str) -> int:
        return sum(pod.placed for pod in self.of(gang))


def replay(history: Sequence[Event]) -> Iterator[tuple[Event, Board]]:
    """Yield each event with the board after it; the board is one object that changes."""
    board = Board()
    for event in history:
        board.apply(event)
        yield event, board


def pod_of(raw: Json) -> Pod:
    """Return a pod of the API as a value."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    scheduled = conditions.get("PodScheduled") or {}
    return Pod(
        uid=meta["uid"],
        name=meta["name"],
        gang=(meta.get("labels") or {}).get(GANG_LABEL, ""),
        node=spec.get("nodeName") or "",
        priority=spec.get("priority") or 0,
        requests=_requests(spec),
        ending="deletionTimestamp" in meta,
        finished=status.get("phase") in {"Succeeded", "Failed"},
        scheduled=scheduled.get("status", ""),
        reason=scheduled.get("reason", ""),
        message=scheduled.get("message", ""),
    )


def node_of(raw: Json) -> Node:
    """Return a node of the API as a value."""
    status = raw.get("status") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or []}
    taints = {taint["key"] for taint in raw["spec"].get("taints") or []}
    return Node(
        name=raw["metadata"]["name"],
        allocatable=_amounts(status.get("allocatable") or {}),
        rack=(raw["metadata"].get("labels") or {}).get(RACK_LABEL, ""),
        ready=conditions.get("Ready") == "True" and NOT_READY_TAINT not in taints,
    )


def _requests(spec: Json) -> dict[str, Decimal]:
    """Return the sum over the containers, and one pod."""
    total = {"pods": Decimal(1)}
    for container in spec["containers"]:
        requests = (container.get("resources") or {}).get("requests") or {}
        for name, amount in _amounts(requests).items():
            total[name] = total.get(name, Decimal(0)) + amount
    return total


def _amounts(raw: Mapping[str, str]) -> dict[str, Decimal]:
    return {name: _amount(text) for name, text in raw.items()}


def _amount(text: str) -> Decimal:
    """Return a quantity as a number; the client's own parser knows no exponents."""
    parse: Callable[[str], Decimal] = parse_quantity
    try:
        return Decimal(text)
    except InvalidOperation:
        return parse(text)
