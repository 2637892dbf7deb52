"""The few metadata fields that are read everywhere, decoded by msgspec straight from bytes.

The structs opt out of garbage collection: they contain no cycles, and a full collection over
100,000 of them would otherwise take seconds. Other fields are skipped while decoding; nothing
decoded this way is ever written back.
"""

from datetime import datetime
from typing import Any, Protocol

import msgspec

from kube.client.decoding import Decoder

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is the empty string."""

Json = dict[str, Any]
"""A JSON object as it is sent."""


class OwnerReference(msgspec.Struct, rename="camel", gc=False):
    """`metadata.ownerReferences[]`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel", gc=False):
    """`metadata`; attribute names are the JSON names in snake case."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    finalizers: list[str] = msgspec.field(default_factory=list)
    owner_references: list[OwnerReference] = msgspec.field(default_factory=list)

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return (self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object, if one does."""
        return next((ref for ref in self.owner_references if ref.controller), None)


class Identity(msgspec.Struct, rename="camel", gc=False):
    """The metadata that every object has, without what users write."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Meta(Protocol):
    """The metadata that caches and reflectors need."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class HasMeta(Protocol):
    """Any decoded object. A struct of one's own may have fewer metadata fields."""

    @property
    def metadata(self) -> Meta: ...


class Partial(msgspec.Struct, gc=False):
    """An object whose metadata alone matters."""

    metadata: ObjectMeta


class Partials(msgspec.Struct, gc=False):
    """A list of such objects."""

    items: list[Partial] = []


class RawObject(msgspec.Struct, gc=False):
    """Decoded metadata with the complete object as a dict, for writers that keep every field."""

    metadata: ObjectMeta
    raw: Json


decode_partial = Decoder(Partial)
decode_partials = Decoder(Partials)
_mapping = msgspec.json.Decoder(dict[str, Any])


def decode_raw(data: bytes) -> RawObject:
    """Decode metadata and the complete object. Raises msgspec.DecodeError."""
    return RawObject(metadata=decode_partial(data).metadata, raw=_mapping.decode(data))
