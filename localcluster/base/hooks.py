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
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def to_json(self) -> Object:
        """The userInfo of an admission review."""
        out: Object = {"username": self.name}
        if self.uid:
            out["uid"] = self.uid
        if self.groups:
            out["groups"] = list(self.groups)
        return out


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What CreateOptions, UpdateOptions and PatchOptions say."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: Literal["Ignore", "Warn", "Strict"] = "Ignore"
    force: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What DeleteOptions says; `None` means: not said."""

    grace_period_seconds: int | None = None
    propagation_policy: Literal["Background", "Foreground", "Orphan"] | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


@dataclass(slots=True)
class AdmissionRequest:
    """One write on its way through admission.

    `obj` is the new object (None for DELETE), `old` the one in the store (None for CREATE). For a
    sub-resource `obj` is what the request carries (a Binding, a Scale) and `kind` its group,
    version and kind. `obj` may be changed in place by `mutate`; `old` never. Warnings for the
    client are appended to `warnings`.
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
        """Group, version and kind of the object that the request carries."""
        return self.kind or (self.info.group, self.info.version, self.info.kind)


class Admission(Protocol):
    """One step of admission; the server holds a list of them and calls them in order."""

    async def mutate(self, request: AdmissionRequest) -> None:
        """Change `request.obj`. Raises StatusError to refuse.

        An object put in its place is pruned and defaulted again; one changed in place is not.
        """
        ...

    async def validate(self, request: AdmissionRequest) -> None:
        """Look at the final object. Raises StatusError to refuse."""
        ...


class Schemas(Protocol):
    """The structural schemas of the kinds that have one; all others pass untouched."""

    def prepare(self, info: ResourceInfo, obj: Object) -> list[str]:
        """Prune and default in place; return what was unknown, as `unknown field "spec.x"`.

        Called on every object that a request brings, and again after mutation. Must be idempotent.
        """
        ...

    def validate(
        self, info: ResourceInfo, new: Object, old: Object | None, subresource: str = ""
    ) -> list[Cause]:
        """All breaches of the schema, of list sets and maps, and of CEL rules."""
        ...

    def merge_node(self, info: ResourceInfo) -> MergeNode | None:
        """How the lists of this kind merge in server-side apply; None if it has no schema."""
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """An answer of the server about itself."""

    body: bytes
    content_type: str = "application/json"
    etag: str = ""


class Documents(Protocol):
    """Discovery and OpenAPI."""

    def find(self, path: str, params: Mapping[str, str], accept: str) -> Document | None:
        """The document at a path (/api, /apis/..., /openapi/...), or None if there is none."""
        ...


class Part(Protocol):
    """Something that runs beside the server: a controller, the simulated nodes."""

    async def start(self) -> None:
        """Begin to work; returns once it is ready."""
        ...

    async def stop(self) -> None:
        """End all tasks; raises what they failed with."""
        ...
