"""The LeaderWorkerSet controller: its CRD and webhooks, adapted to loopback.

Both are read from the module.
"""

from pathlib import Path
from typing import Any

from e2e.harness.controlplane import loopback
from e2e.harness.controlplane.commands import Layout
from e2e.harness.support import definitions
from e2e.harness.support.rest import Rest

_CRD = "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"
_WEBHOOKS = "config/webhook/manifests.yaml"


def configuration(layout: Layout) -> dict[str, Any]:
    """Return the manager's config file: one replica, webhooks on loopback with our certificate."""
    certificates = str(layout.certificates)
    return {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{layout.lws_health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": layout.lws_webhook, "certDir": certificates},
    }


async def apply_crd(rest: Rest, module: Path) -> None:
    """Apply the CRD, and wait until it is served."""
    await definitions.apply_files(rest, module / _CRD)


async def register_webhooks(rest: Rest, module: Path, *, port: int, ca_pem: bytes) -> None:
    """Register the controller's four webhooks by URL."""
    target = loopback.Target("lws", "leaderworkerset.sigs.k8s.io/name", port, ca_pem)
    await loopback.register(rest, (module / _WEBHOOKS).read_text(), target)
