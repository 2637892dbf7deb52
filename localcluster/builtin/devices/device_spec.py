"""One device of a slice: its attributes, capacity, taints, counters and conditions."""

import re
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import (
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from localcluster.builtin.devices.capacity import capacity_causes
from localcluster.builtin.devices.claim_spec import EFFECTS
from localcluster.builtin.devices.fields import (
    distinct,
    each,
    label_key,
    label_name,
    label_value,
    node_name,
    node_selector,
    qualified,
)

Object = dict[str, Any]

MOST_ATTRIBUTES = 32
"""Maximum number of attributes and capacities of a device together."""
MOST_TAINTS = 16
MOST_CONDITIONS = 4
MOST_COUNTERS = 32
MOST_SETS_USED = 2
VALUE_BYTES = 64
_NUMBER = r"(0|[1-9]\d*)"
_BEFORE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = r"[0-9a-zA-Z-]+"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_BEFORE}(\.{_BEFORE})*)?(\+{_BUILD}(\.{_BUILD})*)?\Z",
    re.ASCII,
)
_VALUES = ("bool", "int", "string", "version")
_PLACES = ("nodeName", "nodeSelector", "allNodes")
_ONE_PLACE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)
_NO_PLACE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set "
    "to true in the ResourceSlice spec"
)


def device_causes(device: Object, at: str, *, own_places: bool) -> list[Cause]:
    """Return the errors of a device; `own_places` if each device of the slice names its nodes."""
    causes = label_name(device.get("name", ""), f"{at}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    together = len(attributes) + len(capacity)
    if together > MOST_ATTRIBUTES:
        text = f"the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}"
        causes.append(invalid(at, together, text))
    for name, value in attributes.items():
        causes += qualified(name, f"{at}.attributes")
        causes += _attribute(value, f"{at}.attributes[{name}]")
    shared = bool(device.get("allowMultipleAllocations"))
    for name, value in capacity.items():
        causes += qualified(name, f"{at}.capacity")
        causes += capacity_causes(value, f"{at}.capacity[{name}]", shared=shared)
    causes += each(device.get("taints") or (), f"{at}.taints", MOST_TAINTS, _taint)
    used, where = device.get("consumesCounters") or (), f"{at}.consumesCounters"
    causes += distinct(used, where, MOST_SETS_USED, _consumption, _set_of)
    causes += _place(device, at) if own_places else _no_place(device, at)
    return causes + binding_causes(device, at)


def counter_causes(value: Object, at: str, name: str) -> list[Cause]:
    """Return the validation errors of a counter set, whose own name is in the field `name`."""
    own, counters = value.get(name, ""), value.get("counters") or {}
    causes = label_name(own, f"{at}.{name}") if own else [required(f"{at}.{name}")]
    where = f"{at}.counters"
    if not counters:
        return [*causes, required(where)]
    if len(counters) > MOST_COUNTERS:
        return [*causes, too_many(where, len(counters), MOST_COUNTERS)]
    return causes + [cause for key in counters for cause in label_name(key, where)]


def binding_causes(value: Object, at: str) -> list[Cause]:
    """Return the validation errors of binding conditions."""
    good, bad = value.get("bindingConditions") or [], value.get("bindingFailureConditions") or []
    where, failed = f"{at}.bindingConditions", f"{at}.bindingFailureConditions"
    causes = each(good, where, MOST_CONDITIONS, label_key)
    causes += each(bad, failed, MOST_CONDITIONS, label_key)
    causes += _twice(good, where) + _twice(bad, failed)
    for index, one in enumerate(bad):
        if one in good:
            text = "bindingFailureConditions must not overlap with bindingConditions"
            causes.append(invalid(f"{failed}[{index}]", one, text))
    if bad and not good:
        text = "bindingConditions are required to use bindingFailureConditions"
        causes.append(invalid(where, value.get("bindingConditions"), text))
    if good and not bad:
        text = "bindingFailureConditions are required to use bindingConditions"
        causes.append(invalid(failed, value.get("bindingFailureConditions"), text))
    return causes


def _twice(names: list[str], at: str) -> list[Cause]:
    return [
        duplicate(f"{at}[{index}]", one) for index, one in enumerate(names) if one in names[:index]
    ]


def _attribute(value: Object, at: str) -> list[Cause]:
    said = [name for name in _VALUES if value.get(name) is not None]
    causes = [
        too_long(f"{at}.{name}", VALUE_BYTES)
        for name in said
        if name in {"string", "version"} and len(value[name].encode()) > VALUE_BYTES
    ]
    if "version" in said and not _VERSION.match(value["version"]):
        text = "must be a string compatible with semver.org spec 2.0.0"
        causes.append(invalid(f"{at}.version", value["version"], text))
    if len(said) != 1:
        causes.append(invalid(at, value if said else "", "exactly one value must be specified"))
    return causes


def _taint(taint: Object, at: str) -> list[Cause]:
    causes = label_key(taint.get("key", ""), f"{at}.key")
    if taint.get("value"):
        causes += label_value(taint["value"], f"{at}.value")
    effect = taint.get("effect", "")
    if not effect:
        causes.append(required(f"{at}.effect"))
    elif effect not in EFFECTS:
        causes.append(not_supported(f"{at}.effect", effect, EFFECTS))
    return causes


def _set_of(consumption: Object) -> str:
    return str(consumption.get("counterSet", ""))


def _consumption(value: Object, at: str) -> list[Cause]:
    return counter_causes(value, at, "counterSet")


def _place(device: Object, at: str) -> list[Cause]:
    node, selector = device.get("nodeName"), device.get("nodeSelector")
    causes: list[Cause] = []
    if node == "":
        causes.append(invalid(f"{at}.nodeName", node, "must not be empty"))
    elif node is not None:
        causes += node_name(node, f"{at}.nodeName")
    if selector is not None:
        causes += node_selector(selector, f"{at}.nodeSelector")
    if device.get("allNodes") is False:
        causes.append(invalid(f"{at}.allNodes", False, "must be either unset or set to true"))
    said = [f"`{name}`" for name in _PLACES if device.get(name) or device.get(name) == {}]
    if not said:
        causes.append(required(at, _ONE_PLACE))
    elif len(said) > 1:
        causes.append(invalid(at, f"{{{', '.join(said)}}}", _ONE_PLACE))
    return causes


def _no_place(device: Object, at: str) -> list[Cause]:
    said = any(device.get(name) is not None for name in _PLACES)
    return [invalid(at, None, _NO_PLACE)] if said else []
