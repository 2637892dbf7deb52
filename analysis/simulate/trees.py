"""Trees of several owners in a simulation: the root, and the groups of each owner below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from api import names
from api.constants import ANNOTATION_ROOT_OF, COMPOSITE_POD_GROUP, POD_GROUP, WORKLOAD
from api.integration.common.objects import shared_by
from api.integration.common.trees import in_tree, root_object, tree_of
from api.integration.kinds import OWNER_KINDS
from api.reading import annotations_of
from kube.base.errors import ConfigError
from scheduler.core.state.state import State

Json = dict[str, Any]

_GROUPS = (WORKLOAD.kind, COMPOSITE_POD_GROUP.kind, POD_GROUP.kind)


def below_root(owner: Json, objects: Iterator[Json]) -> Iterator[Json]:
    """Yield the objects of an owner, groups first; if it is in a tree, below the root of that.

    The root comes first, with each of its owners.
    """
    groups: list[Json] = []
    for obj in objects:
        if obj["kind"] not in _GROUPS:
            objects = chain([obj], objects)
            break
        groups.append(obj)
    yield from _below_root(owner, groups)
    yield from objects


def _below_root(owner: Json, groups: list[Json]) -> Iterator[Json]:
    tree = tree_of(annotations_of(owner))
    if tree is None or not groups:
        yield from groups
        return
    namespace = owner["metadata"]["namespace"]
    shared = shared_by(tree, OWNER_KINDS[owner["kind"]].pod_specs(owner))
    yield root_object(namespace, shared, [])
    own = (it for it in groups if it["kind"] != WORKLOAD.kind)
    yield from in_tree(own, names.tree_root(namespace, tree.name))


def one_root_each(state: State, objects: Iterable[Json]) -> Iterator[Json]:
    """Yield the objects, of equal roots only the first, and none that the cluster has.

    Raises ConfigError for two roots of one name that differ.
    """
    seen: dict[tuple[str, str], Json] = {}
    for obj in objects:
        key = obj["metadata"].get("namespace", ""), obj["metadata"].get("name", "")
        if obj["kind"] != COMPOSITE_POD_GROUP.kind or ANNOTATION_ROOT_OF not in annotations_of(obj):
            yield obj
        elif seen.setdefault(key, obj) != obj:
            raise ConfigError(
                f"{obj['kind']} {key[1]}: the owners of a tree need the same annotation "
                "scheduling.muster.dev/tree, and the same priorityClassName"
            )
        elif seen[key] is obj and (obj["kind"], *key) not in state.known_groups:
            yield obj
