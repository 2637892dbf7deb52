"""The kubectl plugin for krew: an archive, and the manifest for an index of plugins.

The format is krew.googlecontainertools.github.com/v1alpha2:
https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
"""

import hashlib
from pathlib import Path
from typing import Any

import yaml

from tools.release import archives
from tools.release.errors import ReleaseError
from tools.release.numbers import semver
from tools.release.source import Source

LAUNCHER = "kubectl-muster"
DESCRIPTION = """\
Shows the trees of groups that Muster schedules, explains why a gang waits, tells where manifests
would run, and checks an installation. Muster is a scheduler for gangs and trees of gangs.
"""
CAVEATS = """\
The plugin needs Python 3.11 or later with venv and pip, and installs its packages at the first run.
For completion, link the plugin under the name that kubectl looks for:
  ln -s "$(command -v kubectl-muster)" ~/.local/bin/kubectl_complete-muster
"""


def archive(source: Source, version: str, out: Path) -> Path:
    """Write the archive of the wheel, its lock and the launcher. The wheel must be in `out`."""
    wheel = out / f"muster-{version}-py3-none-any.whl"
    launcher = source.folder / "tools" / "release" / LAUNCHER
    members = {
        LAUNCHER: (launcher.read_bytes(), 0o755),
        wheel.name: (wheel.read_bytes(), 0o644),
        "requirements.txt": ((source.folder / "requirements/runtime.txt").read_bytes(), 0o644),
        "LICENSE": ((source.folder / "LICENSE").read_bytes(), 0o644),
    }
    target = out / f"{LAUNCHER}-{version}.tar.gz"
    archives.write(target, members, source.epoch)
    return target


def manifest(package: Path, version: str, url: str) -> dict[str, Any]:
    """Return the manifest; `url` is the folder in which the release is published."""
    system = {"key": "os", "operator": "In", "values": ["darwin", "linux"]}
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "muster"},
        "spec": {
            "version": f"v{semver(version)}",
            "homepage": url,
            "shortDescription": "Show and explain gangs that Muster schedules",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [
                {
                    "selector": {"matchExpressions": [system]},
                    "uri": f"{url}/{package.name}",
                    "sha256": hashlib.sha256(package.read_bytes()).hexdigest(),
                    "bin": LAUNCHER,
                }
            ],
        },
    }


def write(source: Source, version: str, url: str, out: Path) -> None:
    """Write archive and manifest. Raises ReleaseError if the URL has no https."""
    if not url.startswith("https://"):
        raise ReleaseError(f"--url {url}: krew downloads by https only")
    found = manifest(archive(source, version, out), version, url.rstrip("/"))
    text = yaml.safe_dump(found, sort_keys=False)
    (out / f"muster-{version}-krew.yaml").write_text(text)
