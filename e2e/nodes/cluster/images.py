"""The images of the nodes: Muster's by its own Dockerfile, now and as released, and a busybox.

buildah builds them in the tree of a node. Then a containerd imports all of them once, and each node
begins with a copy of its data.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from e2e.harness.controlplane.build import CONTAINERD
from e2e.harness.controlplane.places import BIN, ROOT
from e2e.harness.controlplane.progress import Progress
from e2e.install.upgrade.versions import MissingCommitError, extract, find, released
from e2e.nodes.cluster import machine
from e2e.nodes.cluster.places import (
    BUILDER,
    BUSYBOX,
    IMAGE,
    IMAGE_TREE,
    IMAGES,
    NODE_TREE,
    PAUSE,
    RELEASED,
    STORE,
)

RELEASED_IMAGE = f"muster:{released()[-1].name}"
_BASES = ("python:3.11", "python:3.11-slim")
"""The images that the Dockerfile builds on."""
_BUILD = "buildah build --isolation chroot --layers --pull-never --quiet"
_STAMP = STORE.with_name("containerd.stamp")

_BUSYBOX_FILE = """
FROM scratch
COPY usr/bin/busybox /bin/busybox
RUN ["/bin/busybox", "--install", "/bin"]
CMD ["sleep", "2147483647"]
"""
"""A busybox that does nothing is a pause container, too: containerd ends it by SIGKILL."""

_IMPORT = f"""
containerd > /var/log/containerd.log 2>&1 &
until ctr version > /dev/null 2>&1; do sleep 0.2; done
for archive in /images/*.tar; do ctr --namespace k8s.io images import "$archive"; done
ctr --namespace k8s.io images tag docker.io/library/{BUSYBOX} {PAUSE}
kill $!
wait
"""


def sent() -> list[Path]:
    """Return the project's files that `docker build` reads; .dockerignore excludes all others."""
    first, *rest = (ROOT / ".dockerignore").read_text().split()
    assert first == "*"
    return [ROOT / entry.removeprefix("!") for entry in rest if entry.startswith("!")]


def are_fresh() -> bool:
    """Return True if the images are of the project's files as they are."""
    return STORE.is_dir() and _STAMP.is_file() and _STAMP.read_text() == _digest()


def build(progress: Progress) -> None:
    """Build all images, and the data of a containerd that has them. Raises BuildError."""
    digest = _digest()
    for folder in (IMAGES, BUILDER / "storage", BUILDER / "scratch"):
        folder.mkdir(parents=True, exist_ok=True)
    binds = {_copy_context(): "/project", IMAGE_TREE: "/base"}
    if _released():
        shutil.rmtree(RELEASED, ignore_errors=True)
        extract(_released(), RELEASED)
        binds[RELEASED] = "/released"
    with progress.step("muster", f"{IMAGE}, by the Dockerfile"):
        _in_tree(_build_script(), binds)
    with progress.step("import", "the images of a node"):
        shutil.rmtree(STORE, ignore_errors=True)
        STORE.mkdir()
        programs = {BIN / name: f"/usr/local/bin/{name}" for name in ("containerd", "ctr")}
        _in_tree(_IMPORT, {STORE: "/var/lib/containerd", **programs})
    _STAMP.write_text(digest)


def copy_store(target: Path) -> None:
    """Give a node the data of a containerd that has the images.

    Files of layers are linked: containerd never changes them. Its databases are copied.
    """
    subprocess.run(["cp", "--archive", "--link", STORE, target], check=True)
    for database in STORE.glob("*/*.db"):
        copied = target / database.relative_to(STORE)
        copied.unlink()
        shutil.copy2(database, copied)


def _copy_context() -> Path:
    """Copy what buildah reads: it would look through the whole checkout, with this cache."""
    context = BUILDER / "context"
    shutil.rmtree(context, ignore_errors=True)
    for file in _context():
        target = context / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    return context


def _in_tree(script: str, binds: dict[Path, str]) -> None:
    disk = BUILDER / "disk"
    shutil.rmtree(disk, ignore_errors=True)
    usual = {
        IMAGES: "/images",
        # Overlays need a disk below them, not another overlay.
        BUILDER / "storage": "/var/lib/containers",
        BUILDER / "scratch": "/var/tmp",
        Path("/etc/resolv.conf"): "/etc/resolv.conf",
    }
    found = {source: str(source) for source in _settings_of_pip()}
    machine.run(NODE_TREE, disk, script, binds={**usual, **found, **binds})
    shutil.rmtree(disk)


@cache
def _released() -> str:
    """Return the commit of the last released version; "" if this clone does not have it."""
    try:
        return find(released()[-1])
    except MissingCommitError:
        return ""


def _build_script() -> str:
    volumes = " ".join(f"--volume {file}:{file}:ro" for file in _settings_of_pip())
    busybox = f"{_BUILD} --tag {BUSYBOX} --file - /"
    bases = " ".join(f"--tag {name}" for name in _BASES)
    made = {IMAGE: "/project", **({RELEASED_IMAGE: "/released"} if _released() else {})}
    archives = {image: f"/images/{image.replace(':', '-')}.tar" for image in (BUSYBOX, *made)}
    return "\n".join(
        [
            f"printf 'FROM scratch\\nCOPY . /\\n' | {_BUILD} {bases} --file - /base",
            f"{busybox} <<'END'{_BUSYBOX_FILE}END",
            *(f"{_BUILD} {volumes} --tag {image} {folder}" for image, folder in made.items()),
            "rm -f /images/*",
            *(f"buildah push {it} docker-archive:{file}:{it}" for it, file in archives.items()),
        ]
    )


def _settings_of_pip() -> list[Path]:
    """Return the files by which pip reaches its index here; elsewhere it needs none."""
    usual = (Path("/etc/pip.conf"), Path("/etc/ssl/certs/ca-certificates.crt"))
    return [file for file in usual if file.is_file()]


def _digest() -> str:
    digest = hashlib.sha256(f"{_build_script()}{_released()}{_IMPORT}{_BUSYBOX_FILE}".encode())
    for file in _context():
        digest.update(f"{file.relative_to(ROOT)}\n".encode())
        digest.update(file.read_bytes())
    digest.update(CONTAINERD.stamp().encode())
    for tree in (NODE_TREE, IMAGE_TREE):
        digest.update(tree.with_name(f"{tree.name}.stamp").read_bytes())
    return digest.hexdigest()


def _context() -> list[Path]:
    return sorted({ROOT / "Dockerfile", ROOT / ".dockerignore", *_sent_files()})


def _sent_files() -> Iterator[Path]:
    for path in sent():
        found = path.rglob("*") if path.is_dir() else [path]
        yield from (one for one in found if one.is_file() and "__pycache__" not in one.parts)
