"""tools.release.numbers: one version in every file that has it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.release import numbers
from tools.release.errors import ReleaseError

ROOT = numbers.ROOT


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project's own files with the version, and its changelog."""
    for name in {place.path for place in numbers.PLACES} | {"CHANGELOG.md"}:
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def test_this_checkout_says_one_number_everywhere() -> None:
    ((found),) = {number for _, number in numbers.read(ROOT)}

    numbers.check(ROOT, found)


def test_no_image_of_muster_has_a_number_that_nobody_looks_after() -> None:
    known = {place.path for place in numbers.PLACES}
    command = ["git", "grep", "--untracked", "-l", "-E", r"image: +\"?muster:", "--", "manifests"]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)

    assert set(found.stdout.split()) <= known


def test_a_new_number_is_written_everywhere_and_in_the_changelog(copy: Path) -> None:
    numbers.write(copy, "9.8.7", "2026-12-24")

    numbers.check(copy, "9.8.7")
    assert "\n## Unreleased\n\n## 9.8.7 - 2026-12-24\n" in (copy / "CHANGELOG.md").read_text()
    assert "muster-localcluster==9.8.7" in (copy / "pyproject.toml").read_text()


def test_each_place_with_another_number_is_named(copy: Path) -> None:
    numbers.write(copy, "9.8.7", "2026-12-24")
    webhook = copy / "manifests/base/webhook.yaml"
    webhook.write_text(webhook.read_text().replace("muster:9.8.7", "muster:9.8.6"))

    said = "not version 9.8.7: manifests/base/webhook.yaml says 9.8.6; run make version"
    with pytest.raises(ReleaseError, match=re.escape(said)):
        numbers.check(copy, "9.8.7")


@pytest.mark.parametrize("version", ["", "1", "v1.2.3", "1.2.3-rc1", "1.2.3 "])
def test_what_is_no_version_is_refused_and_nothing_written(copy: Path, version: str) -> None:
    before = (copy / "pyproject.toml").read_text()

    with pytest.raises(ReleaseError, match=r"is no version: write 1\.2\.3"):
        numbers.write(copy, version, "2026-12-24")
    with pytest.raises(ReleaseError, match=r"is no version: write 1\.2\.3"):
        numbers.check(copy, version)
    assert (copy / "pyproject.toml").read_text() == before


def test_a_place_that_lost_its_number_stops_everything(copy: Path) -> None:
    (copy / "Dockerfile").write_text("FROM scratch\n")

    with pytest.raises(ReleaseError, match="Dockerfile has no version after"):
        numbers.write(copy, "9.8.7", "2026-12-24")
