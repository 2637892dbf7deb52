"""The status of a claim: its allocation, its consumers and the drivers' device status."""

import ipaddress
import re
from collections.abc import Hashable
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import (
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from localcluster.builtin.devices.claim_spec import (
    MOST,
    Names,
    config_causes,
    request_names,
    request_reference,
)
from localcluster.builtin.devices.device_spec import binding_causes
from localcluster.builtin.devices.fields import (
    distinct,
    driver,
    each,
    immutable,
    label_key,
    label_name,
    node_selector,
    pool,
    raw,
    same,
)
from localcluster.builtin.pods.pods import canonicalise

Object = dict[str, Any]

MOST_CONSUMERS = 256
MOST_RESULTS = 32
MOST_CONDITIONS = 8
MOST_ADDRESSES = 16
INTERFACE_BYTES = 256
HARDWARE_BYTES = 128
SOURCES = ("FromClaim", "FromClass")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NOT_NORMAL = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with "
    "lowercase hexadecimal characters"
)
_NEW_CONSUMERS = (
    "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
)
_NO_ADDRESS = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_STATUSES = ("False", "True", "Unknown")


def results_of(status: Object) -> list[Object]:
    """Return the allocated devices."""
    allocation = status.get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def device_id(device: Object) -> tuple[str, str, str, str]:
    """Return the identity of an allocated device, or of a share of one."""
    names = ("driver", "pool", "device", "shareID")
    one, two, three, share = (str(device.get(name) or "") for name in names)
    return one, two, three, share


def default_status(status: Object) -> None:
    """Canonicalize quantities and empty conditions as the server does."""
    for result in results_of(status):
        canonicalise(result.get("consumedCapacity"))
    for device in status.get("devices") or ():
        device.setdefault("conditions", None)


def forget_deallocated(new: Object, old: Object) -> None:
    """Drop the status of deallocated devices, and empty lists."""
    gone = set(map(device_id, results_of(old))) - set(map(device_id, results_of(new)))
    kept = [one for one in new.get("devices") or () if device_id(one) not in gone]
    if kept:
        new["devices"] = kept
    else:
        new.pop("devices", None)
    if not new.get("reservedFor"):
        new.pop("reservedFor", None)


def status_causes(claim: Object, old: Object, at: str = "status") -> list[Cause]:
    """Return the validation errors of a change of a claim's status."""
    status, before = claim.get("status") or {}, old.get("status") or {}
    where = f"{at}.reservedFor"
    consumers = status.get("reservedFor") or []
    causes = distinct(consumers, where, MOST_CONSUMERS, _consumer, _uid)
    causes += _device_statuses(status, f"{at}.devices")
    allocation, was = status.get("allocation"), before.get("allocation")
    if consumers and allocation is None:
        causes.append(forbidden(where, "may not be specified when `allocated` is not set"))
    elif "deletionTimestamp" in claim["metadata"]:
        known = before.get("reservedFor") or []
        if any(one not in known for one in consumers):
            causes.append(forbidden(where, _NEW_CONSUMERS))
    if allocation is None:
        return causes
    if was is not None:
        return causes + immutable(allocation, was, f"{at}.allocation")
    return causes + _allocation(allocation, f"{at}.allocation", request_names(claim["spec"]))


def _uid(consumer: Object) -> Hashable:
    return str(consumer.get("uid", ""))


def _consumer(consumer: Object, at: str) -> list[Cause]:
    names = ("resource", "name", "uid")
    return [required(f"{at}.{name}") for name in names if not consumer.get(name)]


def _allocation(allocation: Object, at: str, names: Names) -> list[Cause]:
    devices, where = allocation.get("devices") or {}, f"{at}.devices"

    def result(one: Object, here: str) -> list[Cause]:
        return _result(one, here, names)

    def config(one: Object, here: str) -> list[Cause]:
        return _source(one, here) + config_causes(one, here, names)

    causes = each(devices.get("results") or (), f"{where}.results", MOST_RESULTS, result)
    causes += each(devices.get("config") or (), f"{where}.config", 2 * MOST, config)
    selector = allocation.get("nodeSelector")
    if selector is not None:
        causes += node_selector(selector, f"{at}.nodeSelector")
    return causes


def _source(config: Object, at: str) -> list[Cause]:
    source = config.get("source", "")
    if not source:
        return [required(f"{at}.source")]
    return [] if source in SOURCES else [not_supported(f"{at}.source", source, SOURCES)]


def _result(result: Object, at: str, names: Names) -> list[Cause]:
    causes = request_reference(result.get("request", ""), f"{at}.request", names)
    return causes + _device(result, at) + binding_causes(result, at)


def _device(device: Object, at: str) -> list[Cause]:
    causes = driver(device.get("driver", ""), f"{at}.driver")
    causes += pool(device.get("pool", ""), f"{at}.pool")
    causes += label_name(device.get("device", ""), f"{at}.device")
    share = device.get("shareID")
    return causes + (_share(share, f"{at}.shareID") if share is not None else [])


def _share(value: str, at: str) -> list[Cause]:
    if not _UUID.fullmatch(value):
        length = f"invalid UUID length: {len(value)}"
        text = "invalid UUID format" if len(value) == 36 else length
        return [invalid(at, value, f"error validating uid: {text}")]
    return [] if value == value.lower() else [invalid(at, value, _NOT_NORMAL)]


def _device_statuses(status: Object, at: str) -> list[Cause]:
    allocated = set(map(device_id, results_of(status)))

    def check(one: Object, where: str) -> list[Cause]:
        return _device_status(one, where, known=device_id(one) in allocated)

    devices = status.get("devices") or ()
    return distinct(devices, at, len(devices), check, device_id)


def _device_status(device: Object, at: str, *, known: bool) -> list[Cause]:
    causes = _device(device, at)
    if not known:
        text = "must be an allocated device in the claim"
        causes.append(invalid(at, _as_object(device), text))
    conditions = device.get("conditions") or []
    if len(conditions) > MOST_CONDITIONS:
        causes.append(too_many(f"{at}.conditions", len(conditions), MOST_CONDITIONS))
    for index, condition in enumerate(conditions):
        causes += _condition(condition, f"{at}.conditions[{index}]")
    if device.get("data") is not None:
        causes += raw(device["data"], f"{at}.data")
    return causes + _network(device.get("networkData") or {}, f"{at}.networkData")


def _as_object(device: Object) -> Object:
    return {name: device.get(name) for name in ("driver", "pool", "device", "shareID")}


_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?\Z")
_NO_REASON = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. "
    "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex "
    "used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


def _condition(condition: Object, at: str) -> list[Cause]:
    causes = label_key(condition.get("type", ""), f"{at}.type")
    status, reason = condition.get("status", ""), condition.get("reason", "")
    if status not in _STATUSES:
        causes.append(not_supported(f"{at}.status", status, _STATUSES))
    if not condition.get("lastTransitionTime"):
        causes.append(required(f"{at}.lastTransitionTime"))
    if not reason:
        causes.append(required(f"{at}.reason"))
    elif not _REASON.match(reason):
        causes.append(invalid(f"{at}.reason", reason, _NO_REASON))
    return causes


def _network(data: Object, at: str) -> list[Cause]:
    causes = [
        too_long(f"{at}.{name}", most)
        for name, most in (("interfaceName", INTERFACE_BYTES), ("hardwareAddress", HARDWARE_BYTES))
        if len((data.get(name) or "").encode()) > most
    ]
    return causes + distinct(data.get("ips") or (), f"{at}.ips", MOST_ADDRESSES, _address, same)


def _address(value: str, at: str) -> list[Cause]:
    head, _, length = value.partition("/")
    plain = ".".join(part.lstrip("0") or "0" for part in head.split(".")) if "." in head else head
    try:
        address = ipaddress.ip_interface(f"{plain}/{length}")
    except ValueError:
        return [invalid(at, value, _NO_ADDRESS)]
    normal = str(address)
    if not length:
        return [invalid(at, value, _NO_ADDRESS)]
    text = f'must be in canonical form ("{normal}")'
    return [] if value == normal else [invalid(at, value, text)]
