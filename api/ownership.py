"""Which owner a generated object was made for, and the one rule that follows from that.

A generated object lives as long as what it was made for: a Job, a JobSet, a KEP-3370 group, or the
Workload that pods name. The UID tells which one: what was made for an earlier owner of a name is
never used by a later one, nor by its pods (`api.membership`). After that owner it stays only as
long as pods use it, whatever its owner references say, and whoever owns its Workload.

For whom it was made is an annotation, since references do not last: the garbage collector removes
the one to a deleted owner where another owner lives, and a deletion with `orphan` removes them all.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple, Protocol

from api.constants import (
    ANNOTATION_MADE_FOR,
    LABEL_MANAGED_BY,
    MANAGED_BY,
)


class Noted(Protocol):
    """The metadata that says what an object was made for."""

    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...


class NotedMeta(Noted, Protocol):
    """The same, and whether the object is being deleted."""

    @property
    def deletion_timestamp(self) -> datetime | None: ...


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


def made_for(meta: Noted) -> OwnerId | None:
    """The owner that the object was made for; None for an object that is not Muster's."""
    if meta.labels.get(LABEL_MANAGED_BY) != MANAGED_BY:
        return None
    parts = meta.annotations.get(ANNOTATION_MADE_FOR, "").split("/")
    return OwnerId(*parts) if len(parts) == len(OwnerId._fields) else None


def ownership(meta: NotedMeta, owner: OwnerId) -> Ownership:
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


def lost_owner(meta: NotedMeta, exists: Callable[[OwnerId], bool]) -> OwnerId | None:
    """The owner that an object was made for and has outlived; None for any other object."""
    owner_id = made_for(meta)
    if owner_id is None or meta.deletion_timestamp is not None or exists(owner_id):
        return None
    return owner_id
