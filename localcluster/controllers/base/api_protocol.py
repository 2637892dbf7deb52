"""What controllers need of the API server, and the kinds they work with."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from localcluster.controllers.base.objects import Obj


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource as it is named in a path and in an object."""

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
    """A consistent list and everything that happens after it."""

    items: list[Obj]
    events: AsyncIterator[tuple[WatchType, Obj]]


class Server(Protocol):
    """The API server as its controllers use it.

    Every call goes through the whole pipeline, admission webhooks included. Failures are
    localcluster.base.errors.StatusError.
    """

    async def watch(self, kind: Kind) -> Watch:
        """List the kind in all namespaces and watch it from there."""
        ...

    async def get(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        """The object as it is now, None when there is none."""
        ...

    async def create(self, kind: Kind, namespace: str, obj: Obj) -> Obj:
        """Create and return the object."""
        ...

    async def update(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        """Replace the object or its sub-resource; a stale resourceVersion is a conflict."""
        ...

    async def delete(
        self,
        kind: Kind,
        obj: Obj,
        *,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> Obj | None:
        """Delete the object of that UID: None when it is gone, else what is left of it for now."""
        ...
