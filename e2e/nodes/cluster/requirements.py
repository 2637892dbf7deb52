"""What a machine needs to run nodes."""

import os
import shutil
import subprocess
from pathlib import Path

_COMMANDS = ("ip", "mount", "nsenter", "pivot_root", "unshare")
_CONTROLLERS = frozenset({"cpu", "cpuacct", "cpuset", "memory", "pids"})
_UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")


class MissingError(RuntimeError):
    """This machine cannot run nodes; the message has a line for each missing thing."""


def check() -> None:
    """Raise MissingError if this machine cannot run nodes. Install mmdebstrap if it is missing."""
    found = missing()
    if not found and shutil.which("mmdebstrap") is None:
        found = _install_mmdebstrap()
    if found:
        raise MissingError("nodes cannot run here:\n" + "\n".join(f"- {line}" for line in found))


def missing() -> list[str]:
    """Return a line for each missing thing that only the owner of the machine can add."""
    found = []
    if os.geteuid() != 0:
        found.append("root: namespaces, mounts and network links need it")
    found += [f"the command {name}" for name in _COMMANDS if shutil.which(name) is None]
    if "\toverlay\n" not in Path("/proc/filesystems").read_text():
        found.append("overlayfs in the kernel: modprobe overlay")
    if lacking := _CONTROLLERS - _controllers():
        found.append(f"the control group controllers {', '.join(sorted(lacking))}")
    return found


def _controllers() -> set[str]:
    if _UNIFIED.is_file():
        return {*_UNIFIED.read_text().split(), "cpuacct"}  # part of cpu
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    return {name for line in lines for name in line.split(":")[1].split(",")}


def _install_mmdebstrap() -> list[str]:
    if shutil.which("apt-get") is None:
        return ["mmdebstrap, which builds the file trees of the nodes"]
    for command in (("update",), ("install", "--yes", "--no-install-recommends", "mmdebstrap")):
        done = subprocess.run(
            ["apt-get", "--quiet", *command], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            return [f"mmdebstrap: apt-get {command[0]} failed: {done.stderr.strip()[-1000:]}"]
    return []
