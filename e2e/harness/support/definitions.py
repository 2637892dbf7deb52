"""CustomResourceDefinitions: they are applied, and their kinds served."""

from functools import partial
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.support.rest import APPLY_PATCH, Rest
from e2e.harness.support.waiting import eventually

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def apply(rest: Rest, crd: dict[str, Any]) -> None:
    """Apply the definition, and wait until its kind is served."""
    name = crd["metadata"]["name"]
    applied = {"fieldManager": "muster-e2e", "force": "true"}
    (await rest.patch(f"{PATH}/{name}", crd, APPLY_PATCH, params=applied)).ok()
    await served(rest, name)


async def apply_files(rest: Rest, *files: Path) -> None:
    """Apply the definitions of these files, one in each."""
    for file in files:
        await apply(rest, yaml.load(file.read_bytes(), yaml.CSafeLoader))


async def is_served(rest: Rest, name: str) -> bool:
    """Return True if the definition is established, and its objects can be listed and watched."""
    crd = (await rest.get(f"{PATH}/{name}")).ok()
    spec, conditions = crd["spec"], crd.get("status", {}).get("conditions") or []
    if not any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
        return False
    (stored,) = (one["name"] for one in spec["versions"] if one["storage"])
    listed = f"/apis/{spec['group']}/{stored}/{spec['names']['plural']}"
    # From the watch cache: until that is filled, API servers respond to both with 429.
    return (await rest.get(listed, params={"resourceVersion": "0"})).status == 200


async def served(rest: Rest, *names: str) -> None:
    """Wait until all of these are served. Raises TimeoutError."""
    for name in names:
        await eventually(partial(is_served, rest, name), f"{name} to be served", 60)
