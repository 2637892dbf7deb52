"""KubeRay's operator and the MPI operator: their kinds, read from the modules.

Neither needs webhooks. The MPI operator checks for its kind before it starts, elects its leader by
a Lease in its own namespace, and serves its health on a port that is fixed in its code.
"""

from pathlib import Path
from typing import Any

import yaml

from e2e.harness.support import definitions
from e2e.harness.support.rest import APPLY_PATCH, Rest

KUBERAY_MODULE = "github.com/ray-project/kuberay/ray-operator"
MPI_MODULE = "github.com/kubeflow/mpi-operator"
MPI_HEALTH = "http://127.0.0.1:8080/healthz"
MPI_NAMESPACE = "mpi-operator"
_RAY_CRDS = ("rayclusters", "rayjobs", "rayservices")
_APPLIED = {"fieldManager": "muster-e2e", "force": "true"}


async def prepare_kuberay(rest: Rest, module: Path) -> None:
    """Apply the CRDs, and wait until they are served."""
    for plural in _RAY_CRDS:
        file = module / "config/crd/bases" / f"ray.io_{plural}.yaml"
        await _define(rest, yaml.safe_load(file.read_text()))


async def prepare_mpi(rest: Rest, module: Path) -> None:
    """Apply the CRD and the namespace of the Lease."""
    file = module / "manifests/base/kubeflow.org_mpijobs.yaml"
    await _define(rest, yaml.safe_load(file.read_text()))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MPI_NAMESPACE}}
    path = f"/api/v1/namespaces/{MPI_NAMESPACE}"
    (await rest.patch(path, namespace, APPLY_PATCH, params=_APPLIED)).ok()


async def _define(rest: Rest, crd: dict[str, Any]) -> None:
    name = crd["metadata"]["name"]
    (await rest.patch(f"{definitions.PATH}/{name}", crd, APPLY_PATCH, params=_APPLIED)).ok()
    await definitions.served(rest, name)
