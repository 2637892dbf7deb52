"""Builds what nodes run: Kubernetes' binaries, file trees and images.

`python -m e2e.nodes.cluster.build` needs root, and a machine with apt-get if it has no mmdebstrap.
A second call returns at once.
"""

import argparse
import fcntl
import sys

from e2e.harness.controlplane import build as control_plane
from e2e.harness.controlplane.errors import BuildError
from e2e.harness.controlplane.progress import Progress
from e2e.nodes.cluster import images, requirements, trees
from e2e.nodes.cluster.places import CACHE, DURATIONS


def build(progress: Progress | None = None) -> None:
    """Build what is missing or stale. Raises BuildError, MissingError."""
    requirements.check()
    progress = progress or Progress(sys.stdout, DURATIONS, live=sys.stdout.isatty())
    control_plane.build(progress, nodes=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stale = trees.stale()
        if not stale and images.are_fresh():
            return
        progress.begin("building the nodes", len(stale) + 2)
        for tree in stale:
            trees.build(tree, progress)
        images.build(progress)


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    try:
        build()
    except (BuildError, requirements.MissingError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"the nodes are built: {CACHE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
