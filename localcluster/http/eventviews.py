"""Events in their two formats: stored as core/v1, served as events.k8s.io/v1 on request."""

from typing import Any

from localcluster.base.hooks import Object

_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK = {core: new for new, core in _NAMES.items()}
CORE = "v1"
NEW = "events.k8s.io/v1"


def to_core(body: Any) -> Any:
    """Convert an events.k8s.io/v1 body, or a merge patch of one, to core/v1."""
    if not isinstance(body, dict):
        return body
    out = {_NAMES.get(name, name): value for name, value in body.items()}
    if "apiVersion" in out:
        out["apiVersion"] = CORE
    return out


def patch_to_core(patch: Any) -> Any:
    """Convert a JSON patch of an events.k8s.io/v1 event to core/v1."""
    if not isinstance(patch, list):
        return to_core(patch)
    return [_operation(op) if isinstance(op, dict) else op for op in patch]


def _operation(operation: Object) -> Object:
    out = dict(operation)
    for field in ("path", "from"):
        if isinstance(out.get(field), str):
            head, _, rest = out[field].removeprefix("/").partition("/")
            out[field] = "/" + _NAMES.get(head, head) + (f"/{rest}" if rest else "")
    return out


def from_core(obj: Object) -> Object:
    """Convert a core/v1 event to events.k8s.io/v1."""
    out = {_BACK.get(name, name): value for name, value in obj.items()}
    out["apiVersion"] = NEW
    return out
