"""Kinds that create an object of another kind, which requests the group: CronJobs, RayJobs.

Admission reports to their user immediately what it would report about the object that they create.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from api.causes import Cause
from api.constants import KindName
from api.integration.common.owner_kind import AnnotationHolder, OwnerKind


class EmbeddingKind(ABC):
    """A kind whose objects contain the template of an object of another kind."""

    kind: ClassVar[KindName]
    inner: ClassVar[OwnerKind]

    @abstractmethod
    def embedded(self, obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the object of the inner kind as it would be created, if there is one."""

    @abstractmethod
    def path(self, inner: str) -> str:
        """Return the path in this object of a field of the inner object."""

    def templates(self, obj: Mapping[str, Any]) -> Iterator[AnnotationHolder]:
        """Yield the templates in the object."""
        embedded = self.embedded(obj)
        for it in self.inner.templates(embedded) if embedded is not None else ():
            yield it._replace(path=self.path(it.path))

    def is_checked(self, operation: str) -> bool:
        """Return True if this operation affects what will be created."""
        return operation == "CREATE"

    def faults(self, obj: Mapping[str, Any]) -> Iterable[Cause]:
        """Return the faults that only this kind can have."""
        return ()

    def conclude(
        self, obj: Mapping[str, Any], found: Iterable[Cause], warnings: Iterable[str]
    ) -> tuple[list[Cause], list[str]]:
        """Return causes and warnings for this object, given those of the one it would create."""
        moved = [replace(it, field=self.path(it.field)) for it in found]
        return [*self.faults(obj), *moved], [self.path(it) for it in warnings]
