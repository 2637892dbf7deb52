"""The built-in kinds with known fields: kubernetes.txt lists them as upstream publishes them.

Pods have the group references of several Kubernetes versions at once: `schedulingGroup` (1.36) and
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
# Endpoints and the second form of events have other fields under the type names of other kinds.
DESCRIBED = tuple(info for info in BUILT_IN if info not in (ENDPOINTS, EVENTS_V1))
"""The kinds with known fields; the others are stored without checks."""

# Fields of pods in Kubernetes 1.35 that 1.36 no longer has.
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
    """Return all types of the described kinds by name."""
    known = read(FILE.read_text("utf-8"), _EARLIER)
    pod = known["PodSpec"]
    known["PodSpec"] = replace(pod, fields=(*pod.fields, _WORKLOAD_REF))
    return known


_NAMES = {(info.group, info.plural): info.kind for info in DESCRIBED}


def type_name(group: str, plural: str) -> str | None:
    """Return the type of a kind's objects; None if its fields are not known."""
    return _NAMES.get((group, plural))


@functools.cache
def _decoder() -> Decoder:
    return Decoder(types())


def decode(group: str, plural: str, obj: dict[str, Any]) -> list[str]:
    """Drop the unknown fields of an object in place and return their paths.

    Kinds without known fields pass unchanged. Raises DecodingError.
    """
    name = _NAMES.get((group, plural))
    return [] if name is None else _decoder().read(name, obj)
