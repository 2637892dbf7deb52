"""The fields of watched objects that the controllers keep."""

from typing import Any

import msgspec

from api.constants import (
    COMPOSITE_POD_GROUP,
    COSCHEDULING,
    JOB,
    JOBSET,
    LEADER_WORKER_SET,
    NATIVE_GROUP,
    NATIVE_POD_GROUP,
    PLUGINS_POD_GROUP,
    POD_GROUP,
    REASON_START_TIMEOUT,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    WORKLOAD,
)
from api.groups import WorkloadForm
from api.integration.common.minimum import Progress
from api.integration.pods.groups_from_pods import GroupDescription
from api.integration.single_group.kind import NO_UPDATE, Rollout
from api.membership import NO_OWNERS, Owners, current_name, usual_name
from api.ownership import OwnerId
from api.reading import integer
from kube.client.meta import Identity, Json, Key, ObjectMeta, OwnerReference
from kube.client.resources import Resource

WORKLOADS = WORKLOAD
POD_GROUPS = POD_GROUP
COMPOSITES = COMPOSITE_POD_GROUP
NATIVE_POD_GROUPS = NATIVE_POD_GROUP
JOBS = JOB
JOBSETS = JOBSET
LEADER_WORKER_SETS = LEADER_WORKER_SET
COSCHEDULINGS = COSCHEDULING
PLUGINS_POD_GROUPS = PLUGINS_POD_GROUP
CLAIMS = RESOURCE_CLAIM
CLAIM_TEMPLATES = RESOURCE_CLAIM_TEMPLATE

NOTHING_DONE = Progress()

_NATIVE = f"/{NATIVE_GROUP}"


def member_name(group: str, *, native: bool) -> str:
    """Return the name of a PodGroup among those of both APIs, as `Pod.groups` has it."""
    # No name of an object has a slash.
    return group + _NATIVE if native else group


def group_named(member: str) -> tuple[str, bool]:
    """Return the name of a PodGroup, and True if it is one of Kubernetes' own."""
    name = member.removesuffix(_NATIVE)
    return name, name != member


class Pod(msgspec.Struct, gc=False):
    """The fields of a pod that controllers use.

    - `groups`: the groups it names, by `member_name`. `active`: it has not succeeded or failed.
      `bound`: it has a node.
    - `claims`: the possible owners of its first group; it belongs to a group of one of them only.
    - `counts`: the scheduler counts it for the minCount of its group. `job`: the UID of its Job.
    - `implicit`: set if it names its group by Workload and template.
    - `coscheduling`: group and subset, if it names its group by the label of KEP-3370. Then `state`
      and `priority_class` are kept, too.
    - `ask`: its annotations for a group to be created from its pods. Then `controller` is kept.
    - `waits`: it has no node, no nominated node and no scheduling gate.
    - `consumes`: the ProvisioningRequest that stands for it. `shape` is what it needs while it
      waits (`api.provisioning.shape_of`).
    - `replica_size`: the pods of its replica, as the worker of a LeaderWorkerSet reports; else 0.
    """

    metadata: Identity
    groups: tuple[str, ...] = ()
    active: bool = True
    bound: bool = False
    claims: Owners = NO_OWNERS
    counts: bool = True
    job: str = ""
    implicit: WorkloadForm | None = None
    coscheduling: tuple[str, str] | None = None
    ask: GroupDescription | None = None
    controller: OwnerReference | None = None
    state: str = ""
    priority_class: str = ""
    waits: bool = False
    consumes: str = ""
    shape: bytes = b""
    replica_size: int = 0


class NamedObject(msgspec.Struct, gc=False):
    """An object of which only the existence matters."""

    metadata: Identity


class ClaimEntry(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """An entry of a PodGroup's `spec.resourceClaims`, which names a claim or a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ClaimStatus(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """An entry of a PodGroup's `status.resourceClaimStatuses`: the claim created for an entry."""

    name: str = ""
    resource_claim_name: str | None = None


class Group(msgspec.Struct, gc=False):
    """The fields of a PodGroup or CompositePodGroup that controllers use.

    - `blocked_by`: the kind of its blocker, empty without one; `waits_for`: the name of the group
      that the blocker is about, empty if it is this one.
    - `spec`: raw JSON, kept only if a template has yet to provide the policy, or if the group was
      created from its pods.
    - `claims`: the claims that its pods share, from its spec. `claim_statuses`: those that exist.
    - `has_status`: it has a status at all. `expected`: `expectedPods` of its spec.
    - `native`: it is one of Kubernetes' own.
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
    native: bool = False

    @property
    def timed_out(self) -> bool:
        """True if the scheduler gave it up because it did not start in time."""
        condition = self.condition or {}
        return not self.scheduled and condition.get("reason") == REASON_START_TIMEOUT

    @property
    def leaf_resource(self) -> Resource:
        """The kind of a PodGroup."""
        return NATIVE_POD_GROUPS if self.native else POD_GROUPS

    @property
    def current_name(self) -> str:
        """The name of a PodGroup in this version."""
        template = self.template[1] if self.template else ""
        return current_name(self.metadata, self.metadata.name, template)

    @property
    def has_earlier_name(self) -> bool:
        """True if an earlier version named the PodGroup, so that its pods give another name."""
        return self.current_name != self.metadata.name

    @property
    def pods_name(self) -> str:
        """The name by which its pods name a PodGroup."""
        return usual_name(self.metadata) or self.current_name

    @property
    def member_key(self) -> Key:
        """Namespace and `member_name` of a PodGroup."""
        # Pods of another owner may also name a group by the name that it stands for.
        return self.metadata.namespace, member_name(self.current_name, native=self.native)

    @property
    def min_count(self) -> int | None:
        """The minCount of a gang of pods; None for a group without one."""
        gang = self.policy.get("gang")
        return integer(gang.get("minCount")) if isinstance(gang, dict) else None

    def spec_object(self) -> Json:
        """Return the spec of a group that keeps it."""
        spec: Json = msgspec.json.decode(self.spec) or {}
        return spec


class Workload(msgspec.Struct, gc=False):
    """A Workload: its controllerRef and its spec as raw JSON."""

    metadata: ObjectMeta
    controller_ref: tuple[str, str, str] | None
    spec: bytes

    def as_object(self) -> Json:
        """Return the object in the form that `api.integration` reads."""
        meta = {"name": self.metadata.name, "uid": self.metadata.uid}
        return {"metadata": meta, "spec": msgspec.json.decode(self.spec) or {}}


class Owner(msgspec.Struct, gc=False):
    """An object for which groups are created: a Job, StatefulSet, coscheduling PodGroup or other.

    - `spec`: raw JSON, kept only if it has a group of Muster's.
    - `status`: raw JSON of a coscheduling PodGroup, or the used part of a LeaderWorkerSet's.
    - `restarts`: the restarts of a JobSet, or the restart that created a Job of one.
    - `rollout`: set for a StatefulSet or Deployment while an update replaces its pods.
    - `native`: set for a Job whose pods are in a group of Kubernetes' own.
    """

    resource: Resource
    metadata: ObjectMeta
    spec: bytes
    suspended: bool = False
    finished: bool = False
    progress: Progress = NOTHING_DONE
    restarts: int = 0
    status: bytes = b""
    rollout: Rollout = NO_UPDATE
    native: bool = False

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def owner_id(self) -> OwnerId:
        """Identity of the owner, as the annotation on its generated objects states it."""
        return OwnerId(self.resource.group, self.kind, self.metadata.name, self.metadata.uid)

    @property
    def as_index(self) -> tuple[str, OwnerId]:
        """Key of its generated objects in the index `BY_OWNER`."""
        return self.metadata.namespace, self.owner_id

    def as_object(self) -> Json:
        """Return the object in the form that `api.integration` reads."""
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
