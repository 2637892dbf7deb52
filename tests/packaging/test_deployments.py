"""The Deployments that the manifests install."""

from pathlib import Path
from typing import Any

import pytest
import yaml

BASE = Path(__file__).parents[2] / "manifests" / "base"
DEPLOYMENTS = {
    obj["metadata"]["name"]: obj
    for path in sorted(BASE.glob("*.yaml"))
    for obj in yaml.safe_load_all(path.read_text("utf-8"))
    if obj["kind"] == "Deployment"
}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_replicas_of_one_revision_spread_over_nodes(name: str) -> None:
    """Without the hash the pods of the last revision count, and both new ones share a node."""
    pod: Any = DEPLOYMENTS[name]["spec"]["template"]["spec"]

    (spread,) = pod["topologySpreadConstraints"]

    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["matchLabelKeys"] == ["pod-template-hash"]
