"""The built-in kinds whose fields are written down here.

Pods know the group references of several Kubernetes versions at once: `schedulingGroup` (1.36) and
`workloadRef` (1.35).
"""

import functools
from collections.abc import Mapping
from dataclasses import replace

from localcluster.definitions.batch import JOB
from localcluster.definitions.core import CORE
from localcluster.definitions.notation import Field, Type, inline, read
from localcluster.definitions.pods import META, POD
from localcluster.schemas.schema import Schema, parse

_KINDS = {
    ("", "pods"): "Pod",
    ("", "nodes"): "Node",
    ("", "namespaces"): "Namespace",
    ("", "configmaps"): "ConfigMap",
    ("", "secrets"): "Secret",
    ("", "events"): "Event",
    ("batch", "jobs"): "Job",
    ("scheduling.k8s.io", "priorityclasses"): "PriorityClass",
    ("coordination.k8s.io", "leases"): "Lease",
    ("policy", "poddisruptionbudgets"): "PodDisruptionBudget",
}
_SCHEDULING_GROUP = """
PodSchedulingGroup: The pod group that a pod belongs to.
  podGroupName string: The pod group.
"""


@functools.cache
def types() -> Mapping[str, Type]:
    """All types that the built-in kinds consist of, by name."""
    known = read(META, POD, JOB, CORE, _SCHEDULING_GROUP)
    text = "The pod group that the pod belongs to."
    group = Field("schedulingGroup", "PodSchedulingGroup", False, {}, text)
    known["PodSpec"] = replace(known["PodSpec"], fields=(*known["PodSpec"].fields, group))
    known["TemplateMeta"] = replace(known["ObjectMeta"], name="TemplateMeta")
    return known


def type_name(group: str, plural: str) -> str | None:
    """The type of a kind's objects; None if it is not written down."""
    return _KINDS.get((group, plural))


@functools.cache
def schema(group: str, plural: str) -> Schema | None:
    """The fields of a kind, for pruning; None if they are not written down."""
    name = type_name(group, plural)
    return None if name is None else parse(inline(types(), name))
