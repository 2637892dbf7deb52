"""The built-in kinds whose fields are written down here.

Pods know the group references of several Kubernetes versions at once: `schedulingGroup` (1.36) and
`workloadRef` (1.35).
"""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from localcluster.definitions.admin import ADMIN, SCHEMA_EXTENSIONS, WEBHOOKS
from localcluster.definitions.batch import JOB
from localcluster.definitions.core import CORE
from localcluster.definitions.decoding import Decoder
from localcluster.definitions.notation import Field, Type, read
from localcluster.definitions.pods import META, POD

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
    ("apiextensions.k8s.io", "customresourcedefinitions"): "CustomResourceDefinition",
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): (
        "MutatingWebhookConfiguration"
    ),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): (
        "ValidatingWebhookConfiguration"
    ),
}
_SCHEDULING_GROUP = """
PodSchedulingGroup: The pod group that a pod belongs to.
  podGroupName string: The pod group.
"""


@functools.cache
def types() -> Mapping[str, Type]:
    """All types that the built-in kinds consist of, by name."""
    known = read(META, POD, JOB, CORE, ADMIN, WEBHOOKS, _SCHEDULING_GROUP)
    text = "The pod group that the pod belongs to."
    group = Field("schedulingGroup", "PodSchedulingGroup", False, {}, text)
    known["PodSpec"] = replace(known["PodSpec"], fields=(*known["PodSpec"].fields, group))
    known["TemplateMeta"] = replace(known["ObjectMeta"], name="TemplateMeta")
    words = tuple(
        Field(name, word, False, {}, "An extension of Kubernetes.")
        for name, word in SCHEMA_EXTENSIONS.items()
    )
    schema = known["JSONSchemaProps"]
    known["JSONSchemaProps"] = replace(schema, fields=(*schema.fields, *words))
    return known


def type_name(group: str, plural: str) -> str | None:
    """The type of a kind's objects; None if it is not written down."""
    return _KINDS.get((group, plural))


@functools.cache
def _decoder() -> Decoder:
    return Decoder(types())


def decode(group: str, plural: str, obj: dict[str, Any]) -> list[str]:
    """Drop the unknown fields of an object in place and return their paths.

    Kinds that are not written down pass untouched. Raises DecodingError.
    """
    name = _KINDS.get((group, plural))
    return [] if name is None else _decoder().read(name, obj)
