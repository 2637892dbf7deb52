"""Webhooks of the controllers that run outside the cluster, from their modules' manifests."""

import base64
from typing import Any, NamedTuple

import yaml

from e2e.harness.support.rest import APPLY_PATCH, Rest

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


class Target(NamedTuple):
    """The owner of the webhooks, the label of its pods, and its port."""

    name: str
    pod_label: str
    port: int
    ca_pem: bytes


async def register(rest: Rest, manifest: str, target: Target) -> None:
    """Register the manifest's webhooks by URL."""
    for document in yaml.safe_load_all(manifest):
        if document is None:
            continue
        document["metadata"]["name"] = f"{target.name}-{document['metadata']['name']}"
        for webhook in document["webhooks"]:
            _point_to_loopback(webhook, target)
        plural = document["kind"].lower() + "s"
        path = f"{_ADMISSION}/{plural}/{document['metadata']['name']}"
        answer = await rest.patch(
            path, document, APPLY_PATCH, params={"fieldManager": "muster-e2e", "force": "true"}
        )
        answer.ok()


def _point_to_loopback(webhook: dict[str, Any], target: Target) -> None:
    path = webhook["clientConfig"]["service"]["path"]
    webhook["clientConfig"] = {
        "url": f"https://127.0.0.1:{target.port}{path}",
        "caBundle": base64.b64encode(target.ca_pem).decode(),
    }
    if any("pods" in rule["resources"] for rule in webhook["rules"]):
        # As in the modules' kustomize patches; otherwise every pod of the cluster is sent there.
        webhook["objectSelector"] = {
            "matchExpressions": [{"key": target.pod_label, "operator": "Exists"}]
        }
