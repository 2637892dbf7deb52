"""CRDs of other projects, with the plural names of ours, and objects of theirs."""

import yaml

from e2e.support import manifests
from e2e.support.rest import Rest
from e2e.support.waiting import eventually

Object = dict[str, object]

FINALIZER = "neighbour.example.com/held"
KINDS = (
    ("kueue.x-k8s.io", "v1beta1", "workloads", "Workload"),
    ("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"),
    ("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"),
    ("cert-manager.io", "v1", "issuers", "Issuer"),
    ("cert-manager.io", "v1", "certificates", "Certificate"),
)
CERTIFICATES = manifests.MANIFESTS / "overlays" / "cert-manager" / "certificate.yaml"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def install(rest: Rest) -> None:
    """The CRDs, and one object of each kind, held by a finalizer of its own project."""
    for group, version, plural, kind in KINDS:
        await rest.post(_CRDS, _definition(group, version, plural, kind))
    for group, version, plural, kind in KINDS:
        path = f"/apis/{group}/{version}/namespaces/default/{plural}"
        obj: Object = {
            "apiVersion": f"{group}/{version}",
            "kind": kind,
            "metadata": {"name": "theirs", "finalizers": [FINALIZER]},
            "spec": {"minMember": 1},
        }

        async def made(path: str = path, obj: Object = obj) -> bool:
            return (await rest.post(path, obj)).status in {201, 409}

        await eventually(made, f"{plural}.{group} to be served", 60)


def certificates() -> list[dict[str, object]]:
    """What the overlay for cert-manager adds."""
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
