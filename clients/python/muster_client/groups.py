"""What a watch and the status of a group report, and the errors of the clients."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from muster_client.base import Object
from muster_client.models import REASON_INCOMPLETE, CompositePodGroup, Condition, PodGroup

T = TypeVar("T", bound=Object)
G = TypeVar("G", PodGroup, CompositePodGroup)

PENDING: Final = (REASON_INCOMPLETE,)
"""Reasons that are not refusals: the pods or groups that a group waits for do not exist yet."""


class ResponseTooLargeError(Exception):
    """The API server sent more than `muster_client.decoding.MAX_BYTES` for one object."""


class UnreadableResponseError(Exception):
    """The API server, or a proxy in front of it, sent something that the API does not define."""


class GroupDeletedError(Exception):
    """The group was deleted before the scheduler placed or refused it."""


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """A change: ADDED, MODIFIED or DELETED. A deleted object may have its metadata alone."""

    type: str
    object: T


@dataclass(frozen=True, slots=True)
class Outcome(Generic[G]):
    """A group that was placed or refused, with the reason and the message of its condition."""

    group: G
    placed: bool
    reason: str
    message: str


def outcome(group: G, pending: Collection[str] = PENDING) -> Outcome[G] | None:
    """Return the outcome that a group's condition states; None while the group waits.

    `pending` has the reasons that are not refusals.
    """
    conditions, name = group.status.conditions, group.scheduled_condition
    condition = next((each for each in conditions if each.type == name), Condition())
    placed = condition.status == "True"
    outdated = 0 < condition.observedGeneration < group.metadata.generation
    refused = condition.status == "False" and condition.reason not in pending and not outdated
    return (
        Outcome(group, placed, condition.reason, condition.message) if placed or refused else None
    )
