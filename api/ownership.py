"""For whom a generated object was made, and what follows: whose it is, who holds it, what is left.

The answer stands on the object as an annotation, since its owner references do not last: the
garbage collector takes the one to a gone owner off before the object itself goes, and a deletion
that orphans takes off all of them.
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


class Reference(Protocol):
    """One of `metadata.ownerReferences`."""

    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...


class Meta(Protocol):
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
    def owner_references(self) -> Sequence[Reference]: ...
    @property
    def controller(self) -> Reference | None: ...


class Maker(NamedTuple):
    """The object for which others are made: a Job, a JobSet, a coscheduling group, a Workload."""

    group: str
    kind: str
    name: str
    uid: str

    def said(self) -> str:
        """The annotation's value."""
        return "/".join(self)

    def is_namesake(self, other: "Maker") -> bool:
        """Whether both are of one kind and name: one of them, or a later one in its place."""
        return self[:3] == other[:3]


class Standing(Enum):
    """Whose an object of a wanted name is."""

    OURS = auto()
    PASSING = auto()
    FOREIGN = auto()


def made_for(meta: Meta) -> Maker | None:
    """For whom the object was made; None for an object that is not Muster's."""
    if meta.labels.get(LABEL_MANAGED_BY) != MANAGED_BY:
        return None
    parts = meta.annotations.get(ANNOTATION_MADE_FOR, "").split("/")
    return Maker(*parts) if len(parts) == len(Maker._fields) else None


def standing(meta: Meta, owner: Maker) -> Standing:
    """OURS was made for the owner, PASSING goes soon and is waited for, FOREIGN is never touched.

    What was made for a namesake of the owner passes, as that one is gone.
    """
    maker = made_for(meta)
    if meta.deletion_timestamp is not None:
        return Standing.PASSING
    if maker == owner:
        return Standing.OURS
    if maker is not None and maker.is_namesake(owner):
        return Standing.PASSING
    return Standing.FOREIGN


def is_meant_for_another(group: str, maker: Maker | None, job: Meta) -> bool:
    """Whether the pods of a Job name a PodGroup by chance: it was made for somebody else.

    So it is where Muster named their group (a user's own words are taken as they are), for the Job
    or for its JobSet, and neither is the `maker` of the group: a namesake of theirs is, or whoever
    had the name first. A Job that its JobSet orphaned says no more whose it is.
    """
    if job.annotations.get(ANNOTATION_MANAGED_GROUP) != group:
        return False
    above = job.controller
    if above is None and JOBSET_LABEL_NAME in job.labels:
        return False
    return maker is None or maker.uid not in {job.uid, above.uid if above else ""}


def is_left_over(meta: Meta, lives: Callable[[Reference], bool]) -> bool:
    """Whether the object was generated, and no owner is left for which anybody would delete it."""
    return (
        made_for(meta) is not None
        and meta.deletion_timestamp is None
        and not any(lives(reference) for reference in meta.owner_references)
    )
