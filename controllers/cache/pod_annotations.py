"""What the pods of each group say of it, and what manages them. O(1) per event."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from api.integration.pods.groups_from_pods import Ask
from controllers.cache.objects import Pod
from kube.client.meta import Key, OwnerReference
from kube.informers.cache import Cache

H = TypeVar("H", bound=Hashable)

Controller = tuple[str, str, str, str] | None
"""API version, kind, name and UID of what manages a pod; None where nothing does."""

Listener = Callable[[Key], None]


@dataclass(slots=True)
class Asked:
    """The active pods of one group that say what it is: how many say what, and are whose."""

    asks: Counter[Ask] = field(default_factory=Counter)
    controllers: Counter[Controller] = field(default_factory=Counter)


class PodAsks:
    """Follows a cache of pods, and tells its listener where a group is asked for differently."""

    def __init__(self, pods: Cache[Pod]) -> None:
        """Who subscribes to the cache later finds its events counted here."""
        self._groups: dict[Key, Asked] = {}
        self.listeners: list[Listener] = []
        pods.subscribe(self._on_pod)

    def get(self, group: Key) -> Asked | None:
        """What the pods of the group say; None where none says anything."""
        return self._groups.get(group)

    def keys(self) -> Iterator[Key]:
        """The groups that pods ask for, as of now."""
        return iter(list(self._groups))

    def subscribe(self, listener: Listener) -> None:
        """Call it with a group where its pods say something new, or nothing that they said."""
        self.listeners.append(listener)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        before, now = _said(old), _said(new)
        if before == now:
            return
        changed = set()
        # The new one first: a pod that says something else leaves no group without any.
        if now is not None and self._count(now, 1):
            changed.add(now[0])
        if before is not None and self._count(before, -1):
            changed.add(before[0])
        for key in changed:
            for listener in self.listeners:
                listener(key)

    def _count(self, said: tuple[Key, Ask, Controller], sign: int) -> bool:
        """Whether something is now said, or no longer."""
        key, ask, controller = said
        asked = self._groups.setdefault(key, Asked())
        changed = [_add(asked.asks, ask, sign), _add(asked.controllers, controller, sign)]
        if not asked.asks:
            del self._groups[key]
        return any(changed)


def _said(pod: Pod | None) -> tuple[Key, Ask, Controller] | None:
    if pod is None or pod.ask is None:
        return None
    return (pod.metadata.namespace, pod.groups[0]), pod.ask, _known(pod.controller)


def _known(reference: OwnerReference | None) -> Controller:
    if reference is None:
        return None
    return reference.api_version, reference.kind, reference.name, reference.uid


def _add(counts: Counter[H], value: H, sign: int) -> bool:
    """Whether the value is the first, or the last is gone."""
    before = counts[value]
    counts[value] += sign
    if not counts[value]:
        del counts[value]
    return 0 in (before, before + sign)
