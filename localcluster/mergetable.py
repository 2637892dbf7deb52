"""The merge rules of the built-in kinds."""

from localcluster.mergekeys import MergeNode

_ATOMIC = MergeNode("atomic")
_SET = MergeNode("set")


def _map(*keys: str, items: MergeNode | None = None, patch_key: str = "") -> MergeNode:
    return MergeNode("map", keys, items=items, patch_key=patch_key)


def _fields(**fields: MergeNode) -> MergeNode:
    return MergeNode(fields=fields)


_PORTS = MergeNode(
    "map",
    ("containerPort", "protocol"),
    key_defaults={"protocol": "TCP"},
    patch_key="containerPort",
)
_CONTAINER = _fields(
    ports=_PORTS,
    env=_map("name"),
    volumeMounts=_map("mountPath"),
    volumeDevices=_map("devicePath"),
    resources=_fields(claims=_map("name")),
)
_CONDITIONS = _map("type")
_LOOSE_CONDITIONS = MergeNode("atomic", patch_key="type")
METADATA = _fields(ownerReferences=_map("uid"), finalizers=_SET)
_POD_SPEC = _fields(
    volumes=_map("name"),
    containers=_map("name", items=_CONTAINER),
    initContainers=_map("name", items=_CONTAINER),
    ephemeralContainers=_map("name", items=_CONTAINER),
    imagePullSecrets=_map("name"),
    hostAliases=_map("ip"),
    topologySpreadConstraints=_map("topologyKey", "whenUnsatisfiable", patch_key="topologyKey"),
    schedulingGates=_map("name"),
    resourceClaims=_map("name"),
    nodeSelector=_ATOMIC,
)
_TEMPLATE = _fields(metadata=METADATA, spec=_POD_SPEC)
_JOB_SPEC = _fields(selector=_ATOMIC, template=_TEMPLATE)
_CONDITIONED = _fields(conditions=_CONDITIONS)
_WORKLOAD = _fields(
    metadata=METADATA,
    spec=_fields(selector=_ATOMIC, template=_TEMPLATE),
    status=_CONDITIONED,
)
_SERVICE_PORTS = MergeNode(
    "map", ("port", "protocol"), key_defaults={"protocol": "TCP"}, patch_key="port"
)
GENERAL = _fields(metadata=METADATA, status=_CONDITIONED)

_WEBHOOKS = _fields(metadata=METADATA, webhooks=_map("name"))
_TABLE: dict[tuple[str, str], MergeNode] = {
    ("", "pods"): _fields(
        metadata=METADATA,
        spec=_POD_SPEC,
        status=_fields(conditions=_CONDITIONS, podIPs=_map("ip")),
    ),
    ("", "nodes"): _fields(
        metadata=METADATA,
        spec=_fields(podCIDRs=_SET),
        status=_fields(conditions=_CONDITIONS, addresses=_map("type")),
    ),
    ("", "services"): _fields(
        metadata=METADATA,
        spec=_fields(ports=_SERVICE_PORTS, selector=_ATOMIC),
        status=_CONDITIONED,
    ),
    ("", "serviceaccounts"): _fields(metadata=METADATA, secrets=_map("name")),
    ("", "resourcequotas"): GENERAL,
    ("batch", "jobs"): _fields(
        metadata=METADATA, spec=_JOB_SPEC, status=_fields(conditions=_LOOSE_CONDITIONS)
    ),
    ("batch", "cronjobs"): _fields(
        metadata=METADATA, spec=_fields(jobTemplate=_fields(metadata=METADATA, spec=_JOB_SPEC))
    ),
    ("apps", "deployments"): _WORKLOAD,
    ("apps", "replicasets"): _WORKLOAD,
    ("apps", "statefulsets"): _WORKLOAD,
    ("apps", "daemonsets"): _WORKLOAD,
    ("", "replicationcontrollers"): _WORKLOAD,
    ("policy", "poddisruptionbudgets"): _fields(
        metadata=METADATA, spec=_fields(selector=_ATOMIC), status=_CONDITIONED
    ),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _WEBHOOKS,
}


def merge_table(collection: tuple[str, str]) -> MergeNode:
    """The rules of a built-in kind."""
    return _TABLE.get(collection, GENERAL)
