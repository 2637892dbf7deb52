"""The alerts by the real promtool, each firing and resolving, and the objects for kubectl."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e.harness.support import manifests

FOLDER = manifests.MANIFESTS / "monitoring"


def test_kustomize_renders_what_is_to_be_applied(kubectl: Path) -> None:
    done = subprocess.run([kubectl, "kustomize", FOLDER], capture_output=True, check=True)
    objects = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}

    assert objects.keys() == {"ConfigMap", "PrometheusRule", "ServiceMonitor"}
    assert {each["metadata"]["namespace"] for each in objects.values()} == {"muster-system"}
    dashboard = json.loads(objects["ConfigMap"]["data"]["muster.json"])
    assert dashboard["title"] == "Muster"
    # It selects the Service of the base, by a label that no other has, and one of its ports.
    services = [each for each in manifests.load() if each["kind"] == "Service"]
    wanted = objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items()
    [service] = [each for each in services if wanted <= each["metadata"]["labels"].items()]
    ports = {port["name"] for port in service["spec"]["ports"]}
    assert {each["port"] for each in objects["ServiceMonitor"]["spec"]["endpoints"]} <= ports


def run(promtool: Path, *arguments: str) -> str:
    done = subprocess.run(
        [promtool, *arguments], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_rules(promtool: Path) -> None:
    assert "rules found" in run(promtool, "check", "rules", "--lint-fatal", "rules.yaml")


def test_each_alert_fires_and_clears(promtool: Path) -> None:
    assert "SUCCESS" in run(promtool, "test", "rules", "rules_test.yaml")


@pytest.mark.long
def test_a_test_that_expects_something_else_fails(promtool: Path, tmp_path: Path) -> None:
    text = (FOLDER / "rules_test.yaml").read_text()
    other = tmp_path / "other_test.yaml"
    other.write_text(
        text.replace("[rules.yaml]", f"[{FOLDER / 'rules.yaml'}]").replace(
            "exp_labels: {severity: critical}", "exp_labels: {severity: info}"
        )
    )
    with pytest.raises(AssertionError, match="MusterWebhookNotReady"):
        run(promtool, "test", "rules", str(other))
