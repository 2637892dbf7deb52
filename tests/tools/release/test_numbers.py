"""tools.release.numbers: one version in every file that has it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.release import numbers
from tools.release.changelog import UNRELEASED
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
    _, found = next(iter(numbers.read(ROOT)))

    numbers.check(ROOT, found)


def test_the_checkout_has_no_number_of_a_release() -> None:
    """A node keeps an image of the same name, and a checkout's must not pass for a release's."""
    _, found = next(iter(numbers.read(ROOT)))
    changes = (ROOT / "CHANGELOG.md").read_text().partition(f"\n{UNRELEASED}\n")[2]

    # A commit without unreleased changes is that of a release.
    assert numbers.is_development(found) or changes.lstrip().startswith("## ")


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


@pytest.mark.parametrize(
    ("version", "chart"),
    [("9.8.8.dev0", "9.8.8-dev.0"), ("9.8.7rc1", "9.8.7-rc.1"), ("9.8.7", "9.8.7")],
)
def test_helm_reads_the_number_of_the_chart(copy: Path, version: str, chart: str) -> None:
    numbers.write(copy, version, "2026-12-24")

    numbers.check(copy, version)
    text = (copy / "charts/muster/Chart.yaml").read_text()
    assert f"\nversion: {chart}\n" in text
    assert f"\nappVersion: {version}\n" in text
    # From there on to any other.
    numbers.write(copy, "9.9.0", "2026-12-25")
    numbers.check(copy, "9.9.0")


def test_a_development_version_leaves_the_changelog_alone(copy: Path) -> None:
    before = (copy / "CHANGELOG.md").read_text()

    numbers.write(copy, "9.8.7.dev0", "2026-12-24")

    assert (copy / "CHANGELOG.md").read_text() == before
    assert "image: muster:9.8.7.dev0\n" in (copy / "manifests/base/webhook.yaml").read_text()


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
