"""JobSets, as JobSet v0.11.0 serves them, with the gangConfig of KEP-1068."""

from dataclasses import replace
from typing import Any

from localcluster.definitions import builtin
from localcluster.definitions.notation import inline, read

JOBSET = """
JobSet: Several groups of Jobs that belong together.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata any: Name, labels and the like.
  spec JobSetSpec: What is wanted.
  status JobSetStatus: What was last seen.
ObjectMeta: The metadata that a template hands down.
  name string: A name, where the maker uses it.
  namespace string: A namespace, where the maker uses it.
  labels {string}: Labels.
  annotations {string}: Annotations.
  finalizers [string]: Finalizers.
JobSetSpec: What a JobSet is to do.
  replicatedJobs [ReplicatedJob] key=name: The groups of equal Jobs.
  network Network: How the pods find each other.
  successPolicy JobSetSuccessPolicy: When the JobSet has succeeded.
  failurePolicy FailurePolicy: What a failed Job means.
  startupPolicy StartupPolicy: In which order Jobs start.
  suspend bool: Whether no Jobs shall run.
  coordinator Coordinator: The pod that the others look to.
  managedBy string: The controller that runs the JobSet.
  ttlSecondsAfterFinished int32 min=0: Seconds after which the finished JobSet is deleted.
  volumeClaimPolicies [VolumeClaimPolicy] atomic maxItems=50: Volumes that the Jobs share.
  gangConfig GangConfig: How the pods of the whole JobSet are scheduled together.
GangConfig: How pods are scheduled together.
  gangMode string: Off, Basic, Gang, ReplicatedGang or Composite.
ReplicatedJob: A group of equal Jobs.
  name! string: The name, unique in the JobSet.
  groupName string default=default: A name that several groups may share.
  template! JobTemplateSpec: The Jobs.
  replicas int32 default=1: How many Jobs.
  dependsOn [DependsOn] key=name maxItems=5: What must be reached before these Jobs are made.
  gangConfig GangConfig: How the pods of this group are scheduled together.
DependsOn: A group of Jobs that comes first.
  name! string: The group.
  status! string enum=Ready|Complete: What it must have reached.
Network: How the pods find each other.
  enableDNSHostnames bool: Whether pods have host names.
  publishNotReadyAddresses bool: Whether pods are found before they are ready.
  subdomain string: The subdomain of the host names.
JobSetSuccessPolicy: When a JobSet has succeeded.
  operator! string enum=All|Any: Whether all Jobs must succeed, or one.
  targetReplicatedJobs [string] atomic: The groups that count; all if left out.
FailurePolicy: What a failed Job means.
  maxRestarts int32: How often all Jobs are recreated.
  restartStrategy string default=Recreate enum=Recreate|BlockingRecreate|InPlaceRestart: How.
  rules [FailurePolicyRule]: The first one that fits counts.
FailurePolicyRule: What Jobs that fail in one way mean.
  name! string: The name of the rule.
  action! string enum=FailJobSet|RestartJobSet|RestartJobSetAndIgnoreMaxRestarts: What is done.
  onJobFailureReasons [string]: The reasons that fit; all if left out.
  onJobFailureMessagePatterns [string]: Patterns of the message that fit.
  targetReplicatedJobs [string] atomic: The groups that fit; all if left out.
StartupPolicy: In which order Jobs start.
  startupPolicyOrder! string enum=AnyOrder|InOrder: Whether groups wait for each other.
Coordinator: The pod that the others look to.
  replicatedJob! string: Its group.
  jobIndex int32: Its Job.
  podIndex int32: Its index.
VolumeClaimPolicy: Volumes that the Jobs share.
  templates [any] atomic maxItems=50: The claims.
  retentionPolicy VolumeRetentionPolicy: What becomes of the claims.
VolumeRetentionPolicy: What becomes of claims.
  whenDeleted string default=Delete enum=Delete|Retain: What the JobSet's deletion does to them.
JobSetStatus: What was last seen of a JobSet.
  conditions [JobSetCondition] key=type: Completed, Failed, Suspended and the like.
  currentInPlaceRestartAttempt int32 min=0: The attempt that runs.
  previousInPlaceRestartAttempt int32 min=0: The attempt before.
  restarts int32: How often all Jobs were recreated.
  restartsCountTowardsMax int32: How many of these count against maxRestarts.
  terminalState string: Completed or Failed, once it is over.
  replicatedJobsStatus [ReplicatedJobStatus] key=name: The counts of each group.
JobSetCondition: One aspect of a JobSet.
  type! string maxLength=316: Which aspect.
  status! string enum=True|False|Unknown: Whether it holds.
  reason! string minLength=1 maxLength=1024: Why, in one word.
  message! string maxLength=32768: Why, for people.
  lastTransitionTime! time: When the status last changed.
  observedGeneration int64 min=0: The generation that was looked at.
ReplicatedJobStatus: The counts of a group of Jobs.
  name! string: The group.
  ready! int32: Jobs whose pods are all ready or succeeded.
  succeeded! int32: Jobs that succeeded.
  failed! int32: Jobs that failed.
  active! int32: Jobs with a pod that runs.
  suspended! int32: Jobs that are suspended.
"""

_IMMUTABLE = [{"message": "Value is immutable", "rule": "self == oldSelf"}]
_ONE_ORDER = {
    "message": "StartupPolicy and DependsOn APIs are mutually exclusive",
    "rule": (
        "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder'"
        " && self.replicatedJobs.exists(x, has(x.dependsOn)))"
    ),
}
_COLUMNS = (
    ("TerminalState", "string", ".status.terminalState", "How it ended"),
    ("Restarts", "string", ".status.restarts", "How often all Jobs were recreated"),
    ("Completed", "string", '.status.conditions[?(@.type=="Completed")].status', ""),
    ("Suspended", "string", ".spec.suspend", "Whether no Jobs shall run"),
    ("Age", "date", ".metadata.creationTimestamp", "Time since it was made"),
)


def jobset_crd() -> dict[str, Any]:
    """Return the CustomResourceDefinition of JobSets."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobsets.jobset.x-k8s.io"},
        "spec": {
            "group": "jobset.x-k8s.io",
            "names": {
                "kind": "JobSet",
                "listKind": "JobSetList",
                "plural": "jobsets",
                "singular": "jobset",
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1alpha2",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path}
                        | ({"description": text} if text else {})
                        for name, kind, path, text in _COLUMNS
                    ],
                    "schema": {"openAPIV3Schema": _schema()},
                }
            ],
        },
    }


def _schema() -> dict[str, Any]:
    types = {**builtin.types(), **read(JOBSET)}
    # JobSet v0.11.0 embeds the pod template of Kubernetes 1.35.
    pod = types["PodSpec"]
    fields = tuple(field for field in pod.fields if field.name != "schedulingGroup")
    types["PodSpec"] = replace(pod, fields=fields)
    schema = inline(types, "JobSet")
    schema["properties"]["metadata"] = {"type": "object"}
    spec = schema["properties"]["spec"]
    spec["x-kubernetes-validations"] = [_ONE_ORDER]
    properties = spec["properties"]
    fixed = ("failurePolicy", "network", "startupPolicy", "successPolicy", "volumeClaimPolicies")
    for name in fixed:
        properties[name]["x-kubernetes-validations"] = _IMMUTABLE
    group = properties["replicatedJobs"]["items"]["properties"]
    group["dependsOn"]["x-kubernetes-validations"] = _IMMUTABLE
    return schema
