"""What the controllers keep of each watched object: a few of its fields."""

from typing import Any

import msgspec

from api.constants import (
    COMPOSITE_POD_GROUP,
    COSCHEDULING,
    JOB,
    JOBSET,
    LEADER_WORKER_SET,
    PLUGINS_POD_GROUP,
    POD_GROUP,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    WORKLOAD,
)
from api.groups import WorkloadForm
from api.integration.common.minimum import Progress
from api.integration.pods.groups_from_pods import Ask
from api.integration.single_group.kind import NO_UPDATE, Rollout
from api.membership import NOBODY, Owners
from api.ownership import OwnerId
from api.reading import integer
from kube.client.meta import Json, Key, ObjectMeta, OwnerReference
from kube.client.resources import Resource

WORKLOADS = Resource(*WORKLOAD)
POD_GROUPS = Resource(*POD_GROUP)
COMPOSITES = Resource(*COMPOSITE_POD_GROUP)
JOBS = Resource(*JOB)
JOBSETS = Resource(*JOBSET)
LEADER_WORKER_SETS = Resource(*LEADER_WORKER_SET)
COSCHEDULINGS = Resource(*COSCHEDULING)
PLUGINS_POD_GROUPS = Resource(*PLUGINS_POD_GROUP)
CLAIMS = Resource(*RESOURCE_CLAIM)
CLAIM_TEMPLATES = Resource(*RESOURCE_CLAIM_TEMPLATE)

ObjectKey = tuple[str, Key]
"""The kind and key of an object."""

NOTHING_DONE = Progress()


class NamedMeta(msgspec.Struct, rename="camel", gc=False):
    """Which object it is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class PodMeta(NamedMeta, rename="camel", gc=False):
    """That of a pod; its labels are read once, for its group, and not kept."""


class Pod(msgspec.Struct, gc=False):
    """A pod: the groups it names, whether it is not Succeeded or Failed yet, whether it has a node.

    `claims` says whose the first of the groups has to be, so that the pod belongs to it. `counts`:
    the scheduler counts it for the minCount of its group. `job` is the UID of its Job.
    `implicit` is set where the pod names its group by Workload and template, `coscheduling` where
    by KEP-3370's label (with the subset): then `state` and `priority_class` are kept too.
    `ask` is what it says of a group that is to be made as its pods say; then `controller` is kept.
    `waits`: it has no node, none is nominated for it, and no gate holds it. `consumes` is the
    request for capacity that it says stands for it, and `shape` then what it needs while it waits
    (`api.provisioning.shape_of`). `replica_size` is how many pods a LeaderWorkerSet's worker says
    that its replica has, 0 of any other pod.
    """

    metadata: PodMeta
    groups: tuple[str, ...] = ()
    active: bool = True
    bound: bool = False
    claims: Owners = NOBODY
    counts: bool = True
    job: str = ""
    implicit: WorkloadForm | None = None
    coscheduling: tuple[str, str] | None = None
    ask: Ask | None = None
    controller: OwnerReference | None = None
    state: str = ""
    priority_class: str = ""
    waits: bool = False
    consumes: str = ""
    shape: bytes = b""
    replica_size: int = 0


class NamedObject(msgspec.Struct, gc=False):
    """An object of which only matters that it is there."""

    metadata: NamedMeta


class ClaimEntry(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """An entry of a PodGroup's `spec.resourceClaims`, which names a claim or a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ClaimStatus(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """An entry of its `status.resourceClaimStatuses`: the claim that was made for an entry."""

    name: str = ""
    resource_claim_name: str | None = None


class Group(msgspec.Struct, gc=False):
    """A PodGroup or CompositePodGroup: its parent and policy, and what its status says.

    `blocked_by` is the kind of its blocker, empty without one; `waits_for` the name of the group
    that the blocker is about, empty if it is this one. `spec` is raw JSON, kept only where the
    policy has yet to come from a template, or all of it from the group's pods. `claims` are the
    claims that its pods share, as the spec has them, `claim_statuses` those that were created;
    `has_status`: it has a status at all. `expected` is `expectedPods` as it stands there.
    """

    metadata: ObjectMeta
    parent: str
    policy: Json
    template: tuple[str, str] | None
    scheduled: bool
    condition: Json | None
    waiting: str
    spec: bytes
    blocked_by: str = ""
    waits_for: str = ""
    claims: tuple[ClaimEntry, ...] = ()
    claim_statuses: tuple[ClaimStatus, ...] = ()
    has_status: bool = False
    expected: list[Any] = []

    @property
    def min_count(self) -> int | None:
        """The minCount of a gang of pods."""
        gang = self.policy.get("gang")
        return integer(gang.get("minCount")) if isinstance(gang, dict) else None

    def spec_object(self) -> Json:
        """The spec of a group that keeps it."""
        spec: Json = msgspec.json.decode(self.spec) or {}
        return spec


class Workload(msgspec.Struct, gc=False):
    """A Workload: the object it says it is for, and its spec as raw JSON."""

    metadata: ObjectMeta
    controller_ref: tuple[str, str, str] | None
    spec: bytes

    def as_object(self) -> Json:
        """The object as `api.integration` reads it."""
        meta = {"name": self.metadata.name, "uid": self.metadata.uid}
        return {"metadata": meta, "spec": msgspec.json.decode(self.spec) or {}}


class Owner(msgspec.Struct, gc=False):
    """What groups are made for: a Job, StatefulSet, LeaderWorkerSet, coscheduling PodGroup, ...

    `spec` is its raw JSON, kept only where it has a group of ours; `status` that of a coscheduling
    PodGroup, or what matters of a LeaderWorkerSet's. `restarts`: how often a JobSet was restarted,
    or which restart made a Job of one. `rollout` is that of a StatefulSet or Deployment while an
    update replaces its pods.
    """

    resource: Resource
    metadata: ObjectMeta
    spec: bytes
    suspended: bool
    finished: bool
    progress: Progress = NOTHING_DONE
    restarts: int = 0
    status: bytes = b""
    rollout: Rollout = NO_UPDATE

    @property
    def kind(self) -> str:
        """Its kind."""
        return self.resource.kind

    @property
    def owner_id(self) -> OwnerId:
        """Its identity as noted on the objects made for it."""
        return OwnerId(self.resource.group, self.kind, self.metadata.name, self.metadata.uid)

    @property
    def as_index(self) -> tuple[str, OwnerId]:
        """What the objects made for it are indexed by: theirs is the same namespace."""
        return self.metadata.namespace, self.owner_id

    def as_object(self) -> Json:
        """The object as `api.integration` reads it."""
        meta = self.metadata
        return {
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "labels": meta.labels,
                "annotations": meta.annotations,
            },
            "spec": msgspec.json.decode(self.spec) or {},
        }
