"""File trees of Debian, by mmdebstrap: that of every node, and that below Muster's image."""

import os
import shutil
from pathlib import Path

from e2e.harness.controlplane.progress import Progress
from e2e.harness.controlplane.subprocesses import follow
from e2e.nodes.cluster.places import IMAGE_TREE, NODE_TREE

_SUITE = "bookworm"
_PACKAGES = {
    NODE_TREE: (
        *("runc", "containernetworking-plugins", "iptables", "ipset", "conntrack"),
        *("iproute2", "mount", "procps", "busybox-static", "buildah", "ca-certificates"),
    ),
    # What `python:3.11-slim` has, as far as Muster's Dockerfile uses it.
    IMAGE_TREE: ("python3.11", "python3-venv", "python-is-python3", "ca-certificates"),
}


def stale() -> list[Path]:
    """Return the trees that are missing or made of other packages."""
    return [tree for tree in _PACKAGES if not _is_fresh(tree)]


def build(tree: Path, progress: Progress) -> None:
    """Build one tree. Raises BuildError."""
    partial = tree.with_name(f"{tree.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    tree.parent.mkdir(parents=True, exist_ok=True)
    packages = _PACKAGES[tree]
    command = ["mmdebstrap", "--variant=apt", f"--include={','.join(packages)}", _SUITE]
    with progress.step(tree.name, f"the file tree of {_SUITE} for {tree.name}s") as heard:
        for line in follow([*command, str(partial)], tree.parent, os.environ):
            heard(line)
    shutil.rmtree(tree, ignore_errors=True)
    partial.rename(tree)
    _stamp(tree).write_text(_text(packages))


def _is_fresh(tree: Path) -> bool:
    stamp = _stamp(tree)
    return tree.is_dir() and stamp.is_file() and stamp.read_text() == _text(_PACKAGES[tree])


def _stamp(tree: Path) -> Path:
    return tree.with_name(f"{tree.name}.stamp")


def _text(packages: tuple[str, ...]) -> str:
    return "\n".join((_SUITE, *packages))
