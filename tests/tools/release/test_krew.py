"""tools.release.krew: the manifest has krew's format, and the archive a launcher that runs."""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tools.release import krew
from tools.release.errors import ReleaseError
from tools.release.numbers import ROOT
from tools.release.source import Source

URL = "https://files.example/muster"
SELECTORS = {"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64"}


@pytest.fixture
def released(tmp_path: Path) -> Path:
    (tmp_path / "muster-1.2.3-py3-none-any.whl").write_bytes(b"wheel")
    krew.write(Source(ROOT, "c", 1_700_000_000), "1.2.3", URL, tmp_path)
    return tmp_path


def check(manifest: dict[str, Any]) -> None:
    """Check what krew's validation of an index requires of a manifest."""
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert manifest["kind"] == "Plugin"
    assert set(manifest) == {"apiVersion", "kind", "metadata", "spec"}
    assert re.fullmatch(r"[\w-]+", manifest["metadata"]["name"])
    spec = manifest["spec"]
    fields = {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
    assert set(spec) == fields
    assert re.fullmatch(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", spec["version"])
    assert spec["homepage"].startswith("https://")
    assert 0 < len(spec["shortDescription"]) <= 50
    assert "\n" not in spec["shortDescription"]
    assert spec["platforms"]
    for platform in spec["platforms"]:
        assert set(platform) == {"selector", "uri", "sha256", "bin"}
        assert re.fullmatch(r"https://\S+\.(tar\.gz|zip)", platform["uri"])
        assert re.fullmatch(r"[0-9a-f]{64}", platform["sha256"])
        assert ".." not in Path(platform["bin"]).parts
        (one,) = platform["selector"]["matchExpressions"]
        assert one == {"key": "os", "operator": "In", "values": ["darwin", "linux"]}


@pytest.mark.parametrize(
    ("version", "want"),
    [("1.2.3", "v1.2.3"), ("1.2.3rc1", "v1.2.3-rc.1"), ("1.2.3.dev0", "v1.2.3-dev.0")],
)
def test_the_manifest_is_one_that_krew_accepts(version: str, want: str, tmp_path: Path) -> None:
    package = tmp_path / "kubectl-muster.tar.gz"
    package.write_bytes(b"archive")
    found = krew.manifest(package, version, URL)

    check(found)
    assert found["spec"]["version"] == want
    (platform,) = found["spec"]["platforms"]
    assert platform["uri"] == f"{URL}/kubectl-muster.tar.gz"
    assert platform["sha256"] == hashlib.sha256(b"archive").hexdigest()


def test_the_archive_has_what_the_launcher_installs(released: Path) -> None:
    with tarfile.open(released / "kubectl-muster-1.2.3.tar.gz") as tar:
        modes = {member.name: member.mode for member in tar}

    assert modes == {
        "LICENSE": 0o644,
        "kubectl-muster": 0o755,
        "muster-1.2.3-py3-none-any.whl": 0o644,
        "requirements.txt": 0o644,
    }


def test_krew_downloads_by_https_only(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="by https only"):
        krew.write(Source(ROOT, "c", 0), "1.2.3", "http://files.example", tmp_path)


@pytest.mark.parametrize("name", ["kubectl-muster", "kubectl_complete-muster"])
def test_the_launcher_runs_the_program_of_its_name(
    name: str, released: Path, tmp_path: Path
) -> None:
    """With a Python that notes what it installs, and through a link as krew makes it."""
    store, links = tmp_path / "store", tmp_path / "bin"
    links.mkdir()
    with tarfile.open(released / "kubectl-muster-1.2.3.tar.gz") as tar:
        tar.extractall(store, filter="data")
    (links / name).symlink_to(store / "kubectl-muster")
    python = tmp_path / "python"
    python.write_text(
        f"""#!/bin/sh
case "$*" in
  -c*) exec {sys.executable} "$@" ;;
  *venv*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  *) echo "$@" >> {tmp_path}/said
     for it in kubectl-muster kubectl_complete-muster; do
       printf '#!/bin/sh\\necho %s "$@"\\n' $it > {store}/environment/bin/$it
       chmod 755 {store}/environment/bin/$it
     done ;;
esac
"""
    )
    python.chmod(0o755)
    environment = {**os.environ, "MUSTER_PYTHON": str(python)}
    runs = [
        subprocess.run(
            [links / name, "tree", "-A"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(2)
    ]

    assert [run.stdout for run in runs] == [f"{name} tree -A\n"] * 2
    assert "once" in runs[0].stderr
    assert runs[1].stderr == ""
    lock, wheel = (tmp_path / "said").read_text().splitlines()
    assert lock.endswith(f"--require-hashes --requirement {store}/requirements.txt")
    assert wheel.endswith(f"--no-deps --no-index {store}/muster-1.2.3-py3-none-any.whl")
