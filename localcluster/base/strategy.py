# ruff: noqa: ARG002 (the base ignores what its children look at)
"""What a kind adds to the rules that hold for all kinds."""

from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.hooks import User
from localcluster.base.resources import ResourceInfo

Object = dict[str, Any]


class Strategy:
    """The rules of one kind; this base is the kind that has none."""

    generation = False
    unconditional_update = True
    create_on_update = False
    returns_deleted = False
    status_keeps_metadata = False
    default_propagation = "Background"

    def default(self, obj: Object) -> None:
        """Fill in defaults, in place. Idempotent."""

    def prepare_create(self, obj: Object) -> None:
        """Make a new object as the server wants it; its metadata is complete."""

    def prepare_update(self, new: Object, old: Object) -> None:
        """Put back what an update may not touch without being told."""

    def prepare_status(self, new: Object, old: Object) -> None:
        """Put right what follows from a change of the status."""

    def validate_create(self, obj: Object) -> list[Cause]:
        """What is wrong with a new object, and is not asked again; `validate` is asked as well."""
        return []

    def validate(self, obj: Object) -> list[Cause]:
        """What is wrong with the object by itself."""
        return []

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """What is wrong with the change; `validate` is asked as well."""
        return []

    def authorize_status(self, user: User, verb: str, new: Object, old: Object) -> list[Cause]:
        """What in a change of the status the user has no right to."""
        return []

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        """What is wrong with a change of the status."""
        return []

    def warnings(self, obj: Object) -> list[str]:
        """What the client is told of an object that is accepted."""
        return []

    def grace(self, obj: Object, wanted: int | None) -> int | None:
        """Seconds between the deletion and the end; None for kinds that know no grace."""
        return None


class Generational(Strategy):
    """A built-in kind whose spec is counted."""

    generation = True


class Custom(Strategy):
    """A kind that a CRD made."""

    generation = True
    unconditional_update = False
    status_keeps_metadata = True


def spec_differs(info: ResourceInfo, new: Object, old: Object) -> bool:
    """Whether the generation moves: anything but metadata, and status where that is apart."""
    skip = {"metadata", "status"} if info.has_status else {"metadata"}
    return any(
        new.get(name) != old.get(name) for name in (new.keys() | old.keys()) if name not in skip
    )
