"""Manifests as kustomize reads them, limited to lists of resources."""

from pathlib import Path
from typing import Any

import yaml

from e2e.harness.support.rest import Rest

Object = dict[str, Any]

MANIFESTS = Path(__file__).resolve().parents[3] / "manifests"
_NAMES = ("kustomization.yaml", "Kustomization")
_POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
# These are replaced if they exist; the others are kept as their owner left them.
_REPLACED = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def load(folder: Path = MANIFESTS / "base") -> list[Object]:
    """Return the objects of a kustomization and of those it references, in their order.

    Raises ValueError for a kustomization with anything other than resources.
    """
    found = next(folder / name for name in _NAMES if (folder / name).is_file())
    content = yaml.safe_load(found.read_text())
    if more := set(content) - {"apiVersion", "kind", "resources"}:
        raise ValueError(f"{found}: only kubectl can carry out {', '.join(sorted(more))}")
    objects: list[Object] = []
    for name in content["resources"]:
        path = folder / name
        if path.is_dir():
            objects += load(path)
        else:
            objects += [one for one in yaml.safe_load_all(path.read_text()) if one]
    return objects


def native_group_rights() -> list[Object]:
    """Return the rights for `groups.api: native` or `auto`, which are applied by themselves."""
    text = (MANIFESTS / "base" / "native-groups-controller-rbac.yaml").read_text()
    return list(yaml.safe_load_all(text))


def by_url(objects: list[Object]) -> list[Object]:
    """Return the objects without the policies for caBundle: by URL the webhook registers itself."""
    return [obj for obj in objects if not _confines_webhook(obj)]


def _confines_webhook(obj: Object) -> bool:
    return obj["kind"] in _POLICIES and obj["metadata"]["name"].startswith("muster-webhook")


async def create(rest: Rest, objects: list[Object]) -> None:
    """Create missing objects and replace roles.

    Raises AssertionError if rejected.

    Policies are omitted if they are not served: the embedded server has none.
    """
    for obj in objects:
        collection = path_of(obj)
        answer = await rest.post(collection, obj)
        if answer.status == 404 and obj["kind"] in _POLICIES:
            continue
        if answer.status != 409:
            answer.ok()
        elif obj["kind"] in _REPLACED:
            (await rest.put(f"{collection}/{obj['metadata']['name']}", obj)).ok()


def path_of(obj: Object) -> str:
    """Return the collection of an object."""
    version, kind = obj["apiVersion"], obj["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = obj["metadata"].get("namespace")
    where = f"{root}/namespaces/{namespace}" if namespace else root
    plural = f"{kind.lower()}s" if not kind.endswith("y") else f"{kind.lower()[:-1]}ies"
    return f"{where}/{plural}"
