"""What an administrator may have installed, read from the manifests that come with the commands.

They are the only list: what is added to `manifests/` is removed, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from api.reading import dig
from cli.packaged_manifests import folder_of, objects

NAMESPACE: Final = "muster-system"
LABEL: Final = "app.kubernetes.io/name"
"""Objects of ours have it, with the value `muster`; others of the same name are not touched."""
LABEL_VALUE: Final = "muster"

MADE_LATER: Final = (
    ("coordination.k8s.io", "Lease", "muster-controller"),
    ("coordination.k8s.io", "Lease", "muster-scheduler"),
    ("", "Secret", "muster-webhook-ca"),
    ("", "Secret", "muster-webhook-tls"),
)
"""What the processes, and cert-manager for them, make in Muster's namespace."""

_FOLDERS: Final = ("crd", "webhook", "base", "overlays/cert-manager", "protection")
_QUOTA: Final = "ResourceQuota"


@dataclass(frozen=True, slots=True)
class Item:
    """One object of the manifests; `labelled`: only one with Muster's label is meant."""

    group: str
    kind: str
    namespace: str
    name: str
    labelled: bool = True


def installed(namespace: str = NAMESPACE) -> list[Item]:
    """All that is removed, in the order of the manifests, with another namespace than usual."""
    found = {_item(obj, namespace): None for obj in _objects() if obj["kind"] != _QUOTA}
    later = (Item(*it[:2], namespace, it[2], labelled=False) for it in MADE_LATER)
    return [*found, *later]


def quotas() -> list[str]:
    """The names of the ResourceQuotas for namespaces of users."""
    return [obj["metadata"]["name"] for obj in _objects() if obj["kind"] == _QUOTA]


@cache
def _objects() -> tuple[dict[str, Any], ...]:
    found = (obj for folder in _FOLDERS for obj in objects(folder_of(folder)))
    return tuple(obj for obj in found if dig(obj, "metadata", "name"))


def _item(obj: dict[str, Any], namespace: str) -> Item:
    meta, kind = obj["metadata"], obj["kind"]
    group, _, _ = obj["apiVersion"].rpartition("/")
    name = namespace if kind == "Namespace" else meta["name"]
    where = namespace if "namespace" in meta else ""
    # What is in our namespace is ours, and the name of a CRD has our group in it.
    labelled = not where and kind != "CustomResourceDefinition"
    return Item(group, kind, where, name, labelled)
