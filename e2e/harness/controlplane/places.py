"""Paths of the binaries, their modules and a running control plane. Other tools rely on them."""

import os
from pathlib import Path

USUAL = "1.37.2"
"""The default Kubernetes version to build and run."""
KUBERNETES = os.environ.get("MUSTER_KUBERNETES") or USUAL
"""The Kubernetes of this run: one of those in `e2e.harness.controlplane.build.RELEASES`."""

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "controlplane"
BIN = CACHE / "bin" if KUBERNETES == USUAL else CACHE / KUBERNETES / "bin"
GO = ROOT / ".cache" / "go"
MODULES = ROOT / "e2e" / "harness" / "modules"
SOURCES = CACHE / "modules.json"
DURATIONS = CACHE / "durations.json"
KUBECONFIG = CACHE / "kubeconfig"
LOGS = CACHE / "logs"
PID = CACHE / "pid"


def before(version: str, running: str = KUBERNETES) -> bool:
    """Return True if the real control plane of the run is older than this: `1.36`, for instance."""
    major, minor = (int(part) for part in version.split("."))
    return tuple(int(part) for part in running.split(".")[:2]) < (major, minor)
