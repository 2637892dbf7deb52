"""Paths and names of the nodes, and of what they are built from."""

import tomllib

from e2e.harness.controlplane.places import ROOT

CACHE = ROOT / ".cache" / "nodes"
TREES = CACHE / "trees"
NODE_TREE = TREES / "node"
IMAGE_TREE = TREES / "image"
BUILDER = CACHE / "builder"
IMAGES = CACHE / "images"
STORE = CACHE / "containerd"
"""The data of a containerd that has imported all images."""
DURATIONS = CACHE / "durations.json"
PROGRAMS = "/opt/programs"
"""The folder of each node with programs that run in pods, for which no registry has an image."""
ON_NODES = ("containerd", "containerd-shim-runc-v2", "kubelet", "kube-proxy", "kube-router")
"""The programs of each node that are built here."""
IN_PODS = ("jobset", "lws", "trainer", "prometheus")
RUN = CACHE / "run"
"""What the nodes write; each start empties it."""

IMAGE = f"muster:{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}"
RELEASED = CACHE / "released"
"""The files of the last released version, if this clone has its commit."""
BUSYBOX = "busybox:1.36"
PAUSE = "docker.io/library/pause:1"
