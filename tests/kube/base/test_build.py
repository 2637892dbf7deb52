"""The version and the commit: from the file of an archive or an image, else from git."""

import re
import tomllib
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from kube.base.build import UNKNOWN, Build, read_build
from kube.base.process import announce
from tests.structure.graph import ROOT

COMMIT, OTHER = "a" * 40, "b" * 40


def checkout(folder: Path, head: str, branch: str = "") -> Path:
    (folder / ".git" / "refs" / "heads").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(f"{head}\n")
    if branch:
        (folder / ".git" / "refs" / "heads" / "main").write_text(f"{branch}\n")
    return folder


@pytest.mark.parametrize(
    ("recorded", "head", "branch", "want"),
    [
        pytest.param(f"{COMMIT}\n", "ref: refs/heads/main", OTHER, COMMIT, id="an image"),
        pytest.param("$Format:%H$\n", "ref: refs/heads/main", OTHER, OTHER, id="a branch"),
        pytest.param("$Format:%H$\n", OTHER, "", OTHER, id="a detached head"),
        pytest.param("$Format:%H$\n", "ref: refs/heads/main", "", UNKNOWN, id="packed"),
        pytest.param("", "rubbish", "", UNKNOWN, id="no repository"),
    ],
)
def test_the_commit(tmp_path: Path, recorded: str, head: str, branch: str, want: str) -> None:
    file = tmp_path / "commit.txt"
    file.write_text(recorded)

    assert read_build(file, checkout(tmp_path, head, branch)).commit == want


def test_without_files_the_commit_is_unknown(tmp_path: Path) -> None:
    assert read_build(tmp_path / "commit.txt", tmp_path).commit == UNKNOWN


def test_git_writes_the_commit_into_an_archive() -> None:
    assert (ROOT / "kube/base/commit.txt").read_text() == "$Format:%H$\n"
    assert "kube/base/commit.txt export-subst" in (ROOT / ".gitattributes").read_text()


def test_the_version_is_the_installed_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert read_build().version == project["version"]


def test_a_process_announces_its_build() -> None:
    with capture_logs() as logs:
        announce(Build("1.2.3", COMMIT))

    (line,) = logs
    assert (line["event"], line["version"], line["commit"]) == ("starting", "1.2.3", COMMIT)
    labels = {"version": "1.2.3", "commit": COMMIT}
    assert REGISTRY.get_sample_value("muster_build_info", labels) == 1
    assert re.fullmatch(r"muster 1\.2\.3, commit a{40}", str(Build("1.2.3", COMMIT)))
