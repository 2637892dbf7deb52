"""Kubeflow Trainer's controller: its kinds, read from the module, and its prerequisites.

Its webhooks only validate, and are not registered. It still creates certificates for them: for that
it needs a Secret, a configuration and files, and does not start before they exist.
"""

from pathlib import Path
from typing import Any

from e2e.harness.support import definitions
from e2e.harness.support.rest import APPLY_PATCH, Rest

MODULE = "github.com/kubeflow/trainer/v2"
_CRDS = ("trainjobs", "trainingruntimes", "clustertrainingruntimes")
_NAMESPACE = "kubeflow-system"
CERTIFICATES = Path("/tmp/k8s-webhook-server")
"""The folder that the controller reads, which cannot be configured. It is not below the tests' own
temporary files, so a killed run must remove it, too.
"""
_APPLIED = {"fieldManager": "muster-e2e", "force": "true"}


async def prepare(rest: Rest, module: Path) -> None:
    """Apply the CRDs of the module's folder and the controller's other prerequisites."""
    folder = module / "manifests/base/crds"
    files = (folder / f"trainer.kubeflow.org_{plural}.yaml" for plural in _CRDS)
    await definitions.apply_files(rest, *files)
    core = f"/api/v1/namespaces/{_NAMESPACE}"
    await _apply(rest, core, _object("v1", "Namespace", _NAMESPACE))
    secret = "kubeflow-trainer-webhook-cert"
    await _apply(rest, f"{core}/secrets/{secret}", _object("v1", "Secret", secret))
    api, kind = "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"
    name = "validator.trainer.kubeflow.org"
    path = f"/apis/{api}/validatingwebhookconfigurations/{name}"
    await _apply(rest, path, _object(api, kind, name))


def write_certificates(certificates: Path) -> None:
    """Copy the certificates to the folder that the controller reads."""
    folder = CERTIFICATES / "serving-certs"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tls.crt", "tls.key"):
        (folder / name).write_bytes((certificates / name).read_bytes())


def _object(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


async def _apply(rest: Rest, path: str, obj: dict[str, Any]) -> None:
    (await rest.patch(path, obj, APPLY_PATCH, params=_APPLIED)).ok()
