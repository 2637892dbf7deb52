"""The owner of a generated object, and the rule that follows from it.

A generated object exists as long as its owner: a Job, a JobSet, a KEP-3370 group, or the Workload
that pods name. The UID identifies the owner: a later owner of the same name never uses the objects
of an earlier one, and neither do its pods (`api.membership`). After its owner, an object remains
only as long as pods use it, whatever its owner references state and whatever owns its Workload.

The owner is in an annotation, because references do not last. The garbage collector removes the one
to a deleted owner if another owner exists, and a deletion with `orphan` removes all of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from api.constants import ANNOTATION_MADE_FOR, LABEL_MANAGED_BY, MANAGED_BY, KindName


class Noted(Protocol):
    """The metadata that states an object's owner."""

    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...


class NotedMeta(Noted, Protocol):
    """The same metadata with the deletion timestamp."""

    @property
    def deletion_timestamp(self) -> datetime | None: ...


class OwnerId(NamedTuple):
    """Identity of an owner of groups: a Job, a JobSet, a coscheduling group, a Workload."""

    group: str
    kind: str
    name: str
    uid: str

    def annotation(self) -> str:
        """Return the annotation's value."""
        return "/".join(self)

    def is_namesake(self, other: "OwnerId") -> bool:
        """Return True if both have one kind and name: the same owner, or one that replaced it."""
        return self[:3] == other[:3]


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner of generated objects."""

    kind: KindName
    namespace: str
    name: str
    uid: str

    @property
    def owner_id(self) -> OwnerId:
        """Identity of the owner, as the annotation on its objects states it."""
        return OwnerId(self.kind.group, self.kind.kind, self.name, self.uid)

    def generated(self, kind: KindName, name: str, *, blocks: bool = False) -> dict[str, Any]:
        """Return an object of this owner: its kind, and metadata with label, annotation, reference.

        With `blocks`, a foreground deletion of the owner waits for the object.
        """
        reference = {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {LABEL_MANAGED_BY: MANAGED_BY},
                "annotations": {ANNOTATION_MADE_FOR: self.owner_id.annotation()},
                "ownerReferences": [reference | ({"blockOwnerDeletion": True} if blocks else {})],
            },
        }


class Ownership(Enum):
    """The owner of an object with a wanted name."""

    OURS = auto()
    LEAVING = auto()
    FOREIGN = auto()


def created_for(meta: Noted) -> OwnerId | None:
    """Return the owner that the object was created for; None if the object is not Muster's."""
    if meta.labels.get(LABEL_MANAGED_BY) != MANAGED_BY:
        return None
    parts = meta.annotations.get(ANNOTATION_MADE_FOR, "").split("/")
    return OwnerId(*parts) if len(parts) == len(OwnerId._fields) else None


def ownership(meta: NotedMeta, owner: OwnerId) -> Ownership:
    """Return OURS for the owner's object, LEAVING for one to be deleted soon, else FOREIGN.

    A FOREIGN object is never changed.
    """
    owner_id = created_for(meta)
    # Even the owner's object: it is about to disappear, and must no longer be used.
    if meta.deletion_timestamp is not None:
        return Ownership.LEAVING
    if owner_id == owner:
        return Ownership.OURS
    # Two owners of one kind and name cannot exist at once, so the other one is deleted.
    if owner_id is not None and owner_id.is_namesake(owner):
        return Ownership.LEAVING
    return Ownership.FOREIGN


def lost_owner(meta: NotedMeta, exists: Callable[[OwnerId], bool]) -> OwnerId | None:
    """Return the owner that an object has outlived; None for any other object."""
    owner_id = created_for(meta)
    if owner_id is None or meta.deletion_timestamp is not None or exists(owner_id):
        return None
    return owner_id
