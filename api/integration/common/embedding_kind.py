"""Kinds that create an object of another kind, which asks for the group: CronJobs, RayJobs.

Admission reports to their user at once what it would report of the object that they create.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from api.causes import Cause
from api.constants import KindName
from api.integration.common.owner_kind import Holder, OwnerKind


class EmbeddingKind(ABC):
    """A kind whose objects contain what they create an object of another kind from."""

    kind: ClassVar[KindName]
    inner: ClassVar[OwnerKind]

    @abstractmethod
    def embedded(self, obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return an object of the inner kind as it would be created; None for no such."""

    @abstractmethod
    def path(self, inner: str) -> str:
        """Return where a field of that object is written in this one."""

    def templates(self, obj: Mapping[str, Any]) -> Iterator[Holder]:
        """Yield the templates in the object."""
        embedded = self.embedded(obj)
        for it in self.inner.templates(embedded) if embedded is not None else ():
            yield it._replace(path=self.path(it.path))

    def is_checked(self, operation: str) -> bool:
        """Return whether this operation decides about what will be created."""
        return operation == "CREATE"

    def faults(self, obj: Mapping[str, Any]) -> Iterable[Cause]:
        """Return what is wrong with an object of this kind alone."""
        del obj
        return ()

    def conclude(
        self, obj: Mapping[str, Any], found: Iterable[Cause], warnings: Iterable[str]
    ) -> tuple[list[Cause], list[str]]:
        """Return causes and warnings for this object, given those of the one it would create."""
        moved = [replace(it, field=self.path(it.field)) for it in found]
        return [*self.faults(obj), *moved], [self.path(it) for it in warnings]
