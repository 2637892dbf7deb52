"""The manifests that come with the commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from kube.base.errors import ConfigError
from kube.base.packaged import packaged, yaml_objects
from webhooks.server.registration import MANIFESTS as WEBHOOK

CRDS = packaged("cli", "manifests/crd")
BASE = packaged("cli", "manifests/base")

FOLDERS: Final = ("base", "console", "crd", "monitoring", "overlays", "protection", "webhook")
"""What `kubectl apply -k` is given, and what that refers to."""

Object = dict[str, Any]


def folder_of(name: str) -> Path:
    """One of `FOLDERS`, or a folder in it."""
    # The wheel has each file once, and the webhook needs its own.
    return WEBHOOK if name == "webhook" else packaged("cli", f"manifests/{name}")


def write(target: Path, registration: Iterable[Object] = ()) -> None:
    """Write all of `FOLDERS` below a folder that is new or empty, as a checkout has them.

    The webhook configurations of `registration` take the place of those of the same kinds. Raises
    ConfigError for a folder with files, OSError.
    """
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"{target}: there are files in it: name a folder that is new or empty")
    for name in FOLDERS:
        shutil.copytree(folder_of(name), target / name, dirs_exist_ok=True)
    for path in (target / "webhook").glob("*.yaml"):
        kinds = {obj["kind"] for obj in yaml.safe_load_all(path.read_text("utf-8"))}
        if found := [obj for obj in registration if obj["kind"] in kinds]:
            path.write_text(yaml.safe_dump_all(found, sort_keys=False), "utf-8")


@cache
def definitions() -> tuple[Object, ...]:
    """The CustomResourceDefinitions of this version."""
    return tuple(obj for obj in objects(CRDS) if obj["kind"] == "CustomResourceDefinition")


@cache
def roles() -> tuple[Object, ...]:
    """The roles of `manifests/base` and `manifests/console`, and what binds them to accounts."""
    found = [*objects(BASE), *objects(folder_of("console"))]
    return tuple(obj for obj in found if obj["kind"].endswith(("Role", "RoleBinding")))


def objects(folder: Path) -> list[Object]:
    """All objects in the YAML files of a folder, in the order of the files' names."""
    return [obj for obj in yaml_objects(folder) if obj]
