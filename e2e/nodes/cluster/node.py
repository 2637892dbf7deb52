"""One node: containerd, the kubelet and kube-proxy in namespaces, which end with it."""

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.harness.controlplane.places import BIN
from e2e.harness.controlplane.process import Process
from e2e.nodes.cluster import control_groups, images, machine
from e2e.nodes.cluster.network import MTU, PODS, SERVICES, Addresses
from e2e.nodes.cluster.places import IN_PODS, NODE_TREE, ON_NODES, PAUSE, PROGRAMS

_SCRIPT = Path(__file__).parent / "node.sh"
_NAMESPACES = ("--net", "--uts", "--ipc")
_SYSCTLS = {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}
"""What a kubelet sets for the whole machine. It gets files of its own instead."""

_CONTAINERD = f"""
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
"""


class Node:
    """A node that can be killed and started again; its disk survives."""

    def __init__(self, name: str, number: int, folder: Path) -> None:
        self.name = name
        self.addresses = Addresses.of(number)
        self._disk = folder / name
        self._process: Process | None = None
        self._labels: Mapping[str, str] = {}

    @property
    def pid(self) -> int:
        """The process whose network namespace is the node's."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def logs(self) -> Path:
        return self._disk / "upper/var/log"

    def prepare(self, *, kubelet: Path, proxy: Path, policies: Path, authority: Path) -> None:
        """Write the node's disk. All paths but the authority's are of kubeconfigs."""
        upper = self._disk / "upper"
        folders = {"usr/local/bin": ON_NODES, PROGRAMS.lstrip("/"): IN_PODS}
        for folder, programs in folders.items():
            (upper / folder).mkdir(parents=True, exist_ok=True)
            for program in programs:
                os.link((BIN / program).resolve(), upper / folder / program)
        shutil.copy(_SCRIPT, upper / "usr/local/bin/node.sh")
        images.copy_store(self._disk / "containerd")
        (self._disk / "kubelet").mkdir()
        for name, value in _SYSCTLS.items():
            self._write(f"sysctls/{name}", value, self._disk)
        self._write("etc/hostname", self.name)
        self._write("etc/hosts", f"127.0.0.1 localhost\n{self.addresses.node} {self.name}\n")
        self._write("etc/machine-id", f"{int(self.addresses.node.split('.')[3]):032x}\n")
        self._write("etc/containerd/config.toml", _CONTAINERD)
        self._write("etc/cni/net.d/10-pods.conflist", json.dumps(_cni(self.addresses.pods)))
        self._write("etc/kubernetes/kubelet.yaml", json.dumps(_kubelet()))
        self._write("etc/kubernetes/kube-proxy.yaml", json.dumps(_kube_proxy()))
        self._write("etc/kubernetes/ca.crt", authority.read_text())
        self._write("etc/kubernetes/kubelet.kubeconfig", kubelet.read_text())
        self._write("etc/kubernetes/kube-proxy.kubeconfig", proxy.read_text())
        self._write("etc/kubernetes/kube-router.kubeconfig", policies.read_text())
        self._write("var/log/.keep", "")

    def start(self, *arguments: str) -> None:
        """Start the node with these arguments for its kubelet. It waits for its network."""
        binds = {
            # Overlays need a disk below them, not another overlay.
            self._disk / "containerd": "/var/lib/containerd",
            self._disk / "kubelet": "/var/lib/kubelet",
            **{self._disk / "sysctls" / name: f"/proc/sys/{name}" for name in _SYSCTLS},
        }
        script = ("env", f"SERVICES={SERVICES}", "sh", "/usr/local/bin/node.sh")
        inner = [*script, self.name, self.addresses.node, *arguments]
        command = machine.command(
            NODE_TREE,
            self._disk,
            inner,
            binds=binds,
            groups=control_groups.create(self.name),
            namespaces=_NAMESPACES,
        )
        self._process = Process(self.name, command, logs=self._disk)
        self._process.start()
        self._wait_for_namespace()

    def kill(self) -> None:
        """End all processes of the node at once, as a loss of power does."""
        if self._process is not None:
            self._process.kill()
        control_groups.remove(self.name)

    def signal(self, program: str, number: signal.Signals) -> None:
        """Send a signal to one of the node's own processes, such as its kubelet."""
        network = Path(f"/proc/{self.pid}/ns/net").readlink()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                found = (process / "comm").read_text().strip()
                if found == program and (process / "ns/net").readlink() == network:
                    os.kill(int(process.name), number)

    def _wait_for_namespace(self) -> None:
        assert self._process is not None
        here = Path("/proc/self/ns/net").readlink()
        while self._process.running and Path(f"/proc/{self.pid}/ns/net").readlink() == here:
            time.sleep(0.01)
        if not self._process.running:
            raise RuntimeError(f"{self.name} ended: {self._process.log.read_text()}")

    def _write(self, name: str, text: str, below: Path | None = None) -> None:
        path = (below or self._disk / "upper") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _cni(pods: str) -> dict[str, Any]:
    # Each pod has a link to its node, which routes: a bridge needs settings outside of the node.
    routes = [{"dst": "0.0.0.0/0"}]
    ipam = {"type": "host-local", "subnet": pods, "routes": routes}
    plugins = [
        {"type": "ptp", "ipam": ipam, "mtu": MTU},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}


def _kubelet() -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "resolvConf": "",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/etc/kubernetes/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        # The disk is that of this machine, whatever else is on it.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
    }


def _kube_proxy() -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": PODS,
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kube-proxy.kubeconfig"},
        # Limits of the whole machine.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
