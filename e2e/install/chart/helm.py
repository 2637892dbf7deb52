"""An unmodified Helm, and the rendered objects of charts/muster."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.controlplane.places import ROOT
from e2e.harness.support.binaries import binary

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace (empty for none) and name of an object."""

CHART = ROOT / "charts" / "muster"
RELEASE, NAMESPACE = "muster", "muster-system"


def environment(home: Path) -> dict[str, str]:
    """Return an environment with its own home, without the user's plugins and repositories."""
    return {"HOME": str(home), "PATH": os.environ["PATH"]}


def run(*arguments: str, values: Mapping[str, Any], home: Path) -> subprocess.CompletedProcess[str]:
    """Run one command on the chart with these values, in a file as users write it."""
    file = home / "values.yaml"
    file.write_text(json.dumps(values))
    return subprocess.run(
        [str(binary("helm")), *arguments, f"--values={file}"],
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
    )


def render(
    home: Path,
    values: Mapping[str, Any] | None = None,
    namespace: str = NAMESPACE,
    chart: Path = CHART,
) -> dict[Key, Object]:
    """Return the objects of the release by their names, including hooks. No name occurs twice."""
    options = (RELEASE, str(chart), f"--namespace={namespace}")
    done = run("template", *options, values=values or {}, home=home)
    assert done.returncode == 0, done.stderr
    objects = [obj for obj in yaml.safe_load_all(done.stdout) if obj]
    found = {key(obj): obj for obj in objects}
    assert len(found) == len(objects)
    return found


def key(obj: Object) -> Key:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def is_hook(obj: Object) -> bool:
    return "helm.sh/hook" in (obj["metadata"].get("annotations") or {})
