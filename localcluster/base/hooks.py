"""The interfaces between the server core and the parts around it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from localcluster.base.errors import Cause
from localcluster.base.merge_node import MergeNode
from localcluster.base.resources import ResourceInfo

Object = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class User:
    """The user who sends a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def to_json(self) -> Object:
        """Return the userInfo of an admission review."""
        out: Object = {"username": self.name}
        if self.uid:
            out["uid"] = self.uid
        if self.groups:
            out["groups"] = list(self.groups)
        return out


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parameters of CreateOptions, UpdateOptions and PatchOptions."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: Literal["Ignore", "Warn", "Strict"] = "Ignore"
    force: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The parameters of DeleteOptions; None if not given."""

    grace_period_seconds: int | None = None
    propagation_policy: Literal["Background", "Foreground", "Orphan"] | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


@dataclass(slots=True)
class AdmissionRequest:
    """One write request during admission.

    `obj` is the new object (None for DELETE), `old` the stored one (None for CREATE). For a
    subresource `obj` is the content of the request (a Binding, a Scale) and `kind` its group,
    version and kind. `mutate` may change `obj` in place, but never `old`. Warnings for the client
    are appended to `warnings`.
    """

    operation: Operation
    info: ResourceInfo
    namespace: str
    name: str
    obj: Object | None
    old: Object | None
    user: User
    subresource: str = ""
    kind: tuple[str, str, str] | None = None
    dry_run: bool = False
    options: Object = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Group, version and kind of the object in the request."""
        return self.kind or (self.info.group, self.info.version, self.info.kind)


class Admission(Protocol):
    """One step of admission; the server has a list of steps and calls them in order."""

    async def mutate(self, request: AdmissionRequest) -> None:
        """Change `request.obj`.

        Raises StatusError to reject.

        A replaced object is pruned and defaulted again; one changed in place is not.
        """
        ...

    async def validate(self, request: AdmissionRequest) -> None:
        """Validate the final object. Raises StatusError to reject."""
        ...


class Schemas(Protocol):
    """The structural schemas of the kinds that have one; other kinds pass unchanged."""

    def prepare(self, info: ResourceInfo, obj: Object) -> list[str]:
        """Prune and default in place; return unknown fields as `unknown field "spec.x"`.

        The server calls this on the object of every request, and again after mutation. Must be
        idempotent.
        """
        ...

    def validate(
        self, info: ResourceInfo, new: Object, old: Object | None, subresource: str = ""
    ) -> list[Cause]:
        """Return all violations of the schema, of list sets and maps, and of CEL rules."""
        ...

    def merge_node(self, info: ResourceInfo) -> MergeNode | None:
        """Return the merge rules of this kind for server-side apply; None if it has no schema."""
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """A document in which the server describes itself."""

    body: bytes
    content_type: str = "application/json"
    etag: str = ""


class Documents(Protocol):
    """The discovery and OpenAPI documents."""

    def find(self, path: str, params: Mapping[str, str], accept: str) -> Document | None:
        """Return the document at a path (/api, /apis/..., /openapi/...), or None."""
        ...


class Part(Protocol):
    """A component that runs alongside the server: a controller, the simulated nodes."""

    async def start(self) -> None:
        """Start; returns once the component is ready."""
        ...

    async def stop(self) -> None:
        """Stop all tasks; raises the errors they failed with."""
        ...
