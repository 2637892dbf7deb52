"""What an administrator may have installed, read from the manifests that come with the commands.

What is added to `manifests/` is removed, too. What the chart alone has is named here, and what is
made for other operators, whose manifests get their namespace from kustomize.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from api.reading import dig
from cli.manifests.packaged_manifests import folder_of, objects

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

BESIDE: Final = (
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "muster-namespaces"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", "muster-namespaces"),
    ("monitoring.coreos.com", "ServiceMonitor", "muster"),
    ("monitoring.coreos.com", "PrometheusRule", "muster"),
    ("", "ConfigMap", "muster-dashboard"),
)
"""What the chart has for its values, and `manifests/monitoring`."""

_WIDE: Final = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

_FOLDERS: Final = ("crd", "webhook", "base", "overlays/cert-manager", "protection", "console")
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
    return [*found, *(_beside(*it, namespace) for it in BESIDE), *later]


def quotas() -> list[str]:
    """The names of the ResourceQuotas for namespaces of users."""
    return [obj["metadata"]["name"] for obj in _objects() if obj["kind"] == _QUOTA]


def _beside(group: str, kind: str, name: str, namespace: str) -> Item:
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
    # What is in our namespace is ours, and the name of a CRD has our group in it.
    labelled = not where and kind != "CustomResourceDefinition"
    return Item(group, kind, where, name, labelled)
