"""A command in namespaces of its own, with a file tree as its root."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.harness.controlplane.errors import BuildError

_ENTER = Path(__file__).parent / "enter.sh"
_USUAL = ("--mount", "--pid")


def command(
    tree: Path,
    disk: Path,
    inner: Sequence[str],
    *,
    binds: Mapping[Path, str],
    groups: Sequence[Path] = (),
    namespaces: Sequence[str] = (),
) -> list[str]:
    """Return the command that runs `inner` with `tree` as its root.

    `disk` gets what it writes, but to `binds`, a map of folders or files of this machine to their
    place in the tree. All processes end with it, and all mounts: they are in its namespaces.
    """
    mounts = [f"{source}:{target}" for source, target in binds.items()]
    return [
        *("env", f"CGROUPS={' '.join(map(str, groups))}"),
        *("unshare", *_USUAL, *namespaces, "--fork", "--kill-child"),
        *("sh", str(_ENTER), str(tree), str(disk), *mounts, "--", *inner),
    ]


def run(tree: Path, disk: Path, script: str, *, binds: Mapping[Path, str]) -> None:
    """Run a shell script in the tree. Raises BuildError with the end of its output."""
    whole = command(tree, disk, ["sh", "-euc", script], binds=binds)
    done = subprocess.run(
        whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        raise BuildError(f"{script}\nfailed:\n{done.stdout[-4000:]}")
