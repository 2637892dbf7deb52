"""Jobs."""

JOB = """
Job: Runs pods until enough of them succeeded.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  spec JobSpec: What is wanted.
  status JobStatus: What was last seen.
JobTemplateSpec: Jobs to be made.
  metadata TemplateMeta: The metadata of the Jobs.
  spec JobSpec: What the Jobs shall be.
JobSpec: What a Job is to do.
  activeDeadlineSeconds int64: Seconds after which the Job is failed.
  backoffLimit int32: How many failed pods are replaced before the Job is failed.
  backoffLimitPerIndex int32: The same for each index.
  completionMode string: NonIndexed, or Indexed where each pod has a number.
  completions int32: How many pods must succeed.
  managedBy string: The controller that runs the Job.
  manualSelector bool: Whether the selector was made by hand.
  maxFailedIndexes int32: How many indexes may fail.
  parallelism int32: The most pods that run at once.
  podFailurePolicy PodFailurePolicy: What failed pods mean, by exit code or condition.
  podReplacementPolicy string: TerminatingOrFailed or Failed: when a pod is replaced.
  selector LabelSelector atomic: The pods of the Job; the server fills it in.
  successPolicy SuccessPolicy: When the Job has succeeded before all pods did.
  suspend bool: Whether no pods shall run.
  template! PodTemplateSpec: The pods that are made.
  ttlSecondsAfterFinished int32: Seconds after which the finished Job is deleted.
PodFailurePolicy: What failed pods mean.
  rules! [PodFailurePolicyRule] atomic: The first one that fits counts.
PodFailurePolicyRule: What pods that fail in one way mean.
  action! string: FailJob, FailIndex, Ignore or Count.
  onExitCodes PodFailurePolicyOnExitCodes: Fits by the exit code.
  onPodConditions [PodFailurePolicyOnPodCondition] atomic: Fits by a condition.
PodFailurePolicyOnExitCodes: Exit codes of containers.
  containerName string: The container; any if left out.
  operator! string: In or NotIn.
  values! [int32] set: The exit codes.
PodFailurePolicyOnPodCondition: A condition of a pod.
  type! string: Which condition.
  status string: Its status; True if left out.
SuccessPolicy: When a Job has succeeded.
  rules! [SuccessPolicyRule] atomic: The first one that holds counts.
SuccessPolicyRule: Indexes that make a success.
  succeededCount int32: How many of them.
  succeededIndexes string: Which ones.
JobStatus: What was last seen of a Job.
  active int32: Pods that are pending or running.
  completedIndexes string: The indexes that succeeded.
  completionTime time: When the Job completed.
  conditions [Condition] atomic: Complete, Failed, Suspended and the like.
  failed int32: Pods that failed.
  failedIndexes string: The indexes that failed.
  ready int32: Active pods that are ready.
  startTime time: When the Job was taken up.
  succeeded int32: Pods that succeeded.
  terminating int32: Pods that are being deleted.
  uncountedTerminatedPods any: Pods that ended but are not counted yet.
"""
