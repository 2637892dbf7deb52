"""Which owner a generated object was made for, and what follows from that.

The answer is an annotation of the object, since its owner references do not last: the garbage
collector removes the one to a deleted owner before it deletes the object, and a deletion with
`orphan` removes all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple, Protocol

from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_MANAGED_GROUP,
    JOBSET_LABEL_NAME,
    LABEL_MANAGED_BY,
    MANAGED_BY,
)


class OwnerReference(Protocol):
    """One of `metadata.ownerReferences`."""

    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...


class OwnedMeta(Protocol):
    """The metadata that is read here."""

    @property
    def uid(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...
    @property
    def deletion_timestamp(self) -> datetime | None: ...
    @property
    def owner_references(self) -> Sequence[OwnerReference]: ...
    @property
    def controller(self) -> OwnerReference | None: ...


class OwnerId(NamedTuple):
    """Identity of an owner of groups: a Job, a JobSet, a coscheduling group, a Workload."""

    group: str
    kind: str
    name: str
    uid: str

    def annotation(self) -> str:
        """The annotation's value."""
        return "/".join(self)

    def is_namesake(self, other: "OwnerId") -> bool:
        """Whether both have one kind and name: the same owner, or one that replaced it."""
        return self[:3] == other[:3]


class Ownership(Enum):
    """To whom an object of a wanted name belongs."""

    OURS = auto()
    LEAVING = auto()
    FOREIGN = auto()


def made_for(meta: OwnedMeta) -> OwnerId | None:
    """The owner that the object was made for; None for an object that is not Muster's."""
    if meta.labels.get(LABEL_MANAGED_BY) != MANAGED_BY:
        return None
    parts = meta.annotations.get(ANNOTATION_MADE_FOR, "").split("/")
    return OwnerId(*parts) if len(parts) == len(OwnerId._fields) else None


def ownership(meta: OwnedMeta, owner: OwnerId) -> Ownership:
    """OURS was made for the owner, LEAVING will be deleted soon, FOREIGN is never touched.

    An object made for another owner of the same kind and name is LEAVING, as that owner is gone.
    """
    owner_id = made_for(meta)
    if meta.deletion_timestamp is not None:
        return Ownership.LEAVING
    if owner_id == owner:
        return Ownership.OURS
    if owner_id is not None and owner_id.is_namesake(owner):
        return Ownership.LEAVING
    return Ownership.FOREIGN


def is_meant_for_another(group: str, owner_id: OwnerId | None, job: OwnedMeta) -> bool:
    """Whether the pods of a Job name a PodGroup that was made for another owner.

    That is possible where Muster itself named their group, for the Job or for its JobSet, and
    `owner_id`, the owner of the group, is neither of them but another one of the same name. A group
    that a user named counts as meant. A Job that its JobSet orphaned no longer shows its owner.
    """
    if job.annotations.get(ANNOTATION_MANAGED_GROUP) != group:
        return False
    parent = job.controller
    if parent is None and JOBSET_LABEL_NAME in job.labels:
        return False
    return owner_id is None or owner_id.uid not in {job.uid, parent.uid if parent else ""}


def is_orphaned(meta: OwnedMeta, is_alive: Callable[[OwnerReference], bool]) -> bool:
    """Whether the object was generated and none of its owners is alive."""
    return (
        made_for(meta) is not None
        and meta.deletion_timestamp is None
        and not any(is_alive(reference) for reference in meta.owner_references)
    )
