"""The manifests that come with the commands."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kube.packaged import packaged

CRDS = packaged(__file__, "manifests/crd")
BASE = packaged(__file__, "manifests/base")

Object = dict[str, Any]


@cache
def definitions() -> tuple[Object, ...]:
    """The CustomResourceDefinitions of this version."""
    return tuple(obj for obj in objects(CRDS) if obj["kind"] == "CustomResourceDefinition")


@cache
def roles() -> tuple[Object, ...]:
    """The roles of `manifests/base` and what binds them to accounts."""
    return tuple(obj for obj in objects(BASE) if obj["kind"].endswith(("Role", "RoleBinding")))


def objects(folder: Path) -> list[Object]:
    """All objects in the YAML files of a folder, in the order of the files' names."""
    return [
        obj
        for path in sorted(folder.glob("*.yaml"))
        for obj in yaml.safe_load_all(path.read_text("utf-8"))
        if obj
    ]
