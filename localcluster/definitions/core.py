"""The other kinds that people look at, and the answers that clients get about all of them."""

CORE = """
Node: A machine that runs pods.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  spec NodeSpec: What is wanted.
  status NodeStatus: What was last seen.
NodeSpec: What a node shall be.
  unschedulable bool: Whether new pods are kept away.
  taints [Taint] atomic: What keeps pods away that do not tolerate it.
  podCIDR string: Addresses for pods.
  podCIDRs [string] set: Addresses for pods.
  providerID string: The machine's name at its provider.
  configSource any: Not in use.
  externalID string: Not in use.
Taint: Keeps pods away that do not tolerate it.
  key! string: The key.
  value string: The value.
  effect! string: NoSchedule, PreferNoSchedule or NoExecute.
  timeAdded time: When it was set.
NodeStatus: What was last seen of a node.
  capacity {quantity}: All resources of the node.
  allocatable {quantity}: The resources that pods can have.
  conditions [Condition] key=type: Ready, MemoryPressure and the like.
  addresses [NodeAddress] key=type: The addresses of the node.
  config any: Not in use.
  daemonEndpoints any: Where the node's agent answers.
  declaredFeatures [string] atomic: Features that the node says it has.
  features any: What the node's runtime can do.
  images [any] atomic: The images that lie on the node.
  runtimeHandlers [any] atomic: The runtimes of the node.
  volumesAttached [any] atomic: Volumes that are attached.
  volumesInUse [string] atomic: Volumes that are in use.
  nodeInfo any: Versions of what runs on the node.
  phase string: Not in use.
NodeAddress: An address of a node.
  type! string: What kind of address.
  address! string: The address.
Namespace: A space in which names are unique.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  spec any: The finalizers of the namespace.
  status any: Its phase and conditions.
ConfigMap: Settings for programs to read.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  immutable bool: Whether the data cannot change.
  data {string}: The settings.
  binaryData {string}: Settings that are no text, in base64.
Secret: Settings that few may read.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  immutable bool: Whether the data cannot change.
  type string: What kind of secret it is.
  data {string}: The settings, in base64.
  stringData {string}: Settings as text; stored in data.
Event: Something that happened to an object.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata! ObjectMeta: Name, labels and the like.
  involvedObject! any: The object.
  reason string: What happened, in one word.
  message string: What happened.
  type string: Normal or Warning.
  count int32: How often.
  firstTimestamp time: When first.
  lastTimestamp time: When last.
  eventTime time: When.
  source any: Who says so.
  reportingComponent string: Who says so.
  reportingInstance string: Which instance of it.
  action string: What was done.
  related any: Another object.
  series any: How often and when last.
PriorityClass: A name for a priority of pods.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  value! int32: The priority; a higher one goes first.
  globalDefault bool: Whether pods without a class get this one.
  description string: When to use it.
  preemptionPolicy string: PreemptLowerPriority or Never.
Lease: A claim that must be renewed, as leaders hold it.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  spec LeaseSpec: Who holds it, and for how long.
LeaseSpec: Who holds a lease, and for how long.
  holderIdentity string: The holder.
  leaseDurationSeconds int32: Seconds after the last renewal for which it holds.
  leaseTransitions int32: How often the holder changed.
  acquireTime time: When the holder took it.
  renewTime time: When it was last renewed.
  strategy string: How holders are chosen.
  preferredHolder string: A holder that should get it.
PodDisruptionBudget: How many pods may be evicted at once.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  spec PodDisruptionBudgetSpec: What is wanted.
  status PodDisruptionBudgetStatus: What was last seen.
PodDisruptionBudgetSpec: How many pods must stay.
  minAvailable intOrString: How many must be left.
  maxUnavailable intOrString: How many may be gone.
  selector LabelSelector: The pods.
  unhealthyPodEvictionPolicy string: IfHealthyBudget or AlwaysAllow.
PodDisruptionBudgetStatus: What was last seen.
  currentHealthy int32: Pods that are healthy.
  desiredHealthy int32: Pods that must be healthy.
  disruptionsAllowed int32: How many may be evicted now.
  expectedPods int32: All pods that are counted.
  disruptedPods {time}: Pods whose eviction is not seen yet.
  conditions [Condition] key=type: Aspects.
  observedGeneration int64: The generation that was looked at.
"""
