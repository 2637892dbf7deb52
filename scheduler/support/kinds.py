"""The kinds of groups on an API server."""

from __future__ import annotations

from typing import Final

from api.constants import COMPOSITE_POD_GROUP, NATIVE_GROUP_KINDS, POD_GROUP

GROUPS: Final = {kind.kind: kind for kind in (POD_GROUP, COMPOSITE_POD_GROUP)}
"""Muster's PodGroups and CompositePodGroups, by kind."""

NATIVE_GROUPS: Final = {kind.full_kind: kind for kind in NATIVE_GROUP_KINDS}
"""Kubernetes' own PodGroups and CompositePodGroups, by the kind of their keys."""

GROUP_RESOURCES: Final = {**GROUPS, **NATIVE_GROUPS}
