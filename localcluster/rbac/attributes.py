"""The attributes of a request for authorization, derived from the URL alone."""

from collections.abc import Mapping
from dataclasses import dataclass

from localcluster.base.errors import StatusError
from localcluster.base.requests import NAMESPACE_SUBRESOURCES

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_BY_NAME = "metadata.name="


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of one request. `path` is set for non-resource requests."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def part(self) -> str:
        """The resource with its subresource, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(method: str, path: str, params: Mapping[str, str]) -> Attributes:
    """Parse a request as the API server does, whether or not the resource is served."""
    parts = [part for part in path.split("/") if part]
    plain = Attributes(method.lower(), path=path)
    if len(parts) < 3 or parts[0] not in {"api", "apis"}:
        return plain
    group, rest = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
    if len(rest) < 2:
        return plain
    version, *rest = rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest[:3], "", "")[:3]
    verb = _VERBS.get(method, "")
    if not name:
        verb, name = _collective(verb, params)
    return Attributes(verb, group, version, resource, subresource, namespace, name)


def _collective(verb: str, params: Mapping[str, str]) -> tuple[str, str]:
    """Return the verb on a collection, and the one name that a field selector selects."""
    if verb == "delete":
        return "deletecollection", ""
    if verb != "get":
        return verb, ""
    watches = params.get("watch") in {"1", "true", "True", "t"}
    terms = params.get("fieldSelector", "").split(",")
    named = [term.removeprefix(_BY_NAME) for term in terms if term.startswith(_BY_NAME)]
    return ("watch" if watches else "list"), (named[0].lstrip("=") if named else "")


def refusal(user: str, asked: Attributes, reason: str) -> StatusError:
    """Return a 403 with the API server's message."""
    why = f'User "{user}" cannot {asked.verb} '
    if asked.path:
        why += f'path "{asked.path}"'
    else:
        why += f'resource "{asked.part}" in API group "{asked.group}" '
        where = f'in the namespace "{asked.namespace}"' if asked.namespace else ""
        why += where or "at the cluster scope"
    if reason:
        why += f": {reason}"
    if asked.path:
        return StatusError(403, "Forbidden", f"forbidden: {why}", {})
    qualified = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    said = f'{qualified} "{asked.name}"' if asked.name else qualified
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    kept = {name: value for name, value in details.items() if value}
    return StatusError(403, "Forbidden", f"{said} is forbidden: {why}", kept)
