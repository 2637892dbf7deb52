"""The registry of the served kinds, and the built-in kinds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

ALL_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`, as a CRD declares it."""

    name: str
    type: str
    json_path: str
    description: str = ""
    format: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The simple JSON paths of the fields that a custom resource's scale subresource shows."""

    spec_replicas: str
    status_replicas: str
    label_selector: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """One kind in one version, as the server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    verbs: tuple[str, ...] = ALL_VERBS
    columns: tuple[PrinterColumn, ...] = ()
    scale: ScalePaths | None = None
    selectable_fields: tuple[str, ...] = ()
    custom: bool = False
    storage_version: str = ""
    storage_group: str | None = None

    def __post_init__(self) -> None:
        """Derive the default names and the storage version from the other fields."""
        if not self.singular:
            object.__setattr__(self, "singular", self.kind.lower())
        if not self.list_kind:
            object.__setattr__(self, "list_kind", self.kind + "List")
        if not self.storage_version:
            object.__setattr__(self, "storage_version", self.version)

    @property
    def api_version(self) -> str:
        """`group/version`, or the bare version of the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`plural.group`, as messages name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def collection(self) -> tuple[str, str]:
        """The store's name for all objects of this kind, independent of the version."""
        group = self.group if self.storage_group is None else self.storage_group
        return group, self.plural

    @property
    def has_status(self) -> bool:
        """True if status is written only through its own subresource."""
        return "status" in self.subresources

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, an object, or a subresource."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


class Registry:
    """The served kinds. `generation` counts changes, so that derived documents can be cached."""

    def __init__(self, infos: Iterable[ResourceInfo] = ()) -> None:
        """Create a registry with the given kinds."""
        self._by_plural: dict[tuple[str, str, str], ResourceInfo] = {}
        self._by_kind: dict[tuple[str, str, str], ResourceInfo] = {}
        self.generation = 0
        self._chosen: tuple[int, dict[tuple[str, str], ResourceInfo]] = (-1, {})
        self._versions: dict[tuple[str, str], list[ResourceInfo]] = {}
        for info in infos:
            self.register(info)

    def register(self, info: ResourceInfo) -> None:
        """Serve a kind, replacing an older definition of the same version."""
        self.unregister(info.group, info.version, info.plural)
        self._by_plural[info.group, info.version, info.plural] = info
        self._by_kind[info.group, info.version, info.kind] = info
        self._versions.setdefault((info.group, info.plural), []).append(info)
        self.generation += 1

    def unregister(self, group: str, version: str, plural: str) -> None:
        """Stop serving that version; do nothing if it was not served."""
        info = self._by_plural.pop((group, version, plural), None)
        if info is not None:
            self._by_kind.pop((group, version, info.kind), None)
            self._versions[group, plural].remove(info)
            self.generation += 1

    def lookup(self, group: str, version: str, plural: str) -> ResourceInfo | None:
        """Return the kind of a URL, or None."""
        return self._by_plural.get((group, version, plural))

    def by_kind(self, group: str, version: str, kind: str) -> ResourceInfo | None:
        """Return the kind of a group, version and kind, or None."""
        return self._by_kind.get((group, version, kind))

    def by_api_version(self, api_version: str, kind: str) -> ResourceInfo | None:
        """Return the kind that an object or an owner reference names, or None."""
        group, _, version = api_version.rpartition("/")
        return self.by_kind(group, version, kind)

    def versions(self, group: str, plural: str) -> list[ResourceInfo]:
        """Return all served versions of one resource."""
        return list(self._versions.get((group, plural), ()))

    def all(self) -> Iterator[ResourceInfo]:
        """Return every served kind and version."""
        return iter(list(self._by_plural.values()))

    def stored(self) -> Iterator[ResourceInfo]:
        """Return one served version for each collection in the store, the stored one if served."""
        return iter(self._by_collection().values())

    def by_collection(self, collection: tuple[str, str]) -> ResourceInfo | None:
        """Return the version in which the server itself handles the objects of a collection."""
        return self._by_collection().get(collection)

    def _by_collection(self) -> dict[tuple[str, str], ResourceInfo]:
        made, chosen = self._chosen
        if made == self.generation:
            return chosen
        chosen = {}
        for info in self._by_plural.values():
            if "list" not in info.verbs:
                continue
            if info.collection not in chosen or (
                info.version == info.storage_version and info.collection[0] == info.group
            ):
                chosen[info.collection] = info
        self._chosen = (self.generation, chosen)
        return chosen


_STATUS = frozenset({"status"})
_SCALED = frozenset({"status", "scale"})
_CREATE = ("create",)

NAMESPACES = ResourceInfo(
    "", "v1", "namespaces", "Namespace", False,
    short_names=("ns",), subresources=frozenset({"status", "finalize"}),
    verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
)  # fmt: skip
NODES = ResourceInfo("", "v1", "nodes", "Node", False, short_names=("no",), subresources=_STATUS)
PODS = ResourceInfo(
    "", "v1", "pods", "Pod",
    short_names=("po",), categories=("all",),
    subresources=frozenset({"status", "binding", "eviction"}),
)  # fmt: skip
EVENTS = ResourceInfo("", "v1", "events", "Event", short_names=("ev",))
EVENTS_V1 = replace(EVENTS, group="events.k8s.io", storage_group="")
SECRETS = ResourceInfo("", "v1", "secrets", "Secret")
CONFIG_MAPS = ResourceInfo("", "v1", "configmaps", "ConfigMap", short_names=("cm",))
POD_TEMPLATES = ResourceInfo("", "v1", "podtemplates", "PodTemplate")
SERVICES = ResourceInfo(
    "", "v1", "services", "Service",
    short_names=("svc",), categories=("all",), subresources=_STATUS,
)  # fmt: skip
ENDPOINTS = ResourceInfo(
    "", "v1", "endpoints", "Endpoints", singular="endpoints", list_kind="EndpointsList",
    short_names=("ep",),
)  # fmt: skip
ENDPOINT_SLICES = ResourceInfo("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
SERVICE_ACCOUNTS = ResourceInfo(
    "", "v1", "serviceaccounts", "ServiceAccount",
    short_names=("sa",), subresources=frozenset({"token"}),
)  # fmt: skip
PERSISTENT_VOLUMES = ResourceInfo(
    "", "v1", "persistentvolumes", "PersistentVolume", False,
    short_names=("pv",), subresources=_STATUS,
)  # fmt: skip
PERSISTENT_VOLUME_CLAIMS = ResourceInfo(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim",
    short_names=("pvc",), subresources=_STATUS,
)  # fmt: skip
REPLICATION_CONTROLLERS = ResourceInfo(
    "", "v1", "replicationcontrollers", "ReplicationController",
    short_names=("rc",), categories=("all",), subresources=_SCALED,
)  # fmt: skip
RESOURCE_QUOTAS = ResourceInfo(
    "", "v1", "resourcequotas", "ResourceQuota", short_names=("quota",), subresources=_STATUS
)
LIMIT_RANGES = ResourceInfo("", "v1", "limitranges", "LimitRange", short_names=("limits",))
DEPLOYMENTS = ResourceInfo(
    "apps", "v1", "deployments", "Deployment",
    short_names=("deploy",), categories=("all",), subresources=_SCALED,
)  # fmt: skip
REPLICA_SETS = ResourceInfo(
    "apps", "v1", "replicasets", "ReplicaSet",
    short_names=("rs",), categories=("all",), subresources=_SCALED,
)  # fmt: skip
STATEFUL_SETS = ResourceInfo(
    "apps", "v1", "statefulsets", "StatefulSet",
    short_names=("sts",), categories=("all",), subresources=_SCALED,
)  # fmt: skip
DAEMON_SETS = ResourceInfo(
    "apps", "v1", "daemonsets", "DaemonSet",
    short_names=("ds",), categories=("all",), subresources=_STATUS,
)  # fmt: skip
JOBS = ResourceInfo("batch", "v1", "jobs", "Job", categories=("all",), subresources=_STATUS)
CRON_JOBS = ResourceInfo(
    "batch", "v1", "cronjobs", "CronJob",
    short_names=("cj",), categories=("all",), subresources=_STATUS,
)  # fmt: skip
PDBS = ResourceInfo(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget",
    short_names=("pdb",), subresources=_STATUS,
)  # fmt: skip
PRIORITY_CLASSES = ResourceInfo(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, short_names=("pc",)
)
LEASES = ResourceInfo("coordination.k8s.io", "v1", "leases", "Lease")
STORAGE_CLASSES = ResourceInfo(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, short_names=("sc",)
)
CSI_NODES = ResourceInfo("storage.k8s.io", "v1", "csinodes", "CSINode", False)
CSI_DRIVERS = ResourceInfo("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False)
CSI_CAPACITIES = ResourceInfo(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity",
    list_kind="CSIStorageCapacityList",
)  # fmt: skip
VOLUME_ATTACHMENTS = ResourceInfo(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False, subresources=_STATUS
)
RESOURCE_CLAIMS = ResourceInfo(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", subresources=_STATUS
)
RESOURCE_CLAIM_TEMPLATES = ResourceInfo(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"
)
DEVICE_CLASSES = ResourceInfo("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
RESOURCE_SLICES = ResourceInfo("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
MUTATING_WEBHOOKS = ResourceInfo(
    "admissionregistration.k8s.io", "v1",
    "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False,
)  # fmt: skip
VALIDATING_WEBHOOKS = ResourceInfo(
    "admissionregistration.k8s.io", "v1",
    "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False,
)  # fmt: skip
CRDS = ResourceInfo(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False,
    short_names=("crd", "crds"), categories=("api-extensions",), subresources=_STATUS,
)  # fmt: skip
ROLES = ResourceInfo("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = ResourceInfo("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = ResourceInfo(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False
)
CLUSTER_ROLE_BINDINGS = ResourceInfo(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False
)
TOKEN_REVIEWS = ResourceInfo(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, verbs=_CREATE
)
SELF_SUBJECT_REVIEWS = ResourceInfo(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=_CREATE
)
SUBJECT_ACCESS_REVIEWS = ResourceInfo(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False,
    verbs=_CREATE,
)  # fmt: skip
SELF_SUBJECT_ACCESS_REVIEWS = ResourceInfo(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False,
    verbs=_CREATE,
)  # fmt: skip
SELF_SUBJECT_RULES_REVIEWS = ResourceInfo(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False,
    verbs=_CREATE,
)  # fmt: skip

BUILT_IN = (
    NAMESPACES, NODES, PODS, EVENTS, SECRETS, CONFIG_MAPS, SERVICES, ENDPOINTS, ENDPOINT_SLICES,
    SERVICE_ACCOUNTS, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS, LIMIT_RANGES, POD_TEMPLATES, EVENTS_V1, DEPLOYMENTS, REPLICA_SETS,
    STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS, PDBS, PRIORITY_CLASSES, LEASES, STORAGE_CLASSES,
    CSI_NODES, CSI_DRIVERS, CSI_CAPACITIES,
    VOLUME_ATTACHMENTS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_SLICES,
    MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, CRDS, ROLES, ROLE_BINDINGS,
    CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, TOKEN_REVIEWS, SELF_SUBJECT_REVIEWS,
    SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_RULES_REVIEWS,
)  # fmt: skip
