"""The API server as the controllers use it, and the kinds they use."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from localcluster.controllers.base.objects import Obj


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource, with its names in paths and in objects."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """The apiVersion field of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


PODS = Kind("", "v1", "pods", "Pod")
NODES = Kind("", "v1", "nodes", "Node")
SERVICES = Kind("", "v1", "services", "Service")
EVENTS = Kind("", "v1", "events", "Event")
JOBS = Kind("batch", "v1", "jobs", "Job")
JOBSETS = Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
CLAIMS = Kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
CLAIM_TEMPLATES = Kind("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
PDBS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")

WatchType = Literal["ADDED", "MODIFIED", "DELETED"]
Propagation = Literal["Background", "Foreground", "Orphan"]


@dataclass(frozen=True, slots=True)
class Watch:
    """A consistent list and the events that follow it."""

    items: list[Obj]
    events: AsyncIterator[tuple[WatchType, Obj]]


class Server(Protocol):
    """The API server as its controllers use it.

    Every call passes through the complete pipeline, including admission webhooks. Failures are
    localcluster.base.errors.StatusError.
    """

    async def watch(self, kind: Kind) -> Watch:
        """List the kind in all namespaces and watch it from that revision."""
        ...

    async def get(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        """Return the current object, or None if it does not exist."""
        ...

    async def create(self, kind: Kind, namespace: str, obj: Obj) -> Obj:
        """Create and return the object."""
        ...

    async def update(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        """Replace the object or its subresource; a stale resourceVersion is a conflict."""
        ...

    async def delete(
        self,
        kind: Kind,
        obj: Obj,
        *,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> Obj | None:
        """Delete the object with that UID.

        Return None if it is removed, else its remaining state.
        """
        ...
