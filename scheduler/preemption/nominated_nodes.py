"""The nodes nominated for pods, and which of them the API server knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.core.groups.forest import Pod
from scheduler.core.values.model import GroupKey


@dataclass(slots=True)
class _NominatedNode:
    """One pod's node; `written` if the API server may have one for it, this or an earlier one."""

    node: str
    written: bool = False
    current: bool = False


class NominatedNodes:
    """The nominated nodes by root and pod."""

    def __init__(self) -> None:
        self._places: dict[GroupKey, dict[Pod, _NominatedNode]] = {}

    def set(self, root: GroupKey, nodes: Mapping[Pod, str]) -> list[Pod]:
        """Replace the root's nodes; return other pods whose nomination has to be cleared."""
        before = self._places.get(root, {})
        places = self._places[root] = {}
        for pod, node in nodes.items():
            known = before.pop(pod, None)
            # An unchanged node need not be written again.
            same = known is not None and known.node == node
            # The server may still have the pod's earlier node, which a withdrawal has to clear.
            places[pod] = (
                known if known is not None and same else _NominatedNode(node, _is_written(known))
            )
        return [pod for pod, place in before.items() if place.written]

    def adopt(self, root: GroupKey, nodes: Mapping[Pod, str]) -> None:
        """Record that these pods have these nodes already."""
        self._places[root] = {
            pod: _NominatedNode(node, written=True, current=True) for pod, node in nodes.items()
        }

    def withdraw(self, root: GroupKey) -> list[Pod]:
        """Forget the nodes of the root; return the pods whose nomination has to be cleared."""
        return [pod for pod, place in self._places.pop(root, {}).items() if place.written]

    def take(self, root: GroupKey) -> dict[Pod, str]:
        """Return the nodes that the API server does not know yet, and count them as known."""
        places = self._places.get(root, {})
        # A pod that is bound by now needs no nomination.
        due = {
            pod: place.node for pod, place in places.items() if not place.current and pod.waiting
        }
        for pod in due:
            places[pod].written = places[pod].current = True
        return due

    def clear(self) -> None:
        self._places.clear()


def _is_written(place: _NominatedNode | None) -> bool:
    return place is not None and place.written
