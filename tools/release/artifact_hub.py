"""The annotations of the chart that Artifact Hub shows, from the sources of a release."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.release import numbers

PREFIX = "artifacthub.io"
KINDS = {"added", "changed", "deprecated", "removed", "fixed", "security"}


def annotations(source: Path, version: str) -> dict[str, str]:
    """Return the annotations of Chart.yaml. There is no signKey, as releases are not signed.

    Raises ReleaseError if the changelog has no section of the version.
    """
    changes = [*_changes(numbers.changes(source, version))]
    structured: dict[str, Any] = {
        "crds": [_definition(path) for path in sorted((source / "manifests/crd").glob("*.yaml"))],
        "crdsExamples": [*_examples(source)],
        "images": [{"name": "muster", "image": f"muster:{version}"}],
        "changes": changes,
    }
    flags = {
        "license": "Apache-2.0",
        "prerelease": _boolean(re.search(r"[a-z]", version) is not None),
        "containsSecurityUpdates": _boolean(any(it["kind"] == "security" for it in changes)),
    }
    texts = {name: yaml.safe_dump(it, sort_keys=False) for name, it in structured.items()}
    return {f"{PREFIX}/{name}": text for name, text in (texts | flags).items()}


def annotate(chart: Path, source: Path, version: str) -> None:
    """Add the annotations to the Chart.yaml of a chart. Raises ReleaseError."""
    file = chart / "Chart.yaml"
    about = yaml.safe_load(file.read_text())
    about["annotations"] = {**about.get("annotations", {}), **annotations(source, version)}
    file.write_text(yaml.safe_dump(about, sort_keys=False))


def _definition(path: Path) -> dict[str, str]:
    crd = yaml.safe_load(path.read_text())
    (stored,) = (it for it in crd["spec"]["versions"] if it["storage"])
    kind = crd["spec"]["names"]["kind"]
    return {
        "kind": kind,
        "version": stored["name"],
        "name": crd["metadata"]["name"],
        "displayName": kind,
        "description": " ".join(stored["schema"]["openAPIV3Schema"]["description"].split()),
    }


def _examples(source: Path) -> Iterator[Any]:
    """Yield the first example of each kind of our API groups."""
    seen = set()
    for path in sorted((source / "examples").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            key = document["apiVersion"], document["kind"]
            if ".muster.dev/" in key[0] and key not in seen:
                seen.add(key)
                yield document


def _changes(section: str) -> Iterator[dict[str, str]]:
    """Yield the items of a section, each with the kind that its heading names."""
    kind = "changed"
    for line in section.splitlines():
        if line.startswith("### "):
            kind = line.removeprefix("### ").strip().lower()
            kind = kind if kind in KINDS else "changed"
        elif line.startswith("- "):
            # Artifact Hub shows plain text: of a link its words.
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line.removeprefix("- "))
            yield {"kind": kind, "description": text.replace("`", "").replace("**", "")}


def _boolean(value: bool) -> str:
    return str(value).lower()
