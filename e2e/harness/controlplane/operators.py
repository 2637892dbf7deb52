"""KubeRay's operator and the MPI operator: their kinds, read from the modules.

Neither needs webhooks. The MPI operator checks for its kind before it starts, elects its leader by
a Lease in its own namespace, and serves its health on a port that is fixed in its code.
"""

from pathlib import Path

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
    folder = module / "config/crd/bases"
    await definitions.apply_files(rest, *(folder / f"ray.io_{plural}.yaml" for plural in _RAY_CRDS))


async def prepare_mpi(rest: Rest, module: Path) -> None:
    """Apply the CRD and the namespace of the Lease."""
    await definitions.apply_files(rest, module / "manifests/base/kubeflow.org_mpijobs.yaml")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MPI_NAMESPACE}}
    path = f"/api/v1/namespaces/{MPI_NAMESPACE}"
    (await rest.patch(path, namespace, APPLY_PATCH, params=_APPLIED)).ok()
