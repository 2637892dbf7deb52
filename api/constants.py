"""Constants of the API: groups, kinds, labels, annotations, finalizers, conditions, reasons.

Every string that several packages must spell alike is defined here and nowhere else.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import quote

_PLAIN = re.compile(r"[a-z0-9.:-]+").fullmatch  # most names, which quoting would leave alone


class KindName(NamedTuple):
    """The coordinates of a kind on the API server; `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of the kind's objects, `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`plural.group`, the name that `kubectl` and RBAC know it by."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def full_kind(self) -> str:
        """`Kind.group`, which tells kinds of one name apart."""
        return f"{self.kind}.{self.group}"

    def path(
        self,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """Return the URL path of the collection, of one object, or of its subresource.

        Without a namespace it is the collection over all namespaces. Raises ValueError for a named
        object of a namespaced kind without its namespace.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace:
            parts += ["namespaces", _segment(namespace)]
        elif self.namespaced and name is not None:
            raise ValueError(f"{self.full_name} {name!r}: namespace is required")
        parts.append(self.plural)
        if name is not None:
            parts.append(_segment(name))
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)


def _segment(text: str) -> str:
    if not text:
        raise ValueError("a name in a path must not be empty")
    return text if _PLAIN(text) else quote(text, safe=":")


GROUP: Final = "scheduling.muster.dev"
VERSION: Final = "v1alpha3"  # the version that is stored, and that admission validates
V1ALPHA2: Final = "v1alpha2"
V1ALPHA1: Final = "v1alpha1"
CATEGORY: Final = "muster"
SCHEDULER_NAME: Final = "muster-scheduler"  # unless others are configured
# The scheduler's process, whatever schedulerNames are configured: its lease, and the prefix of its
# messages on pods.
SCHEDULER_COMPONENT: Final = "muster-scheduler"
CONTROLLER_COMPONENT: Final = "muster-controller"
DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"

WORKLOAD: Final = KindName(GROUP, VERSION, "workloads", "Workload")
POD_GROUP: Final = KindName(GROUP, VERSION, "podgroups", "PodGroup")
COMPOSITE_POD_GROUP: Final = KindName(GROUP, VERSION, "compositepodgroups", "CompositePodGroup")
KINDS: Final = (WORKLOAD, POD_GROUP, COMPOSITE_POD_GROUP)

# Kubernetes' own kinds, served since 1.37 behind gates.
NATIVE_GROUP: Final = "scheduling.k8s.io"
NATIVE_POD_GROUP: Final = KindName(NATIVE_GROUP, "v1beta1", "podgroups", "PodGroup")
NATIVE_COMPOSITE_POD_GROUP: Final = KindName(
    NATIVE_GROUP, "v1alpha3", "compositepodgroups", "CompositePodGroup"
)
NATIVE_GROUP_KINDS: Final = (NATIVE_COMPOSITE_POD_GROUP, NATIVE_POD_GROUP)

# The scheduler's own record of decisions that are not completely bound yet.
RESERVATION: Final = KindName(GROUP, VERSION, "reservations", "Reservation", namespaced=False)

# The kind of KEP-3370: another PodGroup, of another API group.
COSCHEDULING_GROUP: Final = "coscheduling.muster.dev"
COSCHEDULING: Final = KindName(COSCHEDULING_GROUP, "v1alpha1", "podgroups", "PodGroup")

POD: Final = KindName("", "v1", "pods", "Pod")

STATEFUL_SET: Final = KindName("apps", "v1", "statefulsets", "StatefulSet")
DEPLOYMENT: Final = KindName("apps", "v1", "deployments", "Deployment")

JOBSET_GROUP: Final = "jobset.x-k8s.io"
JOBSET: Final = KindName(JOBSET_GROUP, "v1alpha2", "jobsets", "JobSet")
JOB: Final = KindName("batch", "v1", "jobs", "Job")
CRON_JOB: Final = KindName("batch", "v1", "cronjobs", "CronJob")

LEADER_WORKER_SET: Final = KindName(
    "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"
)

# The values of `spec.managedBy` for Kubernetes' and JobSet's own controllers.
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
JOBSET_CONTROLLER: Final = "jobset.sigs.k8s.io/jobset-controller"
# The kind of the scheduler-plugins project, which is read the same way as COSCHEDULING.
PLUGINS_POD_GROUP: Final = KindName("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")

# KubeRay's kinds: a RayJob and a RayService create RayClusters.
RAY_GROUP: Final = "ray.io"
RAY_CLUSTER: Final = KindName(RAY_GROUP, "v1", "rayclusters", "RayCluster")
RAY_JOB: Final = KindName(RAY_GROUP, "v1", "rayjobs", "RayJob")
RAY_SERVICE: Final = KindName(RAY_GROUP, "v1", "rayservices", "RayService")
RAY_OPERATOR: Final = "ray.io/kuberay-operator"

MPI_JOB: Final = KindName("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
MPI_OPERATOR: Final = "kubeflow.org/mpi-operator"

# Kubeflow Trainer's kind, which creates a JobSet. Any version of its API group counts.
TRAIN_JOB: Final = KindName("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")

# Cluster Autoscaler's kind for capacity requests, and the kind that describes their pods.
PROVISIONING_REQUEST: Final = KindName(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest"
)
POD_TEMPLATE: Final = KindName("", "v1", "podtemplates", "PodTemplate")
# On a pod: the request that stands for it, so that an autoscaler adds no nodes for the pod itself.
ANNOTATION_CONSUMES_REQUEST: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
ANNOTATION_PROVISIONING_CLASS: Final = "autoscaling.x-k8s.io/provisioning-class-name"

# Kubernetes' kinds of Dynamic Resource Allocation.
RESOURCE_GROUP: Final = "resource.k8s.io"
RESOURCE_CLAIM: Final = KindName(RESOURCE_GROUP, "v1", "resourceclaims", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATE: Final = KindName(
    RESOURCE_GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate"
)

# Limits of the rules and of the names.
MAX_TEMPLATES: Final = 8
"""Templates of a Workload on each level. Admission rejects more."""

MAX_DEPTH: Final = 4
"""Levels of a tree of groups. Admission rejects deeper templates."""

MAX_RESOURCE_CLAIMS: Final = 4
"""ResourceClaims of a PodGroup. Admission rejects more."""

MAX_SLICE_SIZE: Final = 100_000
"""Pods of each slice of a PodGroup. Admission rejects more, and the scheduler calls it Invalid."""

MAX_EXPECTED_KINDS: Final = 8
"""Kinds of pods in `expectedPods` of a group. Admission rejects more."""

MAX_EXPECTED_PODS: Final = 10_000
"""Expected pods of a kind. Admission rejects more."""

MAX_EXPECTED_TEMPLATE: Final = 16 << 10
"""Bytes of the template of an expected pod as JSON. Admission rejects more."""

MAX_EXPECTED_STAGE: Final = 8
"""The last stage of an expected pod. Admission rejects later ones; JobSets join theirs in it."""

MAX_REPLICAS: Final = 1000
"""Replicas of a LeaderWorkerSet that get groups, which no quota counts. Admission rejects more."""

MAX_REPLICATED_JOBS: Final = 1000
"""replicatedJobs of a JobSet with groups. Admission rejects more."""

MAX_JOBS: Final = 5000
"""Jobs with a gang-mode in a JobSet. Admission rejects more."""

# Each is an owner reference of the root, which is written again when one joins or leaves.
MAX_TREE_OWNERS: Final = 64
"""Owners of one tree (annotation `tree`). The controller refuses more with the event TreeFull."""

MAX_CLAIM_CONSUMERS: Final = 256
"""Pods that one claim may be reserved for, as in Kubernetes. Admission rejects more."""

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
LABEL_VALUE_LENGTH: Final = 63
OBJECT_NAME_LENGTH: Final = 253

# Labels on pods that name their group.
LABEL_POD_GROUP: Final = f"{GROUP}/pod-group"
LABEL_WORKLOAD: Final = f"{GROUP}/workload"
LABEL_TEMPLATE: Final = f"{GROUP}/template"
LABEL_REPLICA_KEY: Final = f"{GROUP}/replica-key"
LABEL_SUBSET: Final = f"{GROUP}/subset"
LABEL_COSCHEDULING: Final = "scheduling.x-k8s.io/pod-group"

# On a namespace, with the value `enabled`: pods that name a group in another project's way (by the
# fields of Kubernetes or the label of scheduler-plugins) are Muster's there.
LABEL_FOREIGN_GROUPS: Final = f"{GROUP}/foreign-groups"
FOREIGN_GROUPS_ENABLED: Final = "enabled"

# Labels on generated objects.
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "muster"

# Annotations a user writes on a Job, a JobSet or a replicatedJob's Job template; all but
# shared-claims and provisioning-request on a StatefulSet or Deployment, too.
ANNOTATION_GANG_MODE: Final = f"{GROUP}/gang-mode"
ANNOTATION_MIN_COUNT: Final = f"{GROUP}/min-count"
ANNOTATION_TOPOLOGY: Final = f"{GROUP}/topology"
ANNOTATION_PREFERRED_TOPOLOGY: Final = f"{GROUP}/preferred-topology"
ANNOTATION_DISRUPTION_MODE: Final = f"{GROUP}/disruption-mode"
# On a pod that names its group by label: the label whose values form groups of their own. With
# `key,other=value`, pods with that value of the other label form one more group.
ANNOTATION_GROUP_BY: Final = f"{GROUP}/group-by"
# Entries of the pod template's spec.resourceClaims for which the group gets one claim for all pods.
ANNOTATION_SHARED_CLAIMS: Final = f"{GROUP}/shared-claims"
# NAME=MINIMUM: the groups of all owners with this name start only together, at least MINIMUM of
# them.
ANNOTATION_TREE: Final = f"{GROUP}/tree"
# The prefix of the same annotations for the CompositePodGroup of a replicatedJob, in a JobSet of
# mode Composite.
# The number of pods of each slice of a group, and the node label of which they share one value.
ANNOTATION_SLICE_SIZE: Final = f"{GROUP}/slice-size"
ANNOTATION_SLICE_TOPOLOGY: Final = f"{GROUP}/slice-topology"
# On a PodGroup with slices and the pods of several Jobs: how many indexes each Job has.
ANNOTATION_SLICE_JOB_PODS: Final = f"{GROUP}/slice-job-pods"
REPLICATED_JOB_PREFIX: Final = "replicated-job-"

# On a PodGroup: the seconds for which places are held for its expected pods; 0: not at all.
ANNOTATION_HOLD_SECONDS: Final = f"{GROUP}/hold-seconds"
# On a PodGroup: whether places are held from its Creation, or as usual from its FirstPod.
ANNOTATION_HOLD_FROM: Final = f"{GROUP}/hold-from"
HOLD_FROM_CREATION: Final = "Creation"
# On a PodGroup: what happens to running pods if the expected ones do not come in time, Keep or
# Evict.
ANNOTATION_ON_HOLD_EXPIRED: Final = f"{GROUP}/on-hold-expired"
# On a root: the time, as in "90s" or "5m", for which it runs before any of its pods is evicted.
ANNOTATION_MIN_RUN_TIME: Final = f"{GROUP}/min-run-time"
# On a root: the time within which its minimum must start, or the scheduler gives it up.
ANNOTATION_START_TIMEOUT: Final = f"{GROUP}/start-timeout"
# On a root: an integer. Of roots of its namespace that could be evicted instead of each other,
# those with the lowest go first.
ANNOTATION_EVICTION_COST: Final = f"{GROUP}/eviction-cost"
# On a root or one of its pods: when it saved its work last, in RFC 3339.
ANNOTATION_LAST_CHECKPOINT: Final = f"{GROUP}/last-checkpoint"
# On a root: `true` if it may be moved so that another root fits, `false` if not. The same label, on
# a namespace, is for roots without the annotation.
ANNOTATION_MOVABLE: Final = f"{GROUP}/movable"
# On a root that waits: until when others may be moved for it, in RFC 3339.
ANNOTATION_DEFRAGMENT_UNTIL: Final = f"{GROUP}/defragment-until"
# On a root: the time before any pod is evicted for it.
ANNOTATION_PREEMPTION_DELAY: Final = f"{GROUP}/preemption-delay"
# On a root, or on its Job or JobSet: request capacity while the root waits for it.
ANNOTATION_PROVISIONING_REQUEST: Final = f"{GROUP}/provisioning-request"

# Annotations the webhooks and controllers write.
ANNOTATION_MANAGED_GROUP: Final = f"{GROUP}/managed-group"
ANNOTATION_GROUP_SCOPE: Final = f"{GROUP}/group-scope"
# On an owner: `native` if its groups are Kubernetes' own, and the reason why they are not.
ANNOTATION_GROUPS_API: Final = f"{GROUP}/groups-api"
ANNOTATION_NOT_NATIVE: Final = f"{GROUP}/not-native"
# On a Job template of a JobSet: options of the JobSet itself that its Jobs need to know.
ANNOTATION_JOBSET_OPTIONS: Final = f"{GROUP}/jobset-options"
# On a Job whose pods share claims: the template of each entry before admission changed it.
ANNOTATION_CLAIM_TEMPLATES: Final = f"{GROUP}/claim-templates"
ANNOTATION_CONVERSION_DATA: Final = f"{GROUP}/conversion-data"
ANNOTATION_MIN_COUNT_BASIS: Final = f"{GROUP}/min-count-basis"
# On a root: the time for its Bindings, as in "90s", instead of the scheduler's default.
ANNOTATION_SCHEDULE_TIMEOUT: Final = f"{GROUP}/schedule-timeout"
# On a generated object: API group, kind, name and UID of its owner.
ANNOTATION_MADE_FOR: Final = f"{GROUP}/made-for"
# On a generated group whose usual name another owner's group has: that name, as its pods give it.
ANNOTATION_STANDS_FOR: Final = f"{GROUP}/stands-for"
# On a JobSet's PodGroup with a hash in its name: the name that webhooks of 0.2 give its pods.
ANNOTATION_PLAIN_NAME: Final = f"{GROUP}/plain-name"
# On the root of a tree of several owners: their annotation `tree`.
ANNOTATION_ROOT_OF: Final = f"{GROUP}/root-of"
# On a group created from its pods: a message for users about pods with other annotations.
ANNOTATION_PODS_DIFFER: Final = f"{GROUP}/pods-differ"
# On a group created from its pods that has none: since when, in RFC 3339.
ANNOTATION_NO_PODS_SINCE: Final = f"{GROUP}/no-pods-since"
# On an owner of groups, and on its creator: what it waits for, as a message for users.
ANNOTATION_WAITING_FOR: Final = f"{GROUP}/waiting-for"

# On pods: annotations of Karpenter and of Cluster Autoscaler against eviction.
ANNOTATION_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
ANNOTATION_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
# On a root with a preemption delay: the time at which capacity was requested, or that this failed.
ANNOTATION_CAPACITY_REQUESTED: Final = f"{GROUP}/capacity-requested"
CAPACITY_FAILED: Final = "Failed"
# On a ProvisioningRequest: its number among the requests for the same pods, from 1.
ANNOTATION_ATTEMPT: Final = f"{GROUP}/attempt"

# Upstream's delegation of a Job to another owner's Workload (both spellings occur).
ANNOTATION_GROUP_TEMPLATE: Final = "scheduling.k8s.io/group-template-name"
ANNOTATIONS_PARENT_COMPOSITE: Final = (
    "scheduling.k8s.io/parent-composite-podgroup",
    "scheduling.k8s.io/parent-compositepodgroup",
)

# The label that Kubernetes writes on the pods of a Job.
JOB_LABEL_UID: Final = "batch.kubernetes.io/controller-uid"

# The labels that the JobSet controller writes on its Jobs and pods.
JOBSET_LABEL_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
JOBSET_LABEL_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
JOBSET_LABEL_REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET_LABEL_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
JOBSET_LABEL_RESTART: Final = "jobset.sigs.k8s.io/restart-attempt"

# The labels that the LeaderWorkerSet controller writes on its pods.
LWS_LABEL_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_LABEL_GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_LABEL_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
LWS_ANNOTATION_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"

FINALIZER_POD_GROUP: Final = f"{GROUP}/podgroup-protection"
FINALIZER_COMPOSITE: Final = f"{GROUP}/compositepodgroup-protection"

# Condition types.
CONDITION_POD_GROUP_SCHEDULED: Final = "PodGroupInitiallyScheduled"
CONDITION_COMPOSITE_SCHEDULED: Final = "CompositePodGroupInitiallyScheduled"
CONDITION_DISRUPTION_TARGET: Final = "DisruptionTarget"
CONDITION_PREEMPTED: Final = "Preempted"
CONDITION_HOLD_EXPIRED: Final = "HoldExpired"
CONDITION_POD_SCHEDULED: Final = "PodScheduled"
# On a root with a start-timeout: False while it counts, True once the root was given up.
CONDITION_START_TIMEOUT: Final = "StartTimeout"
# The name of the first of these in v1alpha2 and in coscheduling.muster.dev.
CONDITION_POD_GROUP_SCHEDULED_BEFORE: Final = "PodGroupScheduled"

# Condition reasons.
REASON_SCHEDULED: Final = "Scheduled"
REASON_UNSCHEDULABLE: Final = "Unschedulable"
REASON_INCOMPLETE: Final = "Incomplete"
REASON_INVALID: Final = "Invalid"
REASON_SCHEDULER_ERROR: Final = "SchedulerError"
REASON_START_TIMEOUT: Final = "StartTimeout"
REASON_PREEMPTION: Final = "PreemptionByScheduler"
REASON_GROUP_WAITS: Final = "CoschedulingNotMeetMinMember"

# Event reasons.
EVENT_FAILED_SCHEDULING: Final = "FailedScheduling"
EVENT_SCHEDULED: Final = "Scheduled"
EVENT_NAME_TAKEN: Final = "NameTaken"
EVENT_CAPACITY_REQUESTED: Final = "CapacityRequested"
EVENT_CAPACITY_FAILED: Final = "CapacityRequestFailed"
EVENT_CAPACITY_NOT_REQUESTED: Final = "CapacityNotRequested"
EVENT_CLAIM_NOT_MADE: Final = "FailedResourceClaimCreation"  # kube-controller-manager's word
EVENT_FEATURE_OFF: Final = "FeatureGateOff"
EVENT_GROUP_NOT_MADE: Final = "GroupNotMade"
EVENT_NOT_NATIVE: Final = "NotNative"
EVENT_PODS_DIFFER: Final = "PodsDiffer"
EVENT_START_TIMEOUT: Final = REASON_START_TIMEOUT
EVENT_TOO_MUCH_EXPECTED: Final = "TooMuchExpected"
EVENT_TOO_MANY_REPLICAS: Final = "TooManyReplicas"
EVENT_TEMPLATE_NOT_FOUND: Final = "TemplateNotFound"
EVENT_TREE_DIFFERS: Final = "TreeDiffers"
EVENT_TREE_FULL: Final = "TreeFull"
EVENT_WAIT_NOT_WRITTEN: Final = "WaitNotWritten"
EVENT_WORKLOAD_CONFLICT: Final = "WorkloadConflict"
EVENT_WORKLOAD_IGNORED: Final = "WorkloadIgnored"


def finalizer_of(kind: str) -> str | None:
    """Return the protection finalizer of a kind of groups, or None."""
    return {
        POD_GROUP.kind: FINALIZER_POD_GROUP,
        COMPOSITE_POD_GROUP.kind: FINALIZER_COMPOSITE,
    }.get(kind)
