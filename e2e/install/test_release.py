"""A release of this commit: complete, and the same bytes each time."""

import hashlib
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.controlplane.places import BIN, ROOT
from e2e.harness.support.binaries import binary
from tools.release import numbers
from tools.release.__main__ import make
from tools.release.errors import ReleaseError

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

VERSION = next(numbers.read(ROOT))[1]


@pytest.fixture(scope="module")
def released(server_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a release of the checkout."""
    if server_kind != "real":
        pytest.skip("made once, by the kubectl of the real control plane: run with --cluster=real")
    binary("kubectl")
    out = tmp_path_factory.mktemp("release") / "dist"
    make(ROOT, "HEAD", VERSION, out)
    return out


@pytest.mark.long
def test_the_same_commit_makes_the_same_bytes(released: Path, tmp_path: Path) -> None:
    """The second build uses another folder, umask, hash seed, time zone and time."""
    repository = tmp_path / "clone"
    clone = ["git", "clone", "--quiet", "--shared", str(ROOT), str(repository)]
    subprocess.run(clone, check=True)
    again = tmp_path / "again"
    command = [sys.executable, "-m", "tools.release", VERSION, f"--output={again}"]
    # The program of this checkout, since the commit may be older; its own sources are exported.
    environment = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONHASHSEED": "7"}
    # The checkout may belong to another user, and the home has no git setting that trusts it.
    trust = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    environment |= trust
    subprocess.run(
        command, cwd=ROOT, umask=0o077, check=True, env={**environment, "TZ": "Asia/Tokyo"}
    )

    assert sums(again) == sums(released)
    assert (again / "SHA256SUMS").read_bytes() == (released / "SHA256SUMS").read_bytes()


def test_every_file_is_there_and_has_its_checksum(released: Path) -> None:
    names = set(sums(released)) - {"SHA256SUMS"}
    chart = (
        {f"muster-{numbers.semver(VERSION)}.tgz"}
        if in_commit("charts/muster/Chart.yaml")
        else set()
    )

    console = {f"muster-{VERSION}-console.yaml"} if in_commit("manifests/console") else set()

    assert names == chart | console | {
        f"muster-{VERSION}-py3-none-any.whl",
        f"muster_localcluster-{VERSION}-py3-none-any.whl",
        f"muster_client-{VERSION}-py3-none-any.whl",
        f"muster-{VERSION}-image-context.tar.gz",
        f"muster-{VERSION}-manifests.yaml",
        f"muster-{VERSION}-cert-manager.yaml",
        f"muster-{VERSION}-single.yaml",
        f"muster-{VERSION}-monitoring.yaml",
        f"muster-{VERSION}-protection.yaml",
        f"kubectl-muster-{VERSION}.tar.gz",
        f"muster-{VERSION}-krew.yaml",
        f"muster-{VERSION}-sbom.cdx.json",
        f"muster-{VERSION}-changes.md",
    }
    checked = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    subprocess.run(checked, cwd=released, check=True)
    assert len((released / "SHA256SUMS").read_text().splitlines()) == len(names)


def test_the_manifests_run_the_image_of_the_release(released: Path) -> None:
    objects = yaml.safe_load_all((released / f"muster-{VERSION}-manifests.yaml").read_text())
    images = {
        container["image"]
        for one in objects
        if one["kind"] == "Deployment"
        for container in one["spec"]["template"]["spec"]["containers"]
    }

    assert images == {f"muster:{VERSION}"}


def test_krew_gets_the_archive_of_the_release(released: Path) -> None:
    manifest = yaml.safe_load((released / f"muster-{VERSION}-krew.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    name = platform["uri"].rpartition("/")[2]

    assert platform["sha256"] == sums(released)[name]
    with tarfile.open(released / name) as tar:
        assert tar.getmember(platform["bin"]).mode & 0o111


def test_the_chart_says_what_artifact_hub_shows(released: Path) -> None:
    with tarfile.open(released / f"muster-{numbers.semver(VERSION)}.tgz") as tar:
        file = tar.extractfile("muster/Chart.yaml")
        assert file is not None
        about = yaml.safe_load(file.read())

    assert about["appVersion"] == VERSION
    assert {"artifacthub.io/crds", "artifacthub.io/images"} <= set(about["annotations"])


def test_the_wheel_has_its_commit(released: Path) -> None:
    head = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout
    with zipfile.ZipFile(released / f"muster-{VERSION}-py3-none-any.whl") as wheel:
        assert wheel.read("kube/base/commit.txt").decode() == commit


def test_the_image_can_be_built_from_its_context_alone(released: Path) -> None:
    with tarfile.open(released / f"muster-{VERSION}-image-context.tar.gz") as tar:
        names = {member.name for member in tar}

    assert {"Dockerfile", "pyproject.toml", "README.md", "LICENSE"} <= names
    assert {"requirements/runtime.txt", "cli/main.py", "manifests/base/webhook.yaml"} <= names
    assert not {name.partition("/")[0] for name in names} & {"e2e", "tests", "localcluster", ".git"}


def test_the_bill_names_every_locked_package_with_its_hashes(released: Path) -> None:
    bill = json.loads((released / f"muster-{VERSION}-sbom.cdx.json").read_text())
    lock = (ROOT / "requirements" / "runtime.txt").read_text().splitlines()
    pins = {line.split(";")[0].rstrip(" \\") for line in lock if line[:1].isalnum()}

    assert bill["bomFormat"] == "CycloneDX"
    root = bill["metadata"]["component"]
    assert (root["name"], root["version"]) == ("muster", VERSION)
    assert {f"{one['name']}=={one['version']}" for one in bill["components"]} == pins
    assert all(one["hashes"] for one in downloads(bill))


def downloads(bill: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the source of each package, which has its hashes."""
    references = [it for one in bill["components"] for it in one["externalReferences"]]
    found = [it for it in references if it["type"] == "distribution"]
    assert len(found) >= len(bill["components"])
    return found


@pytest.mark.long
def test_another_number_than_the_commits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"this commit is not version 99\.0\.0"):
        make(ROOT, "HEAD", "99.0.0", tmp_path / "dist")


@pytest.mark.long
def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")

    with pytest.raises(ReleaseError, match="has files that are no release's"):
        make(ROOT, "HEAD", VERSION, tmp_path)
    assert (tmp_path / "mine").read_text() == "precious"


def in_commit(path: str) -> bool:
    command = ["git", "-C", str(ROOT), "cat-file", "-e", f"HEAD:{path}"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def sums(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
