"""Redaction of support bundles: an allowlist of fields for objects, patterns for texts.

Objects are copied field by field, so that unforeseen fields stay behind. Texts (logs, pages) have
no fields to choose from: whatever matches a credential is removed from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from api.constants import GROUP
from api.reading import listing, mapping, text
from kube.client.meta import Json

REMOVED: Final = "[removed]"

_METADATA: Final = (
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "labels",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "uid",
)
# Annotations of Kubernetes and Muster with these prefixes are about scheduling. No others are kept.
_ANNOTATIONS: Final = (f"{GROUP}/", "scheduling.k8s.io/", "deployment.kubernetes.io/")
_CONTAINER_STATUS: Final = (
    "name",
    "image",
    "imageID",
    "ready",
    "restartCount",
    "started",
    "state",
    "lastState",
)
_EVENT: Final = (
    "count",
    "eventTime",
    "firstTimestamp",
    "involvedObject",
    "lastTimestamp",
    "message",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_SECRETS: Final = (
    # A PEM block, also where its lines are joined by \n as in JSON.
    re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
    ),
    # A JSON Web Token: its header begins with `{"`, which is `eyJ` in base64.
    re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"),
    re.compile(r"(?i)(?<=\bbearer )[^\s\"']+"),
    re.compile(r"(?i)(?<=\bbasic )[A-Za-z0-9+/=]{8,}"),
    # User and password in a URL.
    re.compile(r"(?<=://)[^\s/@\"']+(?=@)"),
)
# A value after a name such as `password`, in YAML, JSON, a shell or a query.
_ASSIGNED: Final = re.compile(
    r"""(?ix)
    ((?:password|passwd|secret[_-]?key|access[_-]?key|api[_-]?key|token|credential)
    [\w.-]{0,16}["']?\s{0,8}[:=]\s{0,8})
    (?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}"']+)
    """
)


def scrubbed(said: str) -> str:
    """Return a text without what resembles a key, a token or a password."""
    for pattern in _SECRETS:
        said = pattern.sub(REMOVED, said)
    return _ASSIGNED.sub(rf"\1{REMOVED}", said)


def scrubbed_values(value: Any) -> Any:
    """Return a JSON value with every text scrubbed."""
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, Mapping):
        return {scrubbed(str(key)): scrubbed_values(one) for key, one in value.items()}
    if isinstance(value, list):
        return [scrubbed_values(one) for one in value]
    return value


def metadata_of(obj: Json) -> Json:
    """Return names, owners and times, and annotations about scheduling."""
    meta = mapping(obj.get("metadata"))
    annotations = {
        key: value
        for key, value in mapping(meta.get("annotations")).items()
        if key.startswith(_ANNOTATIONS)
    }
    return _fields(meta, _METADATA) | ({"annotations": annotations} if annotations else {})


def of_ours(obj: Json) -> Json:
    """Return an object of our own kinds: its spec and status contain no secrets."""
    return _head(obj) | _fields(obj, ("spec", "status", "minMember"))


def of_definition(obj: Json) -> Json:
    """Return a CustomResourceDefinition without its schemas, which are known from the version."""
    spec = mapping(obj.get("spec"))
    versions = [
        _fields(mapping(one), ("name", "served", "storage"))
        for one in listing(spec.get("versions"))
    ]
    kept = _fields(spec, ("conversion", "group", "names", "scope")) | {"versions": versions}
    return _head(obj) | {"spec": kept, "status": mapping(obj.get("status"))}


def of_registration(obj: Json) -> Json:
    """Return a webhook configuration; certificates of CAs are not secret."""
    return _head(obj) | {"webhooks": listing(obj.get("webhooks"))}


def of_deployment(obj: Json) -> Json:
    """Return replicas, images and status; no environment, commands or arguments."""
    spec = mapping(obj.get("spec"))
    pod = mapping(mapping(spec.get("template")).get("spec"))
    containers = [
        _fields(mapping(one), ("name", "image", "resources", "ports"))
        for one in listing(pod.get("containers"))
    ]
    kept = _fields(spec, ("replicas", "strategy")) | {"containers": containers}
    return _head(obj) | {
        "spec": kept | _fields(pod, ("serviceAccountName", "priorityClassName")),
        "status": mapping(obj.get("status")),
    }


def of_pod(obj: Json) -> Json:
    """Return the node and status of a pod; no environment, commands or arguments."""
    spec, status = mapping(obj.get("spec")), mapping(obj.get("status"))
    containers = [
        _fields(mapping(one), _CONTAINER_STATUS) for one in listing(status.get("containerStatuses"))
    ]
    return _head(obj) | {
        "spec": _fields(spec, ("nodeName", "schedulerName", "serviceAccountName", "priority")),
        "status": _fields(status, ("phase", "conditions", "startTime", "reason", "message"))
        | {"containerStatuses": containers},
    }


def of_lease(obj: Json) -> Json:
    """Return a lease, which shows the leader."""
    return _head(obj) | {"spec": mapping(obj.get("spec"))}


def of_event(obj: Json) -> Json:
    """Return the message of an event, and its object."""
    name = text(mapping(obj.get("metadata")).get("name"))
    return {"name": name} | _fields(obj, _EVENT)


def _head(obj: Json) -> Json:
    return _fields(obj, ("apiVersion", "kind")) | {"metadata": metadata_of(obj)}


def _fields(obj: Mapping[str, Any], names: tuple[str, ...]) -> Json:
    return {name: obj[name] for name in names if name in obj}
