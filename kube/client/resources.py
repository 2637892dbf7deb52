"""The resources of Kubernetes itself; those of Muster and of owners are in `api.constants`."""

from api import constants
from api.constants import KindName

Resource = KindName


def _in_cluster(group: str, version: str, plural: str, kind: str) -> Resource:
    return Resource(group, version, plural, kind, namespaced=False)


PODS = constants.POD
NODES = _in_cluster("", "v1", "nodes", "Node")
NAMESPACES = _in_cluster("", "v1", "namespaces", "Namespace")
EVENTS = Resource("", "v1", "events", "Event")
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICES = Resource("", "v1", "services", "Service")
PVCS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PVS = _in_cluster("", "v1", "persistentvolumes", "PersistentVolume")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENTS = constants.DEPLOYMENT
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = constants.STATEFUL_SET
JOBS = constants.JOB
JOBSETS = constants.JOBSET
LEADER_WORKER_SETS = constants.LEADER_WORKER_SET
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PDBS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
RUNTIME_CLASSES = _in_cluster("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass")
PRIORITY_CLASSES = _in_cluster("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")

_STORAGE = "storage.k8s.io"
STORAGE_CLASSES = _in_cluster(_STORAGE, "v1", "storageclasses", "StorageClass")
CSI_DRIVERS = _in_cluster(_STORAGE, "v1", "csidrivers", "CSIDriver")
CSI_NODES = _in_cluster(_STORAGE, "v1", "csinodes", "CSINode")
CSI_STORAGE_CAPACITIES = Resource(_STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity")

_DEVICES = constants.RESOURCE_GROUP
RESOURCE_CLAIMS = constants.RESOURCE_CLAIM
RESOURCE_CLAIM_TEMPLATES = constants.RESOURCE_CLAIM_TEMPLATE
RESOURCE_SLICES = _in_cluster(_DEVICES, "v1", "resourceslices", "ResourceSlice")
DEVICE_CLASSES = _in_cluster(_DEVICES, "v1", "deviceclasses", "DeviceClass")
DEVICE_TAINT_RULES = _in_cluster(_DEVICES, "v1beta2", "devicetaintrules", "DeviceTaintRule")

OWN_RIGHTS = _in_cluster(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"
)
SUBJECT_ACCESS_REVIEWS = _in_cluster(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview"
)
CRDS = _in_cluster(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"
)

_ADMISSION = "admissionregistration.k8s.io"
MUTATING_WEBHOOKS = _in_cluster(
    _ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)
VALIDATING_WEBHOOKS = _in_cluster(
    _ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
