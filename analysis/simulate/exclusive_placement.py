"""Domains that the pods of a Job, a replica or a subgroup have alone, as pod affinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.reading import labels_of, mapping

Json = dict[str, Any]


def keep_apart(
    pod: Json,
    topology: str,
    label: str,
    *,
    leads: bool = True,
    among: str = "",
    scope: Mapping[str, Any] | None = None,
) -> None:
    """Keep the pod in one domain with those that have its value of the label.

    Pods that lead keep those with other values out of it: the first pod of a Job, the leader of a
    replica, all of a subgroup. If there is a label `among`, only those with its value of that are
    kept out. `scope` has the namespace fields of the terms.
    """
    spec = pod.setdefault("spec", {})
    affinity = spec["affinity"] = dict(mapping(spec.get("affinity")))
    said, scope = labels_of(pod), scope or {}
    _require(affinity, "podAffinity", topology, scope, _with(label, "In", said[label]))
    if leads:
        others = [{"key": label, "operator": "Exists"}, _with(label, "NotIn", said[label])]
        others += [_with(among, "In", said[among])] if among else []
        _require(affinity, "podAntiAffinity", topology, scope, *others)


def _with(label: str, operator: str, value: str) -> Json:
    return {"key": label, "operator": operator, "values": [value]}


def _require(
    affinity: Json, kind: str, topology: str, scope: Mapping[str, Any], *wanted: Json
) -> None:
    term = {"labelSelector": {"matchExpressions": list(wanted)}, "topologyKey": topology, **scope}
    said = dict(mapping(affinity.get(kind)))
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity[kind] = said | {field: [*(said.get(field) or ()), term]}
