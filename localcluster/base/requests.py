"""HTTP requests as values: the parsed path, query and headers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import yaml

from localcluster.base import protobuf
from localcluster.base.errors import bad_request, not_acceptable, unsupported_media_type
from localcluster.base.hooks import DeleteOptions, WriteOptions
from localcluster.base.resources import Registry, ResourceInfo

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
WRITTEN = (JSON, YAML)
PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_decode = msgspec.json.Decoder().decode


@dataclass(slots=True)
class Target:
    """The target of a URL: a kind, and optionally a namespace, an object and a subresource."""

    info: ResourceInfo
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(slots=True)
class Request:
    """One HTTP request, including its body."""

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def header(self, name: bytes) -> str:
        """Return a header, empty if absent."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def manager(self) -> str:
        """The field manager: the parameter if given, else the first word of the user agent."""
        said = self.params.get("fieldManager")
        return said or self.header(b"user-agent").partition("/")[0][:128] or "unknown"


def parse_query(query: bytes) -> dict[str, str]:
    """Return the parameters of a URL; the last of duplicates counts."""
    return dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {}


def resolve(registry: Registry, path: str) -> Target | None:
    """Return the target of a path below /api or /apis, None if nothing is served there."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    info = registry.lookup(group, version, rest[0])
    if info is None or len(rest) > 3 or (namespace and not info.namespaced):
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and subresource not in info.subresources:
        return None
    return Target(info, namespace, name, subresource)


def accepted(accept: str) -> tuple[str, str]:
    """Return the media type and the form (Table, PartialObjectMetadata...) of the response.

    Raises StatusError 406.
    """
    if not accept:
        return JSON, ""
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        said = dict(part.split("=", 1) for part in parameters if "=" in part)
        form = said.get("as", "")
        if form and said.get("v") not in {"v1", None}:
            continue
        if media in {JSON, "*/*", "application/*"}:
            return JSON, form
        if media == YAML:
            return YAML, form
    raise not_acceptable(WRITTEN)


def decode_body(request: Request) -> Any:
    """Decode the body of a POST or PUT. Raises StatusError 400, 415."""
    media = request.header(b"content-type").partition(";")[0].strip()
    if media in {JSON, ""}:
        return decode_json(request.body)
    if media == YAML:
        return decode_yaml(request.body)
    if media == PROTOBUF:
        return _decode_protobuf(request.body)
    raise unsupported_media_type((JSON, YAML))


def _decode_protobuf(body: bytes) -> Any:
    try:
        return protobuf.decode(body)
    except (protobuf.UnreadableError, UnicodeDecodeError) as error:
        raise unsupported_media_type((JSON, YAML)) from error


def decode_json(body: bytes) -> Any:
    """Decode JSON. Raises StatusError 400."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def decode_yaml(body: bytes) -> Any:
    """Decode YAML, a superset of JSON. Raises StatusError 400."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        return msgspec.to_builtins(yaml.safe_load(body))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding YAML: {error}") from error


def decode_patch(request: Request, info: ResourceInfo) -> tuple[str, Any]:
    """Return the type of a patch and the patch. Raises StatusError 400, 415."""
    media = request.header(b"content-type").partition(";")[0].strip()
    kind = PATCHES.get(media)
    if kind is None or (kind == "strategic" and info.custom):
        known = [name for name, k in PATCHES.items() if not (info.custom and k == "strategic")]
        raise unsupported_media_type(known)
    return kind, decode_yaml(request.body) if kind == "apply" else decode_json(request.body)


def _dry_run(said: object) -> bool:
    values = [said] if isinstance(said, str) else list(said or ())  # type: ignore[call-overload]
    if any(value != "All" for value in values if value):
        raise bad_request(f'Invalid value: "{values[0]}": dryRun: supported values: "All"')
    return "All" in values


def write_options(request: Request, *, apply: bool = False) -> WriteOptions:
    """Return the options of a write. Raises StatusError 400."""
    params = request.params
    validation = params.get("fieldValidation") or "Warn"
    if validation not in {"Ignore", "Warn", "Strict"}:
        raise bad_request(f'fieldValidation: Unsupported value: "{validation}"')
    manager = params.get("fieldManager", "") if apply else request.manager
    return WriteOptions(
        dry_run=_dry_run(params.get("dryRun")),
        field_manager=manager,
        field_validation=validation,  # type: ignore[arg-type]
        force=params.get("force") == "true",
    )


def delete_options(request: Request) -> DeleteOptions:
    """Return the options of a deletion, from the body or the query. Raises StatusError 400."""
    body = decode_body(request) if request.body else {}
    if not isinstance(body, dict):
        raise bad_request("the body of a deletion must be DeleteOptions")
    params = request.params
    grace = body.get("gracePeriodSeconds", params.get("gracePeriodSeconds"))
    policy = body.get("propagationPolicy", params.get("propagationPolicy"))
    orphan = body.get("orphanDependents", params.get("orphanDependents"))
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan in {True, "true"} else "Background"
    if policy not in {None, "Background", "Foreground", "Orphan"}:
        raise bad_request(
            f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "{policy}"'
        )
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        grace_period_seconds=None if grace is None else int(grace),
        propagation_policy=policy,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run=_dry_run(body.get("dryRun") or params.get("dryRun")),
    )
