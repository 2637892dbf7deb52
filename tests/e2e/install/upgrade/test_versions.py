"""e2e.install.upgrade.versions finds versions by their commit, or reports the error."""

import subprocess
from pathlib import Path

import pytest

from e2e.harness.controlplane.places import ROOT
from e2e.install.upgrade.versions import MissingCommitError, Released, find, released

_WHOLE = 400
"""Number of commits of the history at the release of the first version."""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def committed(folder: Path, name: str) -> str:
    (folder / "file").write_text(name)
    git(folder, "add", "file")
    git(folder, "commit", "--quiet", "-m", name)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    made.mkdir()
    git(made, "init", "--quiet")
    return made


def test_the_commit_is_enough_where_tags_were_lost(repository: Path) -> None:
    commit = committed(repository, "first")
    committed(repository, "second")

    assert find(Released("1", "v1", commit), repository) == commit


def test_a_tag_on_the_same_commit_changes_nothing(repository: Path) -> None:
    commit = committed(repository, "first")
    git(repository, "tag", "--annotate", "-m", "one", "v1")

    assert find(Released("1", "v1", commit), repository) == commit


def test_a_tag_that_was_moved_is_not_believed(repository: Path) -> None:
    commit = committed(repository, "first")
    moved = committed(repository, "second")
    git(repository, "tag", "v1")

    with pytest.raises(MissingCommitError, match=f"tag v1 of this clone means {moved}"):
        find(Released("1", "v1", commit), repository)


def test_a_shallow_clone_is_told_how_to_get_the_commit(repository: Path, tmp_path: Path) -> None:
    commit = committed(repository, "first")
    committed(repository, "second")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", str(shallow))

    with pytest.raises(MissingCommitError, match=f"{commit}.*shallow.*git fetch --unshallow"):
        find(Released("1", "v1", commit), shallow)


def test_every_released_version_names_a_whole_commit() -> None:
    versions = released()

    assert versions[0].name == "0.1.0"
    assert all(len(one.commit) == 40 and one.tag == f"v{one.name}" for one in versions)


def test_this_clone_has_every_released_version() -> None:
    if int(git(ROOT, "rev-list", "--count", "HEAD")) < _WHOLE:
        pytest.skip("this clone came without its history")

    assert [find(version) for version in released()] == [one.commit for one in released()]
