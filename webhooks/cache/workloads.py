"""The Workloads that reviews look up, by name and by the owner in their controllerRef."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

import msgspec

from api.integration.common.workloads import OwnerName
from api.ownership import created_for
from kube.client.decoding import Decoder
from kube.client.meta import Identity
from kube.informers.cache import Cache

_BY_OWNER: Final = "owner"
"""Index by namespace, API group, kind and name in the controllerRef."""


class NotedMeta(Identity, rename="camel", gc=False):
    """The metadata as it is decoded; annotations may be long, and are not kept."""

    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)

    def identity(self) -> Identity:
        """Return the part that caches keep."""
        return Identity(self.name, self.namespace, self.uid, self.resource_version)


class WorkloadObject(msgspec.Struct, gc=False):
    """A Workload with its `spec` as raw JSON.

    `owner` is the object in its controllerRef; None while the Workload is being deleted.
    `generated` is True if Muster created it.
    """

    metadata: Identity
    # Raw JSON takes a tenth of the memory of decoded objects. A tree may have thousands of
    # templates, and a review needs one of them.
    spec: bytes = b"{}"
    owner: OwnerName | None = None
    generated: bool = False


class _ControllerRef(msgspec.Struct, rename="camel", gc=False):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class _WorkloadSpec(msgspec.Struct, rename="camel", gc=False):
    controller_ref: _ControllerRef | None = None


class _RawWorkload(msgspec.Struct, gc=False):
    metadata: NotedMeta
    spec: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


class WorkloadCache(Cache[WorkloadObject]):
    """Sink of Workloads, which returns the `spec` in an otherwise empty object."""

    def __init__(self) -> None:
        super().__init__()
        self.add_index(_BY_OWNER, _owner_of)

    def named(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the Workload of that name; None if it is missing."""
        return _as_object(self.get(namespace, name))

    def of_user(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        found = [it for it in self._of(namespace, owner) if not it.generated]
        # The controllers reject several as a conflict, so the webhook must not choose one.
        return _as_object(found[0]) if len(found) == 1 else None

    def of_owner(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        found = self._of(namespace, owner)
        return _as_object(min(found, key=lambda it: it.metadata.name, default=None))

    def _of(self, namespace: str, owner: OwnerName) -> list[WorkloadObject]:
        return self.by_index(_BY_OWNER, (namespace, *owner))


_decode_raw: Final = Decoder(_RawWorkload)
_decode_spec: Final = Decoder(_WorkloadSpec)


def decode_workload(data: bytes) -> WorkloadObject:
    """Decode a Workload. Raises msgspec.DecodeError."""
    raw = _decode_raw(data)
    meta, ref = raw.metadata, _decode_spec(raw.spec).controller_ref
    # A Workload that is being deleted provides no templates. The controllers ignore it, too.
    named = ref is not None and meta.deletion_timestamp is None
    owner = OwnerName(ref.api_group, ref.kind, ref.name) if ref is not None and named else None
    # Copy: the raw part would keep the complete message that it is part of.
    return WorkloadObject(meta.identity(), bytes(raw.spec), owner, created_for(meta) is not None)


def _owner_of(workload: WorkloadObject) -> Iterable[Hashable]:
    return () if workload.owner is None else ((workload.metadata.namespace, *workload.owner),)


def _as_object(found: WorkloadObject | None) -> Mapping[str, Any] | None:
    return {"spec": msgspec.json.decode(found.spec)} if found is not None else None
