"""Devices in the format of selector tests: the JSON of a ResourceSlice's devices."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from scheduler.cel.quantities import parse_quantity
from scheduler.core.values.devices import Attribute, Capacity, DeviceInfo

HERE = Path(__file__).parent


_KINDS: Final[dict[type, Literal["bool", "int", "string"]]] = {
    bool: "bool",
    int: "int",
    str: "string",
}


def device(**attributes: bool | int | str) -> DeviceInfo:
    """Return a device with attributes of the driver's domain; a text is a string, not a version."""
    return DeviceInfo(
        "d",
        tuple(
            (name, Attribute(_KINDS[type(value)], value))
            for name, value in sorted(attributes.items())
        ),
    )


def from_json(written: Mapping[str, Any]) -> DeviceInfo:
    attributes = sorted(written.get("attributes", {}).items())
    capacity = sorted(written.get("capacity", {}).items())
    return DeviceInfo(
        "d",
        tuple((name, Attribute(*next(iter(value.items())))) for name, value in attributes),
        tuple(Capacity(name, parse_quantity(value["value"]).nano) for name, value in capacity),
        shared=written.get("allowMultipleAllocations", False),
    )


def written_devices() -> list[dict[str, Any]]:
    """Return the devices of the corpus."""
    read: list[dict[str, Any]] = json.loads((HERE / "devices.json").read_text("utf-8"))
    return read


def corpus() -> dict[str, list[tuple[str, str]]]:
    """Return (verdicts, expression) by group; the file explains the verdicts."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for line in (HERE / "corpus.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            groups[line.strip("[]")] = group = []
        elif line and not line.startswith("#"):
            verdicts, text = line.split(" ", 1)
            group.append((verdicts, json.loads(text)))
    return groups
