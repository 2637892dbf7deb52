# ruff: noqa: ARG002 (the base ignores what its children look at)
"""The rules that a kind adds to those of all kinds."""

from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.hooks import User
from localcluster.base.resources import ResourceInfo

Object = dict[str, Any]


class Strategy:
    """The rules of one kind; this base class has none."""

    generation = False
    unconditional_update = True
    create_on_update = False
    returns_deleted = False
    status_keeps_metadata = False
    default_propagation = "Background"

    def default(self, obj: Object) -> None:
        """Set defaults in place. Idempotent."""

    def prepare_create(self, obj: Object) -> None:
        """Prepare a new object, whose metadata is complete, for storage."""

    def prepare_update(self, new: Object, old: Object) -> None:
        """Restore the fields that an update may change only explicitly."""

    def prepare_status(self, new: Object, old: Object) -> None:
        """Adjust the fields that depend on the status."""

    def validate_create(self, obj: Object) -> list[Cause]:
        """Return the errors to check only on creation; the server calls `validate` as well."""
        return []

    def validate(self, obj: Object) -> list[Cause]:
        """Return the validation errors of the object itself."""
        return []

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return the validation errors of the change; the server calls `validate` as well."""
        return []

    def authorize_status(self, user: User, verb: str, new: Object, old: Object) -> list[Cause]:
        """Return an error for each part of a status change that the user may not write."""
        return []

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        """Return the validation errors of a status change."""
        return []

    def warnings(self, obj: Object) -> list[str]:
        """Return the warnings for the client about an accepted object."""
        return []

    def grace(self, obj: Object, wanted: int | None) -> int | None:
        """Return the grace period of a deletion in seconds; None for kinds without one."""
        return None


class Generational(Strategy):
    """A built-in kind whose spec has a generation."""

    generation = True


class Custom(Strategy):
    """A kind that a CRD defines."""

    generation = True
    unconditional_update = False
    status_keeps_metadata = True


def spec_differs(info: ResourceInfo, new: Object, old: Object) -> bool:
    """Return True if the generation increases.

    Every field counts except metadata and, if it is a subresource, status.
    """
    skip = {"metadata", "status"} if info.has_status else {"metadata"}
    return any(
        new.get(name) != old.get(name) for name in (new.keys() | old.keys()) if name not in skip
    )
