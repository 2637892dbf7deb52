"""The manifests in the package of the commands."""

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
"""Folders for `kubectl apply -k`, and those that they refer to."""

Object = dict[str, Any]


def folder_of(name: str) -> Path:
    """Return one of `FOLDERS`, or a folder in it."""
    # The wheel contains each file once, and the webhook needs these in its own package.
    return WEBHOOK if name == "webhook" else packaged("cli", f"manifests/{name}")


def write(target: Path, registration: Iterable[Object] = ()) -> None:
    """Write all of `FOLDERS` to a new or empty folder, laid out as in a checkout.

    The webhook configurations of `registration` replace those of the same kinds. Raises ConfigError
    for a folder with files, OSError.
    """
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"{target}: the folder is not empty: use a new or empty folder")
    for name in FOLDERS:
        shutil.copytree(folder_of(name), target / name, dirs_exist_ok=True)
    for path in (target / "webhook").glob("*.yaml"):
        kinds = {obj["kind"] for obj in yaml.safe_load_all(path.read_text("utf-8"))}
        if found := [obj for obj in registration if obj["kind"] in kinds]:
            path.write_text(yaml.safe_dump_all(found, sort_keys=False), "utf-8")


@cache
def definitions() -> tuple[Object, ...]:
    """Return the CustomResourceDefinitions of this version."""
    return tuple(obj for obj in objects(CRDS) if obj["kind"] == "CustomResourceDefinition")


@cache
def roles() -> tuple[Object, ...]:
    """Return the roles of `manifests/base` and `manifests/console`, and their bindings."""
    found = [*objects(BASE), *objects(folder_of("console"))]
    return tuple(obj for obj in found if obj["kind"].endswith(("Role", "RoleBinding")))


def objects(folder: Path) -> list[Object]:
    """Return all objects in the YAML files of a folder, in the order of the files' names."""
    return [obj for obj in yaml_objects(folder) if obj]
