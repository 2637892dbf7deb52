"""What all models share: metadata, and how they read and write JSON."""

# ruff: noqa: N815  fields bear the API's own names

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Resource(NamedTuple):
    """The coordinates of a kind on the API server."""

    group: str
    version: str
    plural: str
    kind: str

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the URL path of an object, or of a collection. Raises ValueError for bad names."""
        parts = ["/apis", self.group, self.version]
        if namespace is not None:
            parts += ["namespaces", _segment(namespace)]
        parts.append(self.plural)
        return "/".join(parts if name is None else [*parts, _segment(name)])


def _segment(text: str) -> str:
    # An empty name would address all objects, and these two another path.
    if text in {"", ".", ".."}:
        raise ValueError(f"{text!r} is no name of an object or a namespace")
    return quote(text, safe="")


class Model(BaseModel):
    """A part of an object. It keeps unknown fields, and a null field counts as absent."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        return {key: value for key, value in data.items() if value is not None}


class OwnerReference(Model):
    """OwnerReference names an object that owns this one."""

    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    blockOwnerDeletion: bool = False


class ObjectMeta(Model):
    """ObjectMeta is the metadata of every object, without what controllers have no use for."""

    name: str = ""
    generateName: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    creationTimestamp: datetime | None = None
    deletionTimestamp: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: list[str] = Field(default_factory=list)
    ownerReferences: list[OwnerReference] = Field(default_factory=list)


class Object(Model):
    """An object of the API."""

    resource: ClassVar[Resource]

    apiVersion: str = ""
    kind: str = ""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)

    def to_json(self) -> dict[str, Any]:
        """Return the object as a request has it: fields with default values are left out."""
        resource = self.resource
        about = {"apiVersion": f"{resource.group}/{resource.version}", "kind": resource.kind}
        return self.model_dump(mode="json", exclude_defaults=True) | about
