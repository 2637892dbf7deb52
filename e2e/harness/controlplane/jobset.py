"""The JobSet controller: its CRD and webhooks, read from the module and adapted to loopback."""

import copy
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.controlplane import loopback
from e2e.harness.support import definitions
from e2e.harness.support.rest import Rest

_CRD = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
_WEBHOOKS = "config/components/webhook/manifests.yaml"

# KEP-1068's field, which the released CRD lacks and would prune.
_GANG_CONFIG = {
    "type": "object",
    "description": "How the pods are gang scheduled (KEP-1068).",
    "properties": {"gangMode": {"type": "string", "description": "Off, Basic, Gang, ..."}},
}


def configuration(*, port: int, certificates: Path) -> dict[str, Any]:
    """Return the manager's config file: one replica, webhooks on loopback with our certificate."""
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
    }


async def apply_crd(rest: Rest, module: Path, *, gang_config: bool) -> None:
    """Apply the CRD, and wait until it is served."""
    crd = yaml.safe_load((module / _CRD).read_text())
    if gang_config:
        for version in crd["spec"]["versions"]:
            keep_gang_config(version["schema"]["openAPIV3Schema"])
    await definitions.apply(rest, crd)


def keep_gang_config(schema: dict[str, Any]) -> None:
    """Add spec.gangConfig and spec.replicatedJobs[].gangConfig to a JobSet's schema."""
    spec = schema["properties"]["spec"]["properties"]
    spec["gangConfig"] = copy.deepcopy(_GANG_CONFIG)
    replicated = spec["replicatedJobs"]["items"]["properties"]
    replicated["gangConfig"] = copy.deepcopy(_GANG_CONFIG)


async def register_webhooks(rest: Rest, module: Path, *, port: int, ca_pem: bytes) -> None:
    """Register the controller's four webhooks by URL."""
    target = loopback.Target("jobset", "jobset.sigs.k8s.io/jobset-name", port, ca_pem)
    await loopback.register(rest, (module / _WEBHOOKS).read_text(), target)
