"""OpenAPI documents, one for each group and version, as kubectl reads them.

kubectl reads three things from them: the fields of a kind (`explain`), support for
`fieldValidation` in PATCH (then the server validates, not the client), and support for strategic
merge patch. The last is omitted on purpose: kubectl knows the merge keys of built-in kinds itself,
and other kinds have none.
"""

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from localcluster.base.hooks import Document, Documents
from localcluster.base.resources import Registry, ResourceInfo
from localcluster.custom.crd import CustomResources
from localcluster.definitions import builtin
from localcluster.definitions.notation import components
from localcluster.http.discovery import etag, groups_of

Object = dict[str, Any]

PREFIX = "io.k8s.localcluster."
META_REF = {"$ref": f"#/components/schemas/{PREFIX}ObjectMeta"}
_ROOT = {
    "apiVersion": {"type": "string", "description": "The version of this form."},
    "kind": {"type": "string", "description": "The kind."},
    "metadata": {"description": "Name, labels and the like.", "allOf": [META_REF]},
}
_QUERY = {
    "get": (),
    "list": ("labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "watch"),
    "post": ("dryRun", "fieldManager", "fieldValidation"),
    "put": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "propagationPolicy"),
}
_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)


@functools.cache
def _built_in() -> Mapping[str, Object]:
    return components(builtin.types(), PREFIX)


class OpenApi:
    """The documents below /openapi, rebuilt when the registry changes."""

    def __init__(self, registry: Registry, custom: CustomResources) -> None:
        """Create the documents of the kinds in `registry`.

        `custom` has the schemas of custom kinds.
        """
        self._registry = registry
        self._custom = custom
        self._documents: dict[str, Document] = {}
        self._generation = -1

    def find(self, path: str, params: Mapping[str, str], accept: str) -> Document | None:  # noqa: ARG002
        """Return the document at a path, or None; the only format is JSON."""
        if not path.startswith("/openapi/"):
            return None
        if "protobuf" in accept and "json" not in accept and "*/*" not in accept:
            return None
        if self._generation != self._registry.generation:
            self._documents = self._make()
            self._generation = self._registry.generation
        return self._documents.get(path.rstrip("/"))

    def _make(self) -> dict[str, Document]:
        documents: dict[str, Document] = {}
        index: dict[str, Object] = {}
        for group, versions in groups_of(self._registry).items():
            for version, infos in versions.items():
                where = f"apis/{group}/{version}" if group else f"api/{version}"
                encoded = msgspec.json.encode(self._group_version(infos))
                digest = etag(encoded)
                url = f"/openapi/v3/{where}"
                documents[url] = Document(encoded, etag=digest)
                index[where] = {"serverRelativeURL": f"{url}?hash={digest}"}
        documents["/openapi/v3"] = _document({"paths": index})
        documents["/openapi/v2"] = _document(
            {"swagger": "2.0", "info": _info(), "paths": {}, "definitions": {}}
        )
        return documents

    def _group_version(self, infos: list[ResourceInfo]) -> Object:
        schemas = dict(_built_in())
        paths: Object = {}
        for info in infos:
            schemas[_name(info)] = self._schema(info)
            paths |= _paths(info)
        return {
            "openapi": "3.0.0",
            "info": _info(),
            "paths": paths,
            "components": {"schemas": schemas},
        }

    def _schema(self, info: ResourceInfo) -> Object:
        served = self._custom.served(info)
        if served is not None:
            schema = dict(served.raw)
            schema["properties"] = (served.raw.get("properties") or {}) | _ROOT
        else:
            written = builtin.type_name(info.group, info.plural)
            known = _built_in()[PREFIX + written] if written else None
            open_object = {"x-kubernetes-preserve-unknown-fields": True}
            fallback = {"type": "object", "properties": _ROOT, "description": info.kind}
            schema = dict(known) if known is not None else fallback | open_object
        gvk = {"group": info.group, "kind": info.kind, "version": info.version}
        return schema | {"x-kubernetes-group-version-kind": [gvk]}


def _info() -> Object:
    return {"title": "Kubernetes", "version": "v1"}


def _document(body: Object) -> Document:
    encoded = msgspec.json.encode(body)
    return Document(encoded, etag=etag(encoded))


def _name(info: ResourceInfo) -> str:
    """Return the component's name: upstream's for built-in kinds, else the reversed group."""
    if info.custom:
        reverse = ".".join(reversed(info.group.split(".")))
        return f"{reverse}.{info.version}.{info.kind}"
    return f"io.k8s.api.{info.group.split('.')[0] or 'core'}.{info.version}.{info.kind}"


def _paths(info: ResourceInfo) -> Object:
    namespace = "{namespace}" if info.namespaced else ""
    collection, one = info.path(namespace), info.path(namespace, "{name}")
    paths: Object = {
        collection: _operations(info, {"list": "get", "create": "post"}),
        one: _operations(
            info, {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
        ),
    }
    if info.namespaced:
        paths[info.path()] = _operations(info, {"list": "get"})
    if "status" in info.subresources:
        status = {"get": "get", "update": "put", "patch": "patch"}
        paths[f"{one}/status"] = _operations(info, status)
    return paths


def _operations(info: ResourceInfo, verbs: Mapping[str, str]) -> Object:
    served = {verb: method for verb, method in verbs.items() if verb in info.verbs}
    return {method: _operation(info, verb, method) for verb, method in served.items()}


def _operation(info: ResourceInfo, verb: str, method: str) -> Object:
    schema = {"$ref": f"#/components/schemas/{_name(info)}"}
    content = {"application/json": {"schema": schema}}
    operation: Object = {
        "operationId": f"{verb}-{info.qualified}-{info.version}",
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string"}}
            for name in _QUERY["list" if verb == "list" else method]
        ],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": {"create": "post", "update": "put"}.get(verb, verb),
        "x-kubernetes-group-version-kind": {
            "group": info.group,
            "kind": info.kind,
            "version": info.version,
        },
    }
    if method == "patch":
        bodies = {kind: {"schema": {"type": "object"}} for kind in _PATCH_TYPES}
        operation["requestBody"] = {"content": bodies, "required": True}
    elif method in {"post", "put"}:
        operation["requestBody"] = {"content": content, "required": True}
    return operation


class AllDocuments:
    """Discovery and OpenAPI documents together."""

    def __init__(self, *parts: Documents) -> None:
        """Combine `parts`, which are searched in order."""
        self._parts = parts

    def find(self, path: str, params: Mapping[str, str], accept: str) -> Document | None:
        """Return the first document that a part has at a path, or None."""
        found = (part.find(path, params, accept) for part in self._parts)
        return next((one for one in found if one is not None), None)
