"""Controllers of other projects in pods, as their own manifests install them.

No registry has their images here: each runs the program that this machine built, from a folder of
its node.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from e2e.harness.controlplane import build
from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.waiting import eventually
from e2e.nodes.cluster.places import BUSYBOX, PROGRAMS

Json = dict[str, Any]

_USER = 65532
_SMALL = {"requests": {"cpu": "50m", "memory": "64Mi"}}
"""The nodes share the processors of this machine, and all of the projects want half of one."""
_WAIT = "--timeout=240s"


class Controller(NamedTuple):
    """A project's controller: its module, the manifests in it, and what they install."""

    program: str
    module: str
    manifests: str
    deployment: str
    namespace: str
    left_out: str = ""
    """The entry of its kustomization that another installation has installed already."""


JOBSET = Controller(
    "jobset",
    "sigs.k8s.io/jobset",
    "config/default",
    "jobset-controller-manager",
    "jobset-system",
)
LWS = Controller(
    "lws",
    "sigs.k8s.io/lws",
    "config/default",
    "lws-controller-manager",
    "lws-system",
)
TRAINER = Controller(
    "trainer",
    "github.com/kubeflow/trainer/v2",
    "manifests/overlays/manager",
    "kubeflow-trainer-controller-manager",
    "kubeflow-system",
    left_out="../../third-party/jobset",
)


async def install(kubectl: Kubectl, controller: Controller, folder: Path, example: Json) -> None:
    """Apply a controller's manifests, and wait until the example can be created.

    `folder` gets a copy of the manifests. The Service of a webhook may reach its pod only some time
    after this is ready.
    """
    objects = [_here(obj, controller) for obj in await _rendered(kubectl, controller, folder)]
    whole = {"apiVersion": "v1", "kind": "List", "items": objects}
    await kubectl("apply", "--server-side", "-f", "-", stdin=whole)
    name, namespace = f"deployment/{controller.deployment}", controller.namespace
    await kubectl("rollout", "status", name, "-n", namespace, _WAIT)

    async def is_admitted() -> bool:
        return await kubectl.succeeds("create", "--dry-run=server", "-f", "-", stdin=example)

    await eventually(is_admitted, f"{controller.program} to admit an object", 120)


async def _rendered(kubectl: Kubectl, controller: Controller, folder: Path) -> Iterator[Json]:
    """Return the objects of the manifests, in the order in which they can be applied."""
    first, _, _ = controller.manifests.partition("/")
    copy = folder / controller.program / first
    # Go's module cache is read-only.
    shutil.copytree(build.sources()[controller.module] / first, copy, copy_function=shutil.copyfile)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755)
    root = copy.parent / controller.manifests
    file = root / "kustomization.yaml"
    kustomization = yaml.safe_load(file.read_text())
    if controller.left_out:
        kustomization["resources"].remove(controller.left_out)
    file.write_text(yaml.safe_dump(kustomization))
    return yaml.safe_load_all(await kubectl("kustomize", str(root)))


def _here(obj: Json, controller: Controller) -> Json:
    """Return the object for these nodes: a Deployment has one small replica."""
    if obj["kind"] != "Deployment":
        return obj
    spec = obj["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    run(spec, container, controller.program, *container.get("args", ()))
    obj["spec"]["replicas"] = 1
    return obj


def run(spec: Json, container: Json, program: str, *arguments: str) -> None:
    """Have the container of a pod spec run a program of the node."""
    container |= {
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": [f"{PROGRAMS}/{program}"],
        "args": [*arguments],
        "resources": _SMALL,
    }
    mount = {"name": "programs", "mountPath": PROGRAMS, "readOnly": True}
    container.setdefault("volumeMounts", []).append(mount)
    spec.setdefault("volumes", []).append({"name": "programs", "hostPath": {"path": PROGRAMS}})
    spec.setdefault("securityContext", {}).update({"runAsNonRoot": True, "runAsUser": _USER})
