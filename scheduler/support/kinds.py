"""The resources of Muster's own kinds on an API server."""

from __future__ import annotations

from typing import Final

from api.constants import COMPOSITE_POD_GROUP, POD_GROUP, RESERVATION, WORKLOAD
from kube.client.resources import Resource

GROUPS: Final = {
    kind.kind: Resource(kind.group, kind.version, kind.plural, kind.kind)
    for kind in (POD_GROUP, COMPOSITE_POD_GROUP)
}
"""PodGroups and CompositePodGroups, by kind."""

RESERVATIONS: Final = Resource(*RESERVATION)
WORKLOADS: Final = Resource(*WORKLOAD)
"""Workloads, with whose templates groups are compared."""
