"""Which nodes were nominated for the pods of roots, and what of it the API server was told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.core.groups.forest import Pod
from scheduler.core.values.model import GroupKey


@dataclass(slots=True)
class _Place:
    """`told`: the API server may have a node for the pod, this one or one from before."""

    node: str
    told: bool = False
    current: bool = False


class NominatedNodes:
    """By root and pod."""

    def __init__(self) -> None:
        self._places: dict[GroupKey, dict[Pod, _Place]] = {}

    def set(self, root: GroupKey, nodes: Mapping[Pod, str]) -> list[Pod]:
        """These are the root's from now on; returns those of its others that have to be cleared."""
        before = self._places.get(root, {})
        places = self._places[root] = {}
        for pod, node in nodes.items():
            known = before.pop(pod, None)
            same = known is not None and known.node == node
            places[pod] = known if known is not None and same else _Place(node, _told(known))
        return [pod for pod, place in before.items() if place.told]

    def adopt(self, root: GroupKey, nodes: Mapping[Pod, str]) -> None:
        """These pods have them already."""
        self._places[root] = {
            pod: _Place(node, told=True, current=True) for pod, node in nodes.items()
        }

    def withdraw(self, root: GroupKey) -> list[Pod]:
        """The root has none any more; returns those of its pods that have to be cleared."""
        return [pod for pod, place in self._places.pop(root, {}).items() if place.told]

    def take(self, root: GroupKey) -> dict[Pod, str]:
        """What the API server is not told yet; it counts as told from now on."""
        places = self._places.get(root, {})
        due = {
            pod: place.node for pod, place in places.items() if not place.current and pod.waiting
        }
        for pod in due:
            places[pod].told = places[pod].current = True
        return due

    def clear(self) -> None:
        self._places.clear()


def _told(place: _Place | None) -> bool:
    return place is not None and place.told
