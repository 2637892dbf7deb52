"""The command lines of the servers, and the options that change them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.harness.controlplane import coscheduling, operators, stages
from e2e.harness.controlplane.places import BIN

_CONTROLLERS = (
    "job-controller",
    "cronjob-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "disruption-controller",
    "pod-garbage-collector-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)

QUOTA_AND_VOLUMES = (
    "resourcequota-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
)
"""Extra controllers for tests of user-visible behavior; scheduling benchmarks omit their cost."""

POD_MAKERS = (
    "daemonset-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
)
"""Extra controllers for tests of pods that neither Jobs nor JobSets create.

If Muster's own Deployments must not create pods too, delete them (`running.no_deployments`).
"""

DEVICES = ("resourceclaim-controller", "device-taint-eviction-controller")
"""Extra controllers for tests with resource claims."""

ROLES = ("clusterrole-aggregation-controller",)
"""Extra controller that aggregates the rules of a product into `edit`."""


@dataclass(frozen=True, slots=True)
class Options:
    """The components of a control plane.

    `scheduler` starts kube-scheduler for the pods that name no other. `taint_nodes` lets new nodes
    have the not-ready taint until they are Ready. `enforce_owner_permissions` turns on
    OwnerReferencesPermissionEnforcement, as hardened clusters do. `gang_config` keeps KEP-1068's
    field in the JobSet CRD. `extender` is a URL that kube-scheduler calls after its own filters.
    `audit` writes a line for each request of Muster's accounts. `routes_services` lets the API
    server itself resolve a webhook's Service by its EndpointSlices: nothing else routes here.
    `karpenter` runs Karpenter, whose nodes KWOK simulates; `lws` the LeaderWorkerSet controller,
    `trainer` Kubeflow Trainer's, `kuberay` and `mpi` the operators of Ray and of MPIJobs,
    `coscheduling` the scheduler and the controller of scheduler-plugins.
    `privileged` lets pods ask for privileges, as all distributions do. A node is not ready after
    `node_grace_seconds` without a renewal of its lease; then KWOK leaves its pods unready for good.
    """

    controllers: bool = True
    kwok: bool = True
    jobset: bool = True
    scheduler: bool = False
    taint_nodes: bool = True
    enforce_owner_permissions: bool = True
    gang_config: bool = True
    feature_gates: dict[str, bool] = field(default_factory=dict)
    runtime_config: tuple[str, ...] = ()
    extra_controllers: tuple[str, ...] = ()
    extender: str = ""
    audit: bool = True
    routes_services: bool = False
    karpenter: bool = False
    lws: bool = False
    trainer: bool = False
    kuberay: bool = False
    mpi: bool = False
    coscheduling: bool = False
    privileged: bool = False
    node_grace_seconds: int = 50


@dataclass(frozen=True, slots=True)
class Layout:
    """The files and ports of one run."""

    folder: Path
    etcd_client: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    jobset_webhook: int
    jobset_health: int
    karpenter_metrics: int
    karpenter_health: int
    lws_webhook: int
    lws_health: int
    trainer_webhook: int
    trainer_health: int
    kuberay_health: int
    coscheduling: int
    coscheduling_health: int

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.apiserver}"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def certificates(self) -> Path:
        return self.folder / "pki"


def etcd(layout: Layout) -> list[str | Path]:
    client = f"http://127.0.0.1:{layout.etcd_client}"
    peer = f"http://127.0.0.1:{layout.etcd_peer}"
    return [
        BIN / "etcd",
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def apiserver(layout: Layout, options: Options) -> list[str | Path]:
    pki = layout.certificates
    disabled = ["ServiceAccount"]
    if not options.taint_nodes:
        disabled.append("TaintNodesByCondition")
    command: list[str | Path] = [
        BIN / "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{layout.etcd_client}",
        f"--cert-dir={layout.folder / 'apiserver'}",
        f"--tls-cert-file={pki / 'tls.crt'}",
        f"--tls-private-key-file={pki / 'tls.key'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.apiserver}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'sa.key'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--token-auth-file={layout.folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--disable-admission-plugins={','.join(disabled)}",
        *_gates(options),
    ]
    if options.audit:
        command.append(f"--audit-policy-file={audit_policy(layout)}")
        command.append(f"--audit-log-path={layout.audit_log}")
    if options.enforce_owner_permissions:
        command.append("--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
    if options.privileged:
        command.append("--allow-privileged=true")
    if options.routes_services:
        command.append("--enable-aggregator-routing=true")
    if options.runtime_config:
        command.append(f"--runtime-config={','.join(options.runtime_config)}")
    return command


def audit_policy(layout: Layout) -> Path:
    """Write the audit policy: it logs every request of Muster's accounts, and no others."""
    policy = layout.folder / "audit-policy.json"
    kind = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
    group = "system:serviceaccounts:muster-system"
    rules = [{"level": "Metadata", "userGroups": [group]}, {"level": "None"}]
    policy.write_text(json.dumps({**kind, "rules": rules}))
    return policy


def controller_manager(layout: Layout, options: Options) -> list[str | Path]:
    # With the default rates it clears only about ten node taints per second.
    return [
        BIN / "kube-controller-manager",
        f"--kubeconfig={layout.kubeconfig}",
        f"--service-account-private-key-file={layout.certificates / 'sa.key'}",
        "--use-service-account-credentials=false",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.controller_manager}",
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics,/debug/*",
        f"--cert-dir={layout.folder / 'controller-manager'}",
        f"--node-monitor-grace-period={options.node_grace_seconds}s",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        f"--controllers={','.join([*_CONTROLLERS, *options.extra_controllers])}",
        *_gates(options),
    ]


def scheduler(layout: Layout, options: Options) -> list[str | Path]:
    more: dict[str, object] = {}
    if options.extender:
        asked = {"urlPrefix": options.extender, "filterVerb": "filter", "nodeCacheCapable": True}
        more["extenders"] = [asked]
    return [
        *_kube_scheduler(layout, "kube-scheduler", layout.scheduler, more),
        *_gates(options),
    ]


def coscheduling_scheduler(layout: Layout) -> list[str | Path]:
    more = {"profiles": [coscheduling.profile()]}
    return _kube_scheduler(layout, "coscheduling-scheduler", layout.coscheduling, more)


def _kube_scheduler(
    layout: Layout, binary: str, port: int, more: Mapping[str, object]
) -> list[str | Path]:
    """Return the command of kube-scheduler or a build of it with other plugins.

    `more` are further fields of its configuration.
    """
    configuration = layout.folder / f"{binary}.json"
    content: dict[str, object] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(layout.kubeconfig),
            "qps": 10000,
            "burst": 10000,
        },
        **more,
    }
    configuration.write_text(json.dumps(content))
    return [
        BIN / binary,
        f"--config={configuration}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={layout.folder / binary}",
    ]


def coscheduling_controller(layout: Layout) -> list[str | Path]:
    return [
        BIN / "coscheduling-controller",
        f"--kubeconfig={layout.kubeconfig}",
        f"--probeAddr=127.0.0.1:{layout.coscheduling_health}",
        "--metricsAddr=0",
        "--qps=1000",
        "--burst=2000",
    ]


def kwok(layout: Layout, module: Path) -> list[str | Path]:
    # Without leases nodes flap every 50 s; at level INFO each renewal is a log line.
    return [
        BIN / "kwok",
        f"--kubeconfig={layout.kubeconfig}",
        "--manage-all-nodes",
        "--node-lease-duration-seconds=40",
        "--cidr=10.64.0.0/10",
        "-v=WARN",
        *stages.arguments(module, layout.folder),
    ]


def jobset(layout: Layout, configuration: Path) -> list[str | Path]:
    return [
        BIN / "jobset",
        f"--kubeconfig={layout.kubeconfig}",
        f"--config={configuration}",
        f"--health-probe-bind-address=127.0.0.1:{layout.jobset_health}",
        "--metrics-bind-address=0",
        "--zap-log-level=info",
    ]


def lws(layout: Layout, configuration: Path) -> list[str | Path]:
    return [
        BIN / "lws",
        f"--kubeconfig={layout.kubeconfig}",
        f"--config={configuration}",
        "--zap-log-level=info",
    ]


def karpenter(layout: Layout, instance_types: Path) -> list[str | Path]:
    # It reads its kubeconfig only from the environment.
    return [
        "env",
        f"KUBECONFIG={layout.kubeconfig}",
        BIN / "karpenter",
        "--disable-leader-election=true",
        f"--health-probe-port={layout.karpenter_health}",
        f"--metrics-port={layout.karpenter_metrics}",
        f"--instance-types-file-path={instance_types}",
        # All pods of a Job in one batch: another one may take another zone.
        "--batch-idle-duration=3s",
    ]


def trainer(layout: Layout) -> list[str | Path]:
    return [
        # Its server reads certificates below the folder for temporary files, its rotator in /tmp.
        "env",
        "TMPDIR=/tmp",
        BIN / "trainer",
        f"--kubeconfig={layout.kubeconfig}",
        f"--health-probe-bind-address=127.0.0.1:{layout.trainer_health}",
        f"--webhook-server-port={layout.trainer_webhook}",
        "--metrics-bind-address=0",
        "--zap-log-level=info",
    ]


def kuberay(layout: Layout) -> list[str | Path]:
    return [
        BIN / "kuberay",
        f"--kubeconfig={layout.kubeconfig}",
        f"--health-probe-bind-address=127.0.0.1:{layout.kuberay_health}",
        "--metrics-addr=0",
        "--enable-leader-election=false",
    ]


def mpi(layout: Layout) -> list[str | Path]:
    return [
        BIN / "mpi-operator",
        f"--kubeConfig={layout.kubeconfig}",
        f"--lock-namespace={operators.MPI_NAMESPACE}",
        "--kube-api-qps=100",
        "--kube-api-burst=100",
    ]


def _gates(options: Options) -> list[str]:
    if not options.feature_gates:
        return []
    gates = (f"{name}={str(on).lower()}" for name, on in sorted(options.feature_gates.items()))
    return [f"--feature-gates={','.join(gates)}"]
