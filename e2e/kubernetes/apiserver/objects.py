"""The objects of the suite: valid and minimal."""

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace's name, and the paths of the collections in it."""

    name: str

    def core(self, plural: str, name: str = "") -> str:
        return _join(f"/api/v1/namespaces/{self.name}/{plural}", name)

    def path(self, group_version: str, plural: str, name: str = "") -> str:
        return _join(f"/apis/{group_version}/namespaces/{self.name}/{plural}", name)

    def config_maps(self, name: str = "") -> str:
        return self.core("configmaps", name)

    def pods(self, name: str = "") -> str:
        return self.core("pods", name)

    def jobs(self, name: str = "") -> str:
        return self.path("batch/v1", "jobs", name)


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if name else path


def config_map(name: str = "", data: dict[str, str] | None = None, **metadata: Any) -> Object:
    meta = {"name": name, **metadata} if name else dict(metadata)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data or {"k": "v"}}


def pod_spec(**fields: Any) -> Object:
    container = {"name": "main", "image": "registry.example/main:1"}
    return {"containers": [container], **fields}


def pod(name: str, *, spec: Object | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": spec or pod_spec(),
    }


def job(name: str, *, spec: Object | None = None, **metadata: Any) -> Object:
    """Return a suspended Job: an object with a spec, a status and a generation, and no pods."""
    template = {"spec": pod_spec(restartPolicy="Never")}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {"template": template, "suspend": True, **(spec or {})},
    }


def binding(name: str, node: str, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def owner(obj: Object, *, controller: bool = False, block: bool = False) -> Object:
    """Return an ownerReference to `obj`."""
    reference = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
    }
    if controller:
        reference["controller"] = True
    if block:
        reference["blockOwnerDeletion"] = True
    return reference


def delete_options(**fields: Any) -> Object:
    return {"kind": "DeleteOptions", "apiVersion": "v1", **fields}


def causes(status: Object) -> set[tuple[str, str]]:
    """Return (reason, field) of a Status' causes."""
    found = status["details"].get("causes") or []
    return {(cause.get("reason", ""), cause.get("field", "")) for cause in found}
