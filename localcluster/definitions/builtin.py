"""The built-in kinds whose fields are known: kubernetes.txt has them, as upstream publishes them.

Pods know the group references of several Kubernetes versions at once: `schedulingGroup` (1.36) and
`workloadRef` (1.35).
"""

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from localcluster.base.resources import BUILT_IN, ENDPOINTS, EVENTS_V1
from localcluster.definitions.decoding import Decoder
from localcluster.definitions.notation import Field, Type, read

FILE = Path(__file__).with_name("kubernetes.txt")
# Endpoints and the second form of events have types of the same names as others, and other fields.
DESCRIBED = tuple(info for info in BUILT_IN if info not in (ENDPOINTS, EVENTS_V1))
"""The kinds whose fields are known; the others are stored as they come."""

# What pods of Kubernetes 1.35 have and those of 1.36 have no more.
_EARLIER = """
WorkloadReference: A pod group within a workload.
  name! string: The workload.
  podGroup! string: The pod group's name within the workload.
  podGroupReplicaKey string: Tells copies of the same pod group apart.
"""
_WORKLOAD_REF = Field(
    "workloadRef", "WorkloadReference", False, {}, "The pod group that the pod belongs to."
)


@functools.cache
def types() -> Mapping[str, Type]:
    """All types that the described kinds consist of, by name."""
    known = read(FILE.read_text("utf-8"), _EARLIER)
    pod = known["PodSpec"]
    known["PodSpec"] = replace(pod, fields=(*pod.fields, _WORKLOAD_REF))
    return known


_NAMES = {(info.group, info.plural): info.kind for info in DESCRIBED}


def type_name(group: str, plural: str) -> str | None:
    """The type of a kind's objects; None if its fields are not known."""
    return _NAMES.get((group, plural))


@functools.cache
def _decoder() -> Decoder:
    return Decoder(types())


def decode(group: str, plural: str, obj: dict[str, Any]) -> list[str]:
    """Drop the unknown fields of an object in place and return their paths.

    Kinds whose fields are not known pass untouched. Raises DecodingError.
    """
    name = _NAMES.get((group, plural))
    return [] if name is None else _decoder().read(name, obj)
