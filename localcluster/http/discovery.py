"""Discovery: the served groups, versions and resources, in both forms.

kubectl requests the aggregated form (apidiscovery.k8s.io). Most libraries request the older lists
of groups and resources.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from localcluster.base.hooks import Document
from localcluster.base.resources import Registry, ResourceInfo

Object = dict[str, Any]

AGGREGATED = re.compile(
    r"application/json;(?=[^,]*\bg=apidiscovery\.k8s\.io)(?=[^,]*\bas=APIGroupDiscoveryList)"
    r"[^,]*\bv=(?P<version>v2beta1|v2)\b"
)
_CHANGE = ("get", "patch", "update")
_VERSION = re.compile(r"v(?P<major>\d+)(?:(?P<stage>alpha|beta)(?P<minor>\d+))?")
_STAGES = {None: 2, "beta": 1, "alpha": 0}
CREATED = frozenset({"binding", "eviction", "token"})  # subresources that support create only
_OTHER_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}


def version_rank(version: str) -> tuple[int, int, int]:
    """Return a sort key for versions, as in Kubernetes: v2, v1, v1beta2, v1alpha1."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (-1, 0, 0)
    return (_STAGES[found["stage"]], int(found["major"]), int(found["minor"] or 0))


def groups_of(registry: Registry) -> dict[str, dict[str, list[ResourceInfo]]]:
    """Return the served kinds by group and version, the preferred version first."""
    found: dict[str, dict[str, list[ResourceInfo]]] = {}
    for info in registry.all():
        found.setdefault(info.group, {}).setdefault(info.version, []).append(info)
    for group, versions in found.items():
        ordered = sorted(versions, key=version_rank, reverse=True)
        found[group] = {
            version: sorted(versions[version], key=lambda info: info.plural) for version in ordered
        }
    return found


def subresource_kind(info: ResourceInfo, name: str) -> tuple[str, str, str]:
    """Return group, version and kind of a subresource's objects."""
    return _OTHER_KINDS.get(name, (info.group, info.version, info.kind))


def subresource_verbs(name: str) -> tuple[str, ...]:
    """Return the verbs of a subresource."""
    if name in CREATED:
        return ("create",)
    return ("update",) if name == "finalize" else _CHANGE


class Discovery:
    """The documents below /api and /apis, rebuilt when the registry changes."""

    def __init__(self, registry: Registry) -> None:
        """Create the documents of the kinds that `registry` serves at the time of each request."""
        self._registry = registry
        self._documents: dict[tuple[str, str], Document | None] = {}
        self._generation = -1

    def find(self, path: str, params: Mapping[str, str], accept: str) -> Document | None:  # noqa: ARG002
        """Return the document at a path, or None."""
        if self._generation != self._registry.generation:
            self._documents.clear()
            self._generation = self._registry.generation
        path = path.rstrip("/")
        wanted = AGGREGATED.search(accept) if path in {"/api", "/apis"} else None
        version = wanted["version"] if wanted else ""
        key = (path, version)
        if key not in self._documents:
            self._documents[key] = self._make(path, version)
        return self._documents[key]

    def _make(self, path: str, version: str) -> Document | None:
        groups = groups_of(self._registry)
        if version:
            return _aggregated(path, version, groups)
        body = _plain(path, groups)
        return None if body is None else Document(msgspec.json.encode(body))


def _aggregated(
    path: str, version: str, groups: Mapping[str, Mapping[str, list[ResourceInfo]]]
) -> Document:
    chosen = [name for name in groups if (name == "") == (path == "/api")]
    body = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_group_item(name, groups[name]) for name in chosen],
    }
    encoded = msgspec.json.encode(body)
    kind = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    return Document(encoded, kind, etag(encoded))


def etag(body: bytes) -> str:
    """Return the hash by which clients recognize an unchanged document."""
    return hashlib.sha256(body).hexdigest().upper()


def _group_item(name: str, versions: Mapping[str, list[ResourceInfo]]) -> Object:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {
                "version": version,
                "resources": [_resource_item(info) for info in infos],
                "freshness": "Current",
            }
            for version, infos in versions.items()
        ],
    }


def _resource_item(info: ResourceInfo) -> Object:
    item: Object = {
        "resource": info.plural,
        "responseKind": _kind(info.group, info.version, info.kind),
        "scope": "Namespaced" if info.namespaced else "Cluster",
        "singularResource": info.singular,
        "verbs": list(info.verbs),
    }
    if info.short_names:
        item["shortNames"] = list(info.short_names)
    if info.categories:
        item["categories"] = list(info.categories)
    if info.subresources:
        item["subresources"] = [
            {
                "subresource": name,
                "responseKind": _kind(*subresource_kind(info, name)),
                "verbs": list(subresource_verbs(name)),
            }
            for name in sorted(info.subresources)
        ]
    return item


def _kind(group: str, version: str, kind: str) -> Object:
    return {"group": group, "version": version, "kind": kind}


def _plain(path: str, groups: Mapping[str, Mapping[str, list[ResourceInfo]]]) -> Object | None:
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/api/v1":
        return _resource_list("v1", groups.get("", {}).get("v1", ()))
    if path == "/apis":
        items = [_group(name, versions) for name, versions in groups.items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": items}
    steps = path.removeprefix("/apis/").split("/")
    versions = groups.get(steps[0], {}) if path.startswith("/apis/") and steps[0] else {}
    if len(steps) == 1 and versions:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(steps[0], versions)}
    if len(steps) == 2 and steps[1] in versions:
        return _resource_list("/".join(steps), versions[steps[1]])
    return None


def _group(name: str, versions: Mapping[str, list[ResourceInfo]]) -> Object:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(group_version: str, infos: Iterable[ResourceInfo]) -> Object:
    entries: list[Object] = []
    add: Callable[[Object], None] = entries.append
    for info in infos:
        add(
            {
                "name": info.plural,
                "singularName": info.singular,
                "namespaced": info.namespaced,
                "kind": info.kind,
                "verbs": list(info.verbs),
            }
            | ({"shortNames": list(info.short_names)} if info.short_names else {})
            | ({"categories": list(info.categories)} if info.categories else {})
        )
        for name in sorted(info.subresources):
            group, version, kind = subresource_kind(info, name)
            own = (group, version) == (info.group, info.version)
            add(
                {
                    "name": f"{info.plural}/{name}",
                    "singularName": "",
                    "namespaced": info.namespaced,
                }
                | ({} if own else {"group": group, "version": version})
                | {"kind": kind, "verbs": list(subresource_verbs(name))}
            )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": entries,
    }
