"""What may leave a cluster in a support bundle: fields that are named here, and texts without keys.

Objects are copied field by field, so that what nobody thought of stays behind. Texts (logs, pages)
are not ours to choose from: what looks like a credential is taken out of them.
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
# What Kubernetes and we write under these says how something is scheduled; nothing else is kept.
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
    re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"),
    re.compile(r"(?i)(?<=\bbearer )[^\s\"']+"),
    re.compile(r"(?i)(?<=\bbasic )[A-Za-z0-9+/=]{8,}"),
    re.compile(r"(?<=://)[^\s/@\"']+(?=@)"),
)
_ASSIGNED: Final = re.compile(
    r"""(?ix)
    ((?:password|passwd|secret[_-]?key|access[_-]?key|api[_-]?key|token|credential)
    [\w.-]{0,16}["']?\s{0,8}[:=]\s{0,8})
    (?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}"']+)
    """
)


def scrubbed(said: str) -> str:
    """A text without what looks like a key, a token or a password."""
    for pattern in _SECRETS:
        said = pattern.sub(REMOVED, said)
    return _ASSIGNED.sub(rf"\1{REMOVED}", said)


def scrubbed_values(value: Any) -> Any:
    """The same of every text in a JSON value."""
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, Mapping):
        return {scrubbed(str(key)): scrubbed_values(one) for key, one in value.items()}
    if isinstance(value, list):
        return [scrubbed_values(one) for one in value]
    return value


def metadata_of(obj: Json) -> Json:
    """Names, owners and times; of annotations those about scheduling."""
    meta = mapping(obj.get("metadata"))
    annotations = {
        key: value
        for key, value in mapping(meta.get("annotations")).items()
        if key.startswith(_ANNOTATIONS)
    }
    return _fields(meta, _METADATA) | ({"annotations": annotations} if annotations else {})


def of_ours(obj: Json) -> Json:
    """An object of our own kinds: its spec and status have nothing that is secret."""
    return (
        _head(obj) | {"metadata": metadata_of(obj)} | _fields(obj, ("spec", "status", "minMember"))
    )


def of_definition(obj: Json) -> Json:
    """A CustomResourceDefinition without its schemas, which are those of the version."""
    spec = mapping(obj.get("spec"))
    versions = [
        _fields(mapping(one), ("name", "served", "storage"))
        for one in listing(spec.get("versions"))
    ]
    kept = _fields(spec, ("conversion", "group", "names", "scope")) | {"versions": versions}
    return _head(obj) | {
        "metadata": metadata_of(obj),
        "spec": kept,
        "status": mapping(obj.get("status")),
    }


def of_registration(obj: Json) -> Json:
    """A webhook configuration; certificates of CAs are no secret."""
    return _head(obj) | {"metadata": metadata_of(obj), "webhooks": listing(obj.get("webhooks"))}


def of_deployment(obj: Json) -> Json:
    """How many replicas of which images, and how they are; nothing of what they run with."""
    spec = mapping(obj.get("spec"))
    pod = mapping(mapping(spec.get("template")).get("spec"))
    containers = [
        _fields(mapping(one), ("name", "image", "resources", "ports"))
        for one in listing(pod.get("containers"))
    ]
    kept = _fields(spec, ("replicas", "strategy")) | {"containers": containers}
    return _head(obj) | {
        "metadata": metadata_of(obj),
        "spec": kept | _fields(pod, ("serviceAccountName", "priorityClassName")),
        "status": mapping(obj.get("status")),
    }


def of_pod(obj: Json) -> Json:
    """Where a pod runs and how it is; nothing of what it runs."""
    spec, status = mapping(obj.get("spec")), mapping(obj.get("status"))
    containers = [
        _fields(mapping(one), _CONTAINER_STATUS) for one in listing(status.get("containerStatuses"))
    ]
    return _head(obj) | {
        "metadata": metadata_of(obj),
        "spec": _fields(spec, ("nodeName", "schedulerName", "serviceAccountName", "priority")),
        "status": _fields(status, ("phase", "conditions", "startTime", "reason", "message"))
        | {"containerStatuses": containers},
    }


def of_lease(obj: Json) -> Json:
    """Who leads."""
    return _head(obj) | {"metadata": metadata_of(obj), "spec": mapping(obj.get("spec"))}


def of_event(obj: Json) -> Json:
    """What was said about which object."""
    name = text(mapping(obj.get("metadata")).get("name"))
    return {"name": name} | _fields(obj, _EVENT)


def _head(obj: Json) -> Json:
    return _fields(obj, ("apiVersion", "kind"))


def _fields(obj: Mapping[str, Any], names: tuple[str, ...]) -> Json:
    return {name: obj[name] for name in names if name in obj}
