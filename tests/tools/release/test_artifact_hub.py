"""tools.release.artifact_hub: the chart says what Artifact Hub shows of it."""

from pathlib import Path

import pytest
import yaml

from tools.release import artifact_hub
from tools.release.numbers import ROOT

CHANGELOG = """# Changelog

## 1.0.0rc1 - 2027-01-01

### Added
- **Plugin**: [page](docs/kubectl.md) of `kubectl muster`

### Security
- a fix

### Performance
- faster
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for folder in ("manifests", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_each_definition_and_an_example_of_it_are_named(source: Path) -> None:
    found = artifact_hub.annotations(source, "1.0.0rc1")
    crds = yaml.safe_load(found["artifacthub.io/crds"])
    examples = yaml.safe_load(found["artifacthub.io/crdsExamples"])

    files = {path.stem.partition("_")[2] for path in (ROOT / "manifests" / "crd").glob("*.yaml")}
    assert {it["name"].partition(".")[0] for it in crds} == files
    assert all(it["description"] and it["displayName"] == it["kind"] for it in crds)
    versions = {(it["name"].partition(".")[2], it["version"], it["kind"]) for it in crds}
    shown = {(*it["apiVersion"].split("/"), it["kind"]) for it in examples}
    assert shown <= versions
    assert {it["kind"] for it in examples} >= {"CompositePodGroup", "PodGroup"}


def test_changes_have_the_kind_of_their_heading(source: Path) -> None:
    found = artifact_hub.annotations(source, "1.0.0rc1")

    assert yaml.safe_load(found["artifacthub.io/changes"]) == [
        {"kind": "added", "description": "Plugin: page of kubectl muster"},
        {"kind": "security", "description": "a fix"},
        {"kind": "changed", "description": "faster"},
    ]
    assert found["artifacthub.io/prerelease"] == "true"
    assert found["artifacthub.io/containsSecurityUpdates"] == "true"


def test_the_chart_keeps_its_own_annotations(source: Path) -> None:
    chart = source / "chart"
    chart.mkdir()
    (chart / "Chart.yaml").write_text((ROOT / "charts" / "muster" / "Chart.yaml").read_text())
    before = yaml.safe_load((chart / "Chart.yaml").read_text())

    artifact_hub.annotate(chart, source, "1.0.0rc1")

    after = yaml.safe_load((chart / "Chart.yaml").read_text())
    added = after.pop("annotations")
    assert {it: added[it] for it in before["annotations"]} == before.pop("annotations")
    assert after == before
    # Artifact Hub and Helm accept nothing but text as an annotation.
    assert all(isinstance(it, str) for it in added.values())
    assert yaml.safe_load(added["artifacthub.io/images"]) == [
        {"name": "muster", "image": "muster:1.0.0rc1"}
    ]


def test_a_development_version_has_the_changes_that_are_unreleased(source: Path) -> None:
    (source / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n### Fixed\n- a crash\n")

    found = artifact_hub.annotations(source, "1.0.0.dev0")

    assert yaml.safe_load(found["artifacthub.io/changes"]) == [
        {"kind": "fixed", "description": "a crash"}
    ]
    assert found["artifacthub.io/prerelease"] == "true"
