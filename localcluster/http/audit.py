"""The audit log: one line of JSON for each request, in the format of audit.k8s.io/v1."""

from pathlib import Path

import msgspec

from localcluster.base.hooks import Object, User
from localcluster.rbac.attributes import Attributes
from localcluster.rbac.authorizer import Decision


class AuditLog:
    """An append-only audit log; each line is written before the client has its response."""

    def __init__(self, path: Path) -> None:
        """Append to `path`."""
        self._file = path.open("ab", buffering=0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def write(
        self, user: User, asked: Attributes, decision: Decision, *, uri: str, code: int
    ) -> None:
        """Log one request: the user, the request, the reason of the decision, the status code."""
        event: Object = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "stage": "ResponseStarted" if asked.verb == "watch" else "ResponseComplete",
            "requestURI": uri,
            "verb": asked.verb,
            "user": {"username": user.name, "groups": list(user.groups)},
            "responseStatus": {"code": code},
            "annotations": {
                "authorization.k8s.io/decision": "allow" if decision.allowed else "forbid",
                "authorization.k8s.io/reason": decision.reason,
            },
        }
        if not asked.path:
            event["objectRef"] = _object_reference(asked)
        self._file.write(msgspec.json.encode(event) + b"\n")


def _object_reference(asked: Attributes) -> Object:
    said = {
        "resource": asked.resource,
        "namespace": asked.namespace,
        "name": asked.name,
        "apiGroup": asked.group,
        "apiVersion": asked.version,
        "subresource": asked.subresource,
    }
    return {name: value for name, value in said.items() if value}
