"""The spec of a slice: the nodes of its devices, and the limits of its lists."""

from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import invalid, required
from localcluster.builtin.devices.device_spec import counter_causes, device_causes
from localcluster.builtin.devices.fields import (
    distinct,
    driver,
    immutable,
    name_of,
    node_name,
    node_selector,
    pool,
)

Object = dict[str, Any]

MOST_DEVICES = 128
MOST_ADVANCED_DEVICES = 64
"""Maximum number of devices if any of them has taints or uses counters."""
MOST_COUNTER_SETS = 8
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)


def spec_causes(spec: Object, at: str) -> list[Cause]:
    """Return the validation errors of the spec of a slice."""
    causes = driver(spec.get("driver", ""), f"{at}.driver")
    causes += _pool_causes(spec.get("pool") or {}, f"{at}.pool")
    causes += _place_causes(spec, at)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        causes.append(invalid(at, "", "only one of `sharedCounters` or `devices` is allowed"))
    own_places = bool(spec.get("perDeviceNodeSelection"))

    def check(device: Object, where: str) -> list[Cause]:
        return device_causes(device, where, own_places=own_places)

    advanced = any(one.get("taints") or one.get("consumesCounters") for one in devices or ())
    most = MOST_ADVANCED_DEVICES if advanced else MOST_DEVICES
    causes += distinct(devices or (), f"{at}.devices", most, check, name_of)
    where = f"{at}.sharedCounters"
    return causes + distinct(counters or (), where, MOST_COUNTER_SETS, _counter_set, name_of)


def change_causes(new: Object, old: Object, at: str) -> list[Cause]:
    """Return an error for each immutable field that changed: pool, driver and node."""
    pools = (new.get("pool") or {}).get("name"), (old.get("pool") or {}).get("name")
    causes = immutable(*pools, f"{at}.pool.name")
    for name in ("driver", "nodeName"):
        causes += immutable(new.get(name), old.get(name), f"{at}.{name}")
    return causes


def _pool_causes(value: Object, at: str) -> list[Cause]:
    causes = pool(value.get("name", ""), f"{at}.name")
    count, generation = value.get("resourceSliceCount", 0), value.get("generation", 0)
    if count <= 0:
        causes.append(invalid(f"{at}.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        text = "must be greater than or equal to zero"
        causes.append(invalid(f"{at}.generation", generation, text))
    return causes


def _place_causes(spec: Object, at: str) -> list[Cause]:
    causes: list[Cause] = []
    node, selector = spec.get("nodeName"), spec.get("nodeSelector")
    if node == "":
        text = "must be either unset or set to a non-empty string"
        causes.append(invalid(f"{at}.nodeName", node, text))
    elif node is not None:
        causes += node_name(node, f"{at}.nodeName")
    if selector is not None:
        causes += _one_term(selector, f"{at}.nodeSelector")
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            causes.append(invalid(f"{at}.{name}", False, "must be either unset or set to true"))
    said = [f"`{name}`" for name in _PLACES if spec.get(name) or spec.get(name) == {}]
    if not said:
        causes.append(required(at, _ONE_PLACE))
    elif len(said) > 1:
        text = f"{_ONE_PLACE}, but multiple fields are set"
        causes.append(invalid(at, f"{{{', '.join(said)}}}", text))
    return causes


def _one_term(selector: Object, at: str) -> list[Cause]:
    causes, terms = node_selector(selector, at), selector.get("nodeSelectorTerms") or []
    if len(terms) != 1:
        text = "must have exactly one node selector term"
        causes.append(invalid(f"{at}.nodeSelectorTerms", terms, text))
    return causes


def _counter_set(value: Object, at: str) -> list[Cause]:
    return counter_causes(value, at, "name")
