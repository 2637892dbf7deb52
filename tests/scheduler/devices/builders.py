"""Builders of devices, slices and claims, and an evaluator of the tests' selectors."""

import re
from collections.abc import Iterable, Mapping

from scheduler.core.values.device_asks import (
    NANO,
    Ask,
    DeviceConstraint,
    DeviceRequest,
    exactly,
)
from scheduler.core.values.devices import (
    Attribute,
    Capacity,
    CapacityPolicy,
    DeviceClassInfo,
    DeviceInfo,
    DeviceTaint,
    NodeScope,
    SliceInfo,
)

DRIVER = "gpu.example.com"
CLASS = "gpu"
HERE = "n"

_TERM = re.compile(
    r'device\.(?:driver|attributes\["(?P<domain>[^"]*)"\]\.(?P<name>\w+)) == (?P<value>.+)'
)


def evaluate(expression: str, driver: str, device: DeviceInfo) -> bool | str:
    """Evaluate equality with a literal, joined by &&; a missing attribute is an error."""
    for part in expression.split(" && "):
        if part in ("true", "false"):
            if part == "false":
                return False
            continue
        match = _TERM.fullmatch(part)
        if match is None:
            return f"CEL compile error: {part}"
        wanted = match["value"].strip('"')
        if match["name"] is None:
            if driver != wanted:
                return False
            continue
        attributes = dict(device.attributes)
        found = attributes.get(f"{match['domain']}/{match['name']}")
        if found is None and match["domain"] == driver:
            found = attributes.get(match["name"])
        if found is None:
            return f"CEL runtime error: no such key: {match['name']}"
        if str(found.value).lower() != wanted:
            return False
    return True


def has(name: str, value: object, *, domain: str = DRIVER) -> str:
    """Return the selector for devices whose attribute has the value."""
    text = f'"{value}"' if isinstance(value, str) else str(value).lower()
    return f'device.attributes["{domain}"].{name} == {text}'


def value_of(value: bool | int | str) -> Attribute:
    """Return the attribute; a string that starts with v is a version."""
    if isinstance(value, bool):
        return Attribute("bool", value)
    if isinstance(value, int):
        return Attribute("int", value)
    return (
        Attribute("version", value[1:]) if re.match(r"v\d", value) else Attribute("string", value)
    )


def device(
    name: str,
    attributes: Mapping[str, bool | int | str] | None = None,
    *,
    taints: Iterable[DeviceTaint] = (),
    capacity: Mapping[str, int | tuple[int, CapacityPolicy]] | None = None,
    uses: Mapping[str, Mapping[str, int]] | None = None,
    shared: bool = False,
    node: str = "",
    scope: NodeScope | None = None,
    binding: Iterable[str] = (),
) -> DeviceInfo:
    """Return a device; capacities and counters count in whole units.

    `node` is that of the device alone.
    """
    capacities = []
    for key, amount in sorted((capacity or {}).items()):
        value, policy = amount if isinstance(amount, tuple) else (amount, None)
        capacities.append(Capacity(key, value * NANO, policy))
    return DeviceInfo(
        name,
        tuple((key, value_of(value)) for key, value in sorted((attributes or {}).items())),
        tuple(capacities),
        tuple(taints),
        tuple((name, _amounts(of)) for name, of in sorted((uses or {}).items())),
        shared,
        NodeScope(node) if node else scope,
        binding_conditions=tuple(binding),
    )


def pool(
    *devices: DeviceInfo,
    name: str = "",
    driver: str = DRIVER,
    pool: str = HERE,
    node: str = HERE,
    scope: NodeScope | None = None,
    per_device: bool = False,
    generation: int = 1,
    slices: int = 1,
    counters: Mapping[str, Mapping[str, int]] | None = None,
) -> SliceInfo:
    """Return a slice that by default is the complete pool of the node."""
    return SliceInfo(
        name or f"{driver}-{pool}",
        driver,
        pool,
        devices,
        None if per_device else scope or NodeScope(node),
        generation,
        slices,
        tuple((key, _amounts(of)) for key, of in sorted((counters or {}).items())),
    )


def gpus(count: int, attributes: Mapping[str, bool | int | str] | None = None) -> SliceInfo:
    """Return the node's pool of equal devices gpu-0, gpu-1, ..."""
    return pool(*(device(f"gpu-{at}", attributes) for at in range(count)))


def ask(*requests: DeviceRequest, constraints: Iterable[DeviceConstraint] = ()) -> Ask:
    return Ask(requests, tuple(constraints))


def gpu(count: int = 1, *selectors: str, name: str = "gpu") -> DeviceRequest:
    return exactly(name, CLASS, *selectors, count=count)


def first_of(name: str, *options: DeviceRequest) -> DeviceRequest:
    """Return a firstAvailable list of these requests' options."""
    listed = tuple(
        type(o)(
            f"{name}/{o.name}", o.device_class, o.selectors, o.count, o.every, o.admin,
            o.tolerations, o.capacity,
        )
        for request in options
        for o in request.options
    )  # fmt: skip
    return DeviceRequest(name, listed, listed=True)


def same(attribute: str, *requests: str, domain: str = DRIVER) -> DeviceConstraint:
    return DeviceConstraint(f"{domain}/{attribute}", requests)


def different(attribute: str, *requests: str) -> DeviceConstraint:
    return DeviceConstraint(f"{DRIVER}/{attribute}", requests, distinct=True)


def units(**amounts: int) -> tuple[tuple[str, int], ...]:
    """Return amounts of capacities in whole units."""
    return _amounts(amounts)


def policy(**limits: int) -> CapacityPolicy:
    """Return a policy; `values` are v1, v2, ...; all in whole units."""
    values = tuple(sorted(limits.pop(key) * NANO for key in list(limits) if key[0] == "v"))
    scaled = {key: amount * NANO for key, amount in limits.items()}
    return CapacityPolicy(values=values, **scaled)


CLASSES = {
    CLASS: DeviceClassInfo(CLASS),
    "small": DeviceClassInfo("small", (has("size", "small"),)),
    "other": DeviceClassInfo("other", ('device.driver == "nic.example.com"',)),
}


def _amounts(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((key, amount * NANO) for key, amount in sorted(amounts.items()))
