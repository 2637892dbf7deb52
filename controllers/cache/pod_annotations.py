"""The annotations of each group's pods about their group, and their controllers. O(1) per event."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from api.integration.pods.groups_from_pods import GroupDescription
from controllers.cache.objects import Pod
from kube.client.meta import Key, OwnerReference
from kube.informers.cache import Cache

H = TypeVar("H", bound=Hashable)

Controller = tuple[str, str, str, str] | None
"""API version, kind, name and UID of a pod's controller; None if it has none."""

Listener = Callable[[Key], None]


@dataclass(slots=True)
class DescribingPods:
    """The active pods of one group that describe it, counted by description and by controller."""

    asks: Counter[GroupDescription] = field(default_factory=Counter)
    controllers: Counter[Controller] = field(default_factory=Counter)


class PodAsks:
    """A view of a pod cache that notifies listeners when the description of a group changes."""

    def __init__(self, pods: Cache[Pod]) -> None:
        """Follow the cache; a later subscriber of the cache sees counts that include its event."""
        self._groups: dict[Key, DescribingPods] = {}
        self.listeners: list[Listener] = []
        pods.subscribe(self._on_pod)

    def get(self, group: Key) -> DescribingPods | None:
        """Return the descriptions of the group by its pods; None if no pod describes it."""
        return self._groups.get(group)

    def keys(self) -> Iterator[Key]:
        """Yield the groups that pods describe, as of now."""
        return iter(list(self._groups))

    def subscribe(self, listener: Listener) -> None:
        """Call the listener with a group whenever its pods describe it differently."""
        self.listeners.append(listener)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        before, now = _description_in(old), _description_in(new)
        if before == now:
            return
        changed = set()
        # Count the new state first: a pod that changes its annotations must not leave the group
        # without any, as its listeners would then treat it as idle.
        if now is not None and self._count(now, 1):
            changed.add(now[0])
        if before is not None and self._count(before, -1):
            changed.add(before[0])
        for key in changed:
            for listener in self.listeners:
                listener(key)

    def _count(self, said: tuple[Key, GroupDescription, Controller], sign: int) -> bool:
        """Return True if a description or a controller appeared or disappeared."""
        key, ask, controller = said
        asked = self._groups.setdefault(key, DescribingPods())
        changed = [_add(asked.asks, ask, sign), _add(asked.controllers, controller, sign)]
        if not asked.asks:
            del self._groups[key]
        return any(changed)


def _description_in(pod: Pod | None) -> tuple[Key, GroupDescription, Controller] | None:
    if pod is None or pod.ask is None:
        return None
    return (pod.metadata.namespace, pod.groups[0]), pod.ask, _known(pod.controller)


def _known(reference: OwnerReference | None) -> Controller:
    if reference is None:
        return None
    return reference.api_version, reference.kind, reference.name, reference.uid


def _add(counts: Counter[H], value: H, sign: int) -> bool:
    """Return True if the value is the first of its kind, or the last one is removed."""
    before = counts[value]
    counts[value] += sign
    if not counts[value]:
        del counts[value]
    return 0 in (before, before + sign)
