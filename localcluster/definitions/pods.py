"""Metadata and pods."""

META = """
ObjectMeta: What every object carries besides its own fields.
  name string: The name, unique within kind and namespace; it cannot change.
  generateName string: A prefix from which the server makes a unique name when none is given.
  namespace string: The namespace in which the name is unique.
  uid string: Set by the server; differs from every other object's, past ones included.
  resourceVersion string: The version of this state, for watches and for guarding updates.
  generation int64: Counts changes of the wanted state.
  selfLink string: Not in use.
  creationTimestamp time: When the object was made.
  deletionTimestamp time: When the object is due to go; set once it is being deleted.
  deletionGracePeriodSeconds int64: Seconds the object has to end by itself.
  labels {string}: Pairs by which objects are selected.
  annotations {string}: Pairs that tools keep with the object; nothing is selected by them.
  finalizers [string] set: What must be done before the object can go.
  ownerReferences [OwnerReference] key=uid: The objects that this one depends on.
  managedFields [any] atomic: Which manager set which fields.
OwnerReference: An object on which another one depends.
  apiVersion! string: The owner's API version.
  kind! string: The owner's kind.
  name! string: The owner's name.
  uid! string: The owner's UID.
  controller bool: Whether the owner is the one that manages the object.
  blockOwnerDeletion bool: Whether a foreground deletion of the owner waits for the object.
LabelSelector: Selects objects by their labels; all parts must hold.
  matchLabels {string}: Labels that must have these values.
  matchExpressions [LabelSelectorRequirement] atomic: Further conditions.
LabelSelectorRequirement: One condition on a label.
  key! string: The label.
  operator! string: In, NotIn, Exists or DoesNotExist.
  values [string] atomic: The values for In and NotIn.
Condition: One aspect of a state.
  type! string: Which aspect.
  status! string: True, False or Unknown.
  reason string: Why, in one word.
  message string: Why, for people.
  lastTransitionTime time: When the status last changed.
  lastProbeTime time: When the aspect was last looked at.
  lastHeartbeatTime time: When the aspect was last told.
  lastUpdateTime time: When the condition was last written.
  observedGeneration int64: The generation that was looked at.
"""

# Members of deep structures that nothing here looks into are left open (`any`).
POD = """
Pod: Containers that run together on one node.
  apiVersion string: The version of this form.
  kind string: The kind.
  metadata ObjectMeta: Name, labels and the like.
  spec PodSpec: What is wanted.
  status PodStatus: What was last seen.
PodTemplateSpec: Pods to be made.
  metadata TemplateMeta: The metadata of the pods.
  spec PodSpec: What the pods shall be.
TemplateMeta: The metadata that a template hands down.
  name string: A name, where the maker uses it.
  namespace string: A namespace, where the maker uses it.
  labels {string}: Labels.
  annotations {string}: Annotations.
  finalizers [string]: Finalizers.
PodSpec: What a pod shall be.
  activeDeadlineSeconds int64: Seconds after which a running pod is failed.
  affinity Affinity: Rules for nodes and for the company of other pods.
  automountServiceAccountToken bool: Whether the service account's token is mounted.
  containers! [Container] key=name: The containers; at least one.
  dnsConfig any: More settings for name resolution.
  dnsPolicy string: How names are resolved.
  enableServiceLinks bool: Whether services appear as environment variables.
  ephemeralContainers [Container] key=name: Containers added to a running pod.
  hostAliases [HostAlias] key=ip: More lines for the hosts file.
  hostIPC bool: Whether the node's IPC namespace is used.
  hostNetwork bool: Whether the node's network is used.
  hostPID bool: Whether the node's processes are seen.
  hostUsers bool: Whether the node's user namespace is used.
  hostname string: The host name of the pod.
  hostnameOverride string: A host name that stands for everything else.
  imagePullSecrets [LocalObjectReference] key=name: Secrets for pulling images.
  initContainers [Container] key=name: Containers that run before the others.
  nodeName string: The node on which the pod runs; the scheduler sets it by a binding.
  nodeSelector {string} atomic: Labels that the node must have.
  os any: The operating system of the containers.
  overhead {quantity}: Resources that running the pod takes besides its containers.
  preemptionPolicy string: PreemptLowerPriority or Never.
  priority int32: The number behind the priority class.
  priorityClassName string: The priority class.
  readinessGates [any] atomic: Conditions that readiness also needs.
  resourceClaims [PodResourceClaim] key=name: Resource claims that containers may use.
  resources ResourceRequirements: Resources of the pod as a whole.
  restartPolicy string: Always, OnFailure or Never.
  runtimeClassName string: The runtime that runs the pod.
  schedulerName string: The scheduler that places the pod.
  schedulingGates [SchedulingGate] key=name: While there is one, the pod is not scheduled.
  securityContext any: Security settings for all containers.
  serviceAccount string: An older name of serviceAccountName.
  serviceAccountName string: The service account under which the pod runs.
  setHostnameAsFQDN bool: Whether the host name is the full domain name.
  shareProcessNamespace bool: Whether containers see each other's processes.
  subdomain string: The subdomain of the pod's name.
  terminationGracePeriodSeconds int64: Seconds to end by itself when deleted.
  tolerations [Toleration] atomic: Which taints of nodes are borne.
  topologySpreadConstraints [TopologySpreadConstraint] key=topologyKey,whenUnsatisfiable: Spreading.
  volumes [Volume] key=name: Volumes that containers may mount.
  workloadRef WorkloadReference: The workload and pod group that the pod belongs to.
WorkloadReference: A pod group within a workload.
  name! string: The workload.
  podGroup! string: The pod group's name within the workload.
  podGroupReplicaKey string: Tells copies of the same pod group apart.
HostAlias: More lines for the hosts file.
  ip! string: The address.
  hostnames [string] atomic: The names.
Affinity: Rules for nodes and for the company of other pods.
  nodeAffinity any: Which nodes are wanted or preferred.
  podAffinity any: Near which pods.
  podAntiAffinity any: Away from which pods.
Container: One container of a pod.
  name! string: The name, unique in the pod.
  image string: The image.
  imagePullPolicy string: Always, IfNotPresent or Never.
  command [string] atomic: What is run instead of the image's entry point.
  args [string] atomic: Arguments of the command.
  workingDir string: Where the command runs.
  env [EnvVar] key=name: Environment variables.
  envFrom [any] atomic: Sources of many environment variables.
  ports [ContainerPort] key=containerPort,protocol: Ports that the container listens on.
  resources ResourceRequirements: Resources that are requested, and their limits.
  resizePolicy [any] atomic: What a resize of the resources does.
  restartPolicy string: Always makes an init container a sidecar.
  restartPolicyRules [any] atomic: When the container is restarted, by its exit code.
  lifecycle any: What runs after the start and before the end.
  livenessProbe any: Tells whether the container must be restarted.
  readinessProbe any: Tells whether the container can serve.
  startupProbe any: Tells whether the container has started.
  securityContext any: Security settings.
  stdin bool: Whether the standard input stays open.
  stdinOnce bool: Whether the input closes after the first user.
  targetContainerName string: The container that an ephemeral one looks into.
  terminationMessagePath string: Where the container writes its last words.
  terminationMessagePolicy string: File or FallbackToLogsOnError.
  tty bool: Whether there is a terminal.
  volumeDevices [VolumeDevice] key=devicePath: Block devices.
  volumeMounts [VolumeMount] key=mountPath: Where volumes are mounted.
EnvVar: An environment variable.
  name! string: The name.
  value string: The value.
  valueFrom any: Where the value is read from.
ContainerPort: A port of a container.
  containerPort! int32: The number.
  hostIP string: The node's address that it is bound to.
  hostPort int32: The node's port that it is bound to.
  name string: A name for it.
  protocol string default=TCP: TCP, UDP or SCTP.
ResourceRequirements: Resources that are requested, and their limits.
  claims [ResourceClaim] key=name: Claims of the pod that are used.
  limits {quantity}: The most that may be used.
  requests {quantity}: What the scheduler sets aside.
ResourceClaim: A claim that a container uses.
  name! string: The claim's name in the pod.
  request string: The request within the claim.
PodResourceClaim: A resource claim of a pod.
  name! string: The name within the pod.
  resourceClaimName string: A claim that exists.
  resourceClaimTemplateName string: The template of a claim made for this pod.
VolumeMount: Where a volume is mounted.
  mountPath! string: The path in the container.
  mountPropagation string: How mounts pass between node and container.
  name! string: The volume.
  readOnly bool: Whether it can only be read.
  recursiveReadOnly string: Whether that holds for mounts below.
  subPath string: A path in the volume.
  subPathExpr string: The same, with variables.
VolumeDevice: A block device.
  devicePath! string: The path in the container.
  name! string: The volume.
LocalObjectReference: An object of the same namespace.
  name string default=: The name.
SchedulingGate: A reason not to schedule a pod yet.
  name! string: The name.
Toleration: Bears taints.
  key string: The taint's key; empty with Exists means all.
  operator string: Exists or Equal, which is the default.
  value string: The taint's value for Equal.
  effect string: NoSchedule, PreferNoSchedule or NoExecute; empty means all.
  tolerationSeconds int64: For how long NoExecute is borne.
TopologySpreadConstraint: How pods spread over domains.
  topologyKey! string: The node label that makes domains.
  whenUnsatisfiable! string: DoNotSchedule or ScheduleAnyway.
  maxSkew! int32: By how much domains may differ.
  minDomains int32: The least number of domains.
  labelSelector LabelSelector: The pods that are counted.
  matchLabelKeys [string] atomic: Labels whose values are taken from the pod.
  nodeAffinityPolicy string: Whether node affinity counts.
  nodeTaintsPolicy string: Whether taints count.
Volume: A volume of a pod; besides its name it has one source.
  name! string: The name within the pod.
  awsElasticBlockStore any: An AWS disk.
  azureDisk any: An Azure disk.
  azureFile any: An Azure file share.
  cephfs any: A Ceph file system.
  cinder any: A Cinder volume.
  configMap any: The keys of a config map.
  csi any: A volume of a CSI driver.
  downwardAPI any: Facts about the pod.
  emptyDir any: An empty folder that lives as long as the pod.
  ephemeral any: A claim made for the pod.
  fc any: A fibre channel disk.
  flexVolume any: A volume of a plug-in.
  flocker any: A Flocker volume.
  gcePersistentDisk any: A Google disk.
  gitRepo any: A git repository.
  glusterfs any: A Gluster volume.
  hostPath any: A path of the node.
  image any: The content of an image.
  iscsi any: An iSCSI disk.
  nfs any: An NFS share.
  persistentVolumeClaim any: A claim of the namespace.
  photonPersistentDisk any: A Photon disk.
  portworxVolume any: A Portworx volume.
  projected any: Several sources in one folder.
  quobyte any: A Quobyte volume.
  rbd any: A Ceph block device.
  scaleIO any: A ScaleIO volume.
  secret any: The keys of a secret.
  storageos any: A StorageOS volume.
  vsphereVolume any: A vSphere disk.
PodStatus: What was last seen of a pod.
  phase string: Pending, Running, Succeeded, Failed or Unknown.
  conditions [Condition] key=type: PodScheduled, Initialized, ContainersReady, Ready and the like.
  message string: Why the pod is in this state.
  reason string: The same in one word.
  hostIP string: The node's address.
  hostIPs [any] atomic: The node's addresses.
  podIP string: The pod's address.
  podIPs [PodIP] key=ip: The pod's addresses.
  startTime time: When the node took the pod.
  nominatedNodeName string: A node that is being freed for the pod.
  qosClass string: Guaranteed, Burstable or BestEffort.
  containerStatuses [any] atomic: The state of each container.
  initContainerStatuses [any] atomic: The state of each init container.
  ephemeralContainerStatuses [any] atomic: The state of each ephemeral container.
  allocatedResources {quantity}: The resources that the node set aside.
  extendedResourceClaimStatus any: The claim made for extended resources.
  nodeAllocatableResourceClaimStatuses [any] atomic: Claims on resources of the node.
  resize string: How far a resize of the resources has come.
  resourceClaimStatuses [PodResourceClaimStatus] key=name: The claims made for the pod.
  resources ResourceRequirements: The resources that are in force.
  observedGeneration int64: The generation that was looked at.
PodIP: An address of a pod.
  ip! string: The address.
PodResourceClaimStatus: A claim made for a pod.
  name! string: The claim's name in the pod.
  resourceClaimName string: The claim.
"""
