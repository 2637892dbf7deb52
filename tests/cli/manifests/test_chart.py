"""The generated parts of the Helm chart are rewritten, and no other parts change."""

import json
import shutil
from pathlib import Path

import pytest

from api.features import Feature
from cli.manifests import chart
from e2e.harness.controlplane.places import ROOT

CHART = ROOT / "charts" / "muster"


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return shutil.copytree(CHART, tmp_path / "muster")


def test_a_stale_chart_becomes_the_one_that_is_committed(copy: Path) -> None:
    (copy / "files" / "base" / "accounts.yaml").write_text("old")
    (copy / "files" / "base" / "gone.yaml").write_text("kind: Secret")
    schema = json.loads((copy / "values.schema.json").read_text())
    del schema["$defs"]["Webhook"]["properties"]["drainSeconds"]
    (copy / "values.schema.json").write_text(json.dumps(schema))

    chart.write(copy)

    assert tree(copy) == tree(CHART)


def test_a_manifest_that_no_template_knows_is_copied(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests = shutil.copytree(chart.MANIFESTS, tmp_path / "manifests")
    (manifests / "base" / "more.yaml").write_text("kind: Secret")
    monkeypatch.setattr(chart, "MANIFESTS", manifests)

    chart.write(copy)

    assert tree(copy).keys() - tree(CHART).keys() == {"files/base/more.yaml"}


def test_what_values_say_is_no_part_of_the_configuration() -> None:
    definitions = chart.config_definitions()

    sections = {"groups", "leaderElection", "webhook", "scheduler"}
    assert set(definitions["File"]["properties"]) == sections
    for name, fields in chart.BY_VALUES.items():
        assert not set(fields) & set(definitions[name]["properties"])
    objects = [it for it in definitions.values() if "enum" not in it]
    assert all(it["additionalProperties"] is False for it in objects)


def test_the_values_have_every_feature_gate() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    assert schema["properties"]["featureGates"]["$ref"] == "#/$defs/FeatureGates"
    assert set(schema["$defs"]["FeatureGates"]["properties"]) == set(Feature)
