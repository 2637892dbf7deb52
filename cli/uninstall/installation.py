"""Objects that an administrator may have installed, read from the packaged manifests.

An object that is added to `manifests/` is removed, too. This module names the objects that only the
chart has, and those for other operators, whose manifests get their namespace from kustomize.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from api.reading import dig
from cli.manifests.packaged_manifests import folder_of, objects

NAMESPACE: Final = "muster-system"
LABEL: Final = "app.kubernetes.io/name"
"""Label of Muster's objects, with the value `muster`. Others of the same name are not touched."""
LABEL_VALUE: Final = "muster"

MADE_LATER: Final = (
    ("coordination.k8s.io", "Lease", "muster-controller"),
    ("coordination.k8s.io", "Lease", "muster-scheduler"),
    ("", "Secret", "muster-webhook-ca"),
    ("", "Secret", "muster-webhook-tls"),
)
"""Objects that the processes, and cert-manager for them, create in Muster's namespace."""

MANAGEMENT: Final = (
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "muster-namespaces"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", "muster-namespaces"),
    ("monitoring.coreos.com", "ServiceMonitor", "muster"),
    ("monitoring.coreos.com", "PrometheusRule", "muster"),
    ("", "ConfigMap", "muster-dashboard"),
)
"""Objects that depend on the chart's values, and those of `manifests/monitoring`."""

_WIDE: Final = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

_FOLDERS: Final = ("crd", "webhook", "base", "overlays/cert-manager", "protection", "console")
_QUOTA: Final = "ResourceQuota"


@dataclass(frozen=True, slots=True)
class Item:
    """One object of the manifests. `labelled`: it counts only with Muster's label."""

    group: str
    kind: str
    namespace: str
    name: str
    labelled: bool = True


def installed(namespace: str = NAMESPACE) -> list[Item]:
    """Return all objects to remove, in the order of the manifests, in this namespace."""
    found = {_item(obj, namespace): None for obj in _objects() if obj["kind"] != _QUOTA}
    later = (Item(*it[:2], namespace, it[2], labelled=False) for it in MADE_LATER)
    return [*found, *(_permission_item(*it, namespace) for it in MANAGEMENT), *later]


def quotas() -> list[str]:
    """Return the names of the ResourceQuotas for namespaces of users."""
    return [obj["metadata"]["name"] for obj in _objects() if obj["kind"] == _QUOTA]


def _permission_item(group: str, kind: str, name: str, namespace: str) -> Item:
    wide = kind in _WIDE
    return Item(group, kind, "" if wide else namespace, name, labelled=wide)


@cache
def _objects() -> tuple[dict[str, Any], ...]:
    found = (obj for folder in _FOLDERS for obj in objects(folder_of(folder)))
    return tuple(obj for obj in found if dig(obj, "metadata", "name"))


def _item(obj: dict[str, Any], namespace: str) -> Item:
    meta, kind = obj["metadata"], obj["kind"]
    group, _, _ = obj["apiVersion"].rpartition("/")
    name = namespace if kind == "Namespace" else meta["name"]
    where = namespace if "namespace" in meta else ""
    # Objects in our namespace are ours, and the name of a CRD contains our group. Any other may
    # belong to someone else who chose the same name.
    labelled = not where and kind != "CustomResourceDefinition"
    return Item(group, kind, where, name, labelled)
