"""CRDs of other projects with the plural names of ours, and their objects."""

from typing import Any

import yaml

from e2e.harness.controlplane.downloads import KUEUE, SCHEDULER_PLUGINS
from e2e.harness.support import definitions, manifests
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually

Object = dict[str, Any]

FINALIZER = "neighbour.example.com/held"
KINDS = (
    ("kueue.x-k8s.io", "v1beta1", "workloads", "Workload"),
    ("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"),
    ("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"),
    ("cert-manager.io", "v1", "issuers", "Issuer"),
    ("cert-manager.io", "v1", "certificates", "Certificate"),
)
CERTIFICATES = manifests.MANIFESTS / "overlays" / "cert-manager" / "certificate.yaml"


_CONTAINER: Object = {"name": "main", "image": "none"}
_SPECS: dict[str, Object] = {
    "workloads.kueue.x-k8s.io": {
        "podSets": [{"name": "main", "template": {"spec": {"containers": [_CONTAINER]}}}]
    }
}
"""Specs that the real kinds require; all others have `minMember`."""


async def install(rest: Rest, *, real: bool) -> None:
    """Create the CRDs, and one object of each kind, with a finalizer of its own project.

    With `real` those of Kueue and scheduler-plugins are the projects' own; Volcano's module is not
    available. Raises BuildError, MissingGoError.
    """
    own = _own_definitions() if real else {}
    for group, version, plural, kind in KINDS:
        name = f"{plural}.{group}"
        crd = own.get(name) or _definition(group, version, plural, kind)
        answer = await rest.post(definitions.PATH, crd)
        assert answer.status in {201, 409}, answer.text
    for group, version, plural, kind in KINDS:
        path = f"/apis/{group}/{version}/namespaces/default/{plural}"
        obj: Object = {
            "apiVersion": f"{group}/{version}",
            "kind": kind,
            "metadata": {"name": "theirs", "finalizers": [FINALIZER]},
            "spec": _SPECS.get(f"{plural}.{group}", {"minMember": 1}),
        }

        async def made(path: str = path, obj: Object = obj) -> bool:
            answer = await rest.post(path, obj)
            assert answer.status not in {400, 422}, answer.text
            return answer.status in {201, 409}

        await eventually(made, f"{plural}.{group} to be served", 60)


def _own_definitions() -> dict[str, Object]:
    """Return the CRDs of other projects as published, by name."""
    kueue = KUEUE.folder() / "config" / "components" / "crd" / "bases"
    plugins = SCHEDULER_PLUGINS.folder() / "config" / "crd" / "bases"
    files = [*kueue.glob("*.yaml"), *plugins.glob("*.yaml")]
    found = [yaml.load(file.read_bytes(), yaml.CSafeLoader) for file in files]
    return {crd["metadata"]["name"]: crd for crd in found}


def certificates() -> list[dict[str, object]]:
    """Return the additional objects of the overlay for cert-manager."""
    return list(yaml.safe_load_all(CERTIFICATES.read_text()))


def _definition(group: str, version: str, plural: str, kind: str) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    meta: Object = {"name": f"{plural}.{group}"}
    if group.endswith("k8s.io"):
        meta["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [served],
        },
    }
