"""The files of a release, each built from the sources of one commit."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.harness.controlplane.places import BIN
from tools.release import archives, artifact_hub, numbers
from tools.release.errors import ReleaseError
from tools.release.source import Source

RENDERED = (
    *("base", "overlays/cert-manager", "overlays/single"),
    *("monitoring", "protection", "console"),
)
"""Folders for `kubectl apply -k`, rendered to one file each."""
CHART = Path("charts/muster")
CHECKSUMS = "SHA256SUMS"


def wheels(source: Source, out: Path) -> None:
    """Build the wheels of Muster, of the embedded cluster (the extra `demo`), and of the client."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    pip += ["--disable-pip-version-check", "--wheel-dir", str(out)]
    for project in ("", "localcluster", "clients/python"):
        _run([*pip, str(source.folder / project)], source)


def image_context(source: Source, version: str, out: Path) -> None:
    """Archive the input of `docker build - <`: the Dockerfile, and what .dockerignore includes."""
    ignore = (source.folder / ".dockerignore").read_text().splitlines()
    names = [line.removeprefix("!") for line in ignore if line.startswith("!")]
    members = archives.files(source.folder, ["Dockerfile", ".dockerignore", *names])
    archives.write(out / f"muster-{version}-image-context.tar.gz", members, source.epoch)


def manifests(source: Source, version: str, out: Path) -> None:
    """Render each kustomization with kubectl."""
    kubectl = _program("kubectl")
    for folder in RENDERED:
        text = _run([kubectl, "kustomize", str(source.folder / "manifests" / folder)], source)
        name = "manifests" if folder == "base" else Path(folder).name
        (out / f"muster-{version}-{name}.yaml").write_bytes(text)


def chart(source: Source, version: str, out: Path) -> None:
    """Package the Helm chart, if the commit has one; repack it, as Helm writes the current time."""
    if not (source.folder / CHART).is_dir():
        return
    artifact_hub.annotate(source.folder / CHART, source.folder, version)
    with tempfile.TemporaryDirectory() as packed:
        options = [f"--version={numbers.semver(version)}", f"--app-version={version}"]
        command = [_program("helm"), "package", *options, f"--destination={packed}"]
        _run([*command, str(source.folder / CHART)], source)
        (package,) = Path(packed).iterdir()
        archives.repack(package, out / package.name, source.epoch)


def bill_of_materials(source: Source, version: str, out: Path) -> None:
    """Write a CycloneDX document from the lock with its hashes: the contents of an image."""
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible"]
    command += ["--pyproject", str(source.folder / "pyproject.toml"), "--output-format=JSON"]
    command += [f"--output-file={out / f'muster-{version}-sbom.cdx.json'}"]
    _run([*command, str(source.folder / "requirements" / "runtime.txt")], source)


def changes(source: Source, version: str, out: Path) -> None:
    """Write the version's section of the changelog. Raises ReleaseError."""
    (out / f"muster-{version}-changes.md").write_text(numbers.changes(source.folder, version))


def checksums(out: Path) -> None:
    """Write the checksums of all files there, in the format of `sha256sum --check`."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(out.iterdir())
        if path.name != CHECKSUMS
    ]
    (out / CHECKSUMS).write_text("".join(lines))


def _program(name: str) -> str:
    built = BIN / name
    # The pinned build rather than another version on the path.
    found = str(built) if built.is_file() else shutil.which(name)
    if found is None:
        raise ReleaseError(f"{name} is neither in {BIN} nor on the path: run make e2e-modules")
    return found


def _run(command: Sequence[str], source: Source) -> bytes:
    done = subprocess.run(
        command, cwd=source.folder, env=_environment(source), capture_output=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise ReleaseError(f"{' '.join(command[:4])} failed:\n{said}")
    return done.stdout


def _environment(source: Source) -> Mapping[str, str]:
    """Return an environment in which tools use the commit's time instead of the clock's."""
    return {**os.environ, "SOURCE_DATE_EPOCH": str(source.epoch), "TZ": "UTC", "LC_ALL": "C"}
