"""The root groups that want capacity, and the needs of their waiting pods, from the caches only."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from api.constants import (
    ANNOTATION_PROVISIONING_REQUEST,
    MAX_DEPTH,
    MAX_EXPECTED_KINDS,
    MAX_EXPECTED_PODS,
)
from api.membership import pods_name
from api.provisioning import CLASSES, Root, pod_template, shape_of
from api.reading import integer, mapping
from controllers.cache.capacity_requests import RootKey
from controllers.cache.informers import BY_PARENT, Caches
from controllers.cache.objects import COMPOSITES, POD_GROUPS, Group
from kube.base.clock import Clock
from kube.client.meta import Json, Key
from kube.concurrency.pace import Pace

_KINDS: Final = {it.kind: it for it in (POD_GROUPS, COMPOSITES)}
_FOR_ROOM: Final = frozenset({"capacity", "constraint"})
"""Kinds of blockers that more nodes may resolve."""


@dataclass(slots=True)
class WaitingPods:
    """The pods of a root that wait for capacity, and those that it expects.

    `shapes` counts the pods for which the request stands. `samples` has a pod of each shape, and
    `templates` the result of `pod_template` for pods that do not exist yet. `others` counts pods
    without the annotation that the request stands for them.
    """

    shapes: Counter[bytes] = field(default_factory=Counter)
    samples: dict[bytes, Key] = field(default_factory=dict)
    templates: dict[bytes, Json] = field(default_factory=dict)
    others: int = 0


def asked_by(group: Group) -> str:
    """Return the class that a group's annotation requests; empty for none."""
    said = group.metadata.annotations.get(ANNOTATION_PROVISIONING_REQUEST, "")
    return said if said in CLASSES else ""


class WaitingRoots:
    """The roots of groups, and their pods."""

    def __init__(self, caches: Caches, clock: Clock) -> None:
        self._caches = caches
        self._pace = Pace("capacity requests", clock)

    def group(self, key: RootKey) -> Group | None:
        """Return the root of this key, unless it is missing, is being deleted or has a parent."""
        kind, namespace, name = key
        found = self._caches.groups(kind).get(namespace, name)
        if found is None or found.parent or found.metadata.deletion_timestamp is not None:
            return None
        return None if self._caches.is_terminating(namespace) else found

    def asking(self, kind: str, group: Group) -> RootKey | None:
        """Return the root of a group, if it wants capacity."""
        # Bounded, as users can write parents that form a cycle.
        for _ in range(MAX_DEPTH):
            if not group.parent:
                named = (kind, *group.metadata.key)
                return named if asked_by(group) else None
            above = self._caches.composites.get(group.metadata.namespace, group.parent)
            if above is None:
                return None
            kind, group = COMPOSITES.kind, above
        return None

    def waits_for_capacity(self, group: Group) -> bool:
        """Return True if the root's status states a blocker that capacity may resolve."""
        return group.blocked_by in _FOR_ROOM

    async def waiting(self, key: RootKey, group: Group) -> WaitingPods:
        """Return the waiting pods under a root; yield to other tasks if there are many."""
        found = WaitingPods()
        self._pace.begin()
        for leaf in self._leaves(key[0], group):
            members = list(self._caches.members(leaf))
            # Pods that exist count for the first entries of `expectedPods`, the rest is still to
            # come.
            for entry, count in to_come(leaf.expected, sum(pod.active for pod in members)):
                shape = shape_of(entry)
                found.shapes[shape] += count
                found.templates[shape] = _with_images(pod_template(entry))
            for pod in members:
                if not pod.waits:
                    continue
                # The autoscaler handles a pod without the annotation by itself. It would buy for it
                # twice.
                if pod.consumes != pods_name(group.metadata):
                    found.others += 1
                    continue
                found.shapes[pod.shape] += 1
                found.samples.setdefault(pod.shape, (pod.metadata.namespace, pod.metadata.name))
            if self._pace.over(key):
                await self._pace.give_way()
        return found

    def _leaves(self, kind: str, group: Group) -> list[Group]:
        """Return the PodGroups under a root."""
        # Bounded by the depth of a tree, as users can write a cycle.
        level = [(kind, group)]
        leaves: list[Group] = []
        for _ in range(MAX_DEPTH + 1):
            leaves += [each for kind, each in level if kind == POD_GROUPS.kind]
            above = [each.metadata.key for kind, each in level if kind == COMPOSITES.kind]
            level = [
                (kind, child)
                for parent in above
                for kind, cache in self._caches.group_caches()
                for child in cache.by_index(BY_PARENT, parent)
            ]
        return leaves


def to_come(expected: list[Any], came: int) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield the template of each entry of `expectedPods`, and the count of its missing pods."""
    # Owners that create some pods after others list the first ones first, so existing pods are
    # counted in this order.
    for entry in map(mapping, expected[:MAX_EXPECTED_KINDS]):
        count = min(max(0, integer(entry.get("count")) or 0), MAX_EXPECTED_PODS)
        there = min(came, count)
        came -= there
        if count > there:
            yield mapping(entry.get("template")), count - there


def _with_images(template: Json) -> Json:
    """Return the template with an image in each container."""
    # The API server requires an image, and expected pods state none. Nothing pulls it.
    for key in ("initContainers", "containers"):
        for container in template["spec"].get(key, ()):
            container.setdefault("image", "not-pulled")
    return template


def root_of(key: RootKey, group: Group) -> Root:
    """Return the root in the form of `api.provisioning`."""
    meta = group.metadata
    return Root(_KINDS[key[0]], meta.namespace, meta.name, meta.uid, pods_name(meta))
