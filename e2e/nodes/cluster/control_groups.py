"""The control groups of a node, in each hierarchy of the machine."""

import contextlib
import os
import time
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_PARENT = "muster-nodes"
_SHARES = 4096
"""Four times the weight of other processes: a kubelet that is starved loses its node."""


def create(name: str) -> list[Path]:
    """Create the groups of a node, and return their folders."""
    return [_in_hierarchy(hierarchy, name) for hierarchy in _hierarchies()]


def remove(name: str | None = None, timeout: float = 20) -> None:
    """Remove the groups of a node, or of all nodes; their processes have ended or are about to.

    Raises TimeoutError.
    """
    deadline = time.monotonic() + timeout
    for hierarchy in _hierarchies():
        folder = hierarchy / _PARENT / (name or "")
        while folder.is_dir():
            for one, _, _ in os.walk(folder, topdown=False):
                with contextlib.suppress(OSError):  # a process is still ending
                    Path(one).rmdir()
            if folder.is_dir() and time.monotonic() > deadline:
                raise TimeoutError(f"{folder} still has processes")
            time.sleep(0.05)


def processes(name: str, pod_uid: str) -> list[int]:
    """Return the processes of a pod on a node."""
    first = _hierarchies()[0] / _PARENT / name
    files = first.glob(f"kubepods/**/pod{pod_uid}/*/cgroup.procs")
    return [int(line) for file in files for line in file.read_text().split()]


def existing() -> list[Path]:
    """Return the folders of groups that exist."""
    found = (hierarchy / _PARENT for hierarchy in _hierarchies())
    return [folder for folder in found if folder.is_dir()]


def _hierarchies() -> list[Path]:
    """Return one folder with the second version of control groups, else one for each controller."""
    if (_MOUNT / "cgroup.controllers").is_file():
        return [_MOUNT]
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    names = [line.split(":")[1] for line in lines]
    return [_MOUNT / name.removeprefix("name=") for name in names if name]


def _in_hierarchy(hierarchy: Path, name: str) -> Path:
    parent = hierarchy / _PARENT
    parent.mkdir(exist_ok=True)
    if (parent / "cpuset.cpus").is_file() and (parent / "cgroup.clone_children").is_file():
        for file in ("cpuset.cpus", "cpuset.mems"):  # empty, but a process needs both
            (parent / file).write_text((hierarchy / file).read_text())
        (parent / "cgroup.clone_children").write_text("1")
    if (parent / "cpu.shares").is_file():
        (parent / "cpu.shares").write_text(str(_SHARES))
    if (hierarchy / "cgroup.controllers").is_file():
        for folder in (hierarchy, parent):
            enabled = (folder / "cgroup.controllers").read_text().split()
            wanted = " ".join(f"+{controller}" for controller in enabled)
            (folder / "cgroup.subtree_control").write_text(wanted)
    folder = parent / name
    folder.mkdir(exist_ok=True)
    return folder
