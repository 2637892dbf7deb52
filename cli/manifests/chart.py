"""Generator of the Helm chart's derived parts: `python -m cli.manifests.chart charts/muster`.

`files/` are unchanged copies of manifests; the templates add the release's namespace and values. In
`values.schema.json` the schema of `config` is that of the configuration file, and the schema of
`featureGates` has every gate.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from api import features
from cli.config.config import AutoscalerSettings, Certificates, File, Webhook

MANIFESTS: Final = Path(__file__).resolve().parents[2] / "manifests"

COPIED: Final = ("crd", "webhook", "base", "protection", "console")
BY_TEMPLATE: Final = {
    "base/config.yaml",
    "base/controller.yaml",
    "base/kustomization.yaml",
    "base/namespace.yaml",
    "base/scheduler.yaml",
    "base/webhook.yaml",
    "console/deployment.yaml",
    "console/kustomization.yaml",
    "console/network-policy.yaml",
    "protection/kustomization.yaml",
    "protection/network-policy.yaml",
    "protection/priority-quota.yaml",
}
"""Manifests that values change so much that a template replaces them; a test compares the two. The
quota is an example for namespaces of users, and Helm creates the release's namespace."""

BY_VALUES: Final = {
    File.__name__: ("namespace", "profiles", "featureGates"),
    Webhook.__name__: ("host", "port", "service", "secret", "certDir"),
    Certificates.__name__: ("mounted",),
    AutoscalerSettings.__name__: ("topologyKeys",),
}
"""Fields of the configuration file that the chart writes itself. `config` may not set them."""

Schema = dict[str, Any]


def write(chart: Path) -> None:
    """Renew `files/` and the definitions in `values.schema.json`. Raises OSError."""
    # A file that was removed from `manifests/` must disappear from the chart, too.
    shutil.rmtree(chart / "files", ignore_errors=True)
    for source in sources():
        target = chart / "files" / source.relative_to(MANIFESTS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    path = chart / "values.schema.json"
    schema = json.loads(path.read_text("utf-8"))
    schema["$defs"] = config_definitions()
    path.write_text(json.dumps(schema, indent=2) + "\n", "utf-8")


def sources() -> list[Path]:
    """Return the manifests that the chart copies unchanged."""
    found = [path for folder in COPIED for path in sorted((MANIFESTS / folder).glob("*.yaml"))]
    return [path for path in found if str(path.relative_to(MANIFESTS)) not in BY_TEMPLATE]


def config_definitions() -> Schema:
    """Return JSON schemas of the configuration file's sections, without `BY_VALUES`."""
    _, definitions = msgspec.json.schema_components([File])
    for name, schema in definitions.items():
        for field in BY_VALUES.get(name, ()):
            del schema["properties"][field]
        # The chart renders only what is set. The processes know the defaults of the rest, which may
        # differ between versions.
        for field in schema.get("properties", {}).values():  # an enumeration has none
            field.pop("default", None)
        schema["description"] = " ".join(schema["description"].split())
    return {**definitions, "FeatureGates": features.json_schema()}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
