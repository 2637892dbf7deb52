"""The YAML of a workload's owner, read when a viewer opens the workload."""

from __future__ import annotations

from typing import Any, Final

import yaml

from api.integration.kinds import CREATOR_KINDS, OWNER_KINDS
from kube.base.errors import KubeError
from kube.client.client import Client
from kube.client.resources import PODS, Resource
from scheduler.support.kinds import GROUPS, NATIVE_GROUPS

_RESOURCES: Final = NATIVE_GROUPS | {
    resource.kind: resource
    for resource in (
        *(it.kind for it in OWNER_KINDS.values()),
        *CREATOR_KINDS,
        PODS,
        *GROUPS.values(),
    )
}
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
LONGEST: Final = 512 * 1024
"""Characters that are shown."""


def resource_of(kind: str) -> Resource | None:
    """Return the resource for objects of this kind; None for a kind that is not read."""
    return _RESOURCES.get(kind)


async def owner_manifest(client: Client, id_: str) -> str:
    """Return the YAML of the object; empty for a kind that is not read, or a deleted object.

    The ID must be that of a workload in the state. Only then is it certain that it cannot be a path
    to another object.
    """
    namespace, kind, name = id_.split("/", 2)
    resource = resource_of(kind)
    if resource is None:
        return ""
    try:
        return _as_yaml(await client.get(resource, name, namespace))
    except KubeError:
        return ""


def _as_yaml(obj: dict[str, Any]) -> str:
    """Return the object as YAML, without its status and the fields that only servers use."""
    metadata = dict(obj.get("metadata") or {})
    metadata.pop("managedFields", None)
    notes = dict(metadata.get("annotations") or {})
    # kubectl's copy of the manifest would show everything twice.
    notes.pop(_LAST_APPLIED, None)
    metadata.pop("annotations", None)
    if notes:
        metadata["annotations"] = notes
    shown = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": metadata}
    shown |= {key: value for key, value in obj.items() if key not in (*shown, "status")}
    text = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n# cut off here\n"
