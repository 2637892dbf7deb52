"""The resources of the kinds that the scheduler reads and writes, on an API server."""

from __future__ import annotations

from typing import Final

from api.constants import (
    COMPOSITE_POD_GROUP,
    NATIVE_GROUP_KINDS,
    POD_GROUP,
    RESERVATION,
    WORKLOAD,
)
from kube.client.resources import Resource

GROUPS: Final = {
    kind.kind: Resource(kind.group, kind.version, kind.plural, kind.kind)
    for kind in (POD_GROUP, COMPOSITE_POD_GROUP)
}
"""Muster's PodGroups and CompositePodGroups, by kind."""

NATIVE_GROUPS: Final = {
    kind.full_kind: Resource(kind.group, kind.version, kind.plural, kind.kind)
    for kind in NATIVE_GROUP_KINDS
}
"""Kubernetes' own PodGroups and CompositePodGroups, by the kind of their keys."""

GROUP_RESOURCES: Final = {**GROUPS, **NATIVE_GROUPS}

RESERVATIONS: Final = RESERVATION
WORKLOADS: Final = WORKLOAD
"""Workloads, with whose templates groups are compared."""
