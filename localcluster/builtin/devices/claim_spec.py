"""The spec of a claim, also embedded in templates: its defaults and validation."""

from collections.abc import Mapping
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import invalid, not_supported, required
from localcluster.builtin.devices.fields import (
    distinct,
    each,
    fully_qualified,
    label_key,
    label_name,
    label_value,
    name_of,
    opaque,
    required_subdomain,
    same,
)
from localcluster.builtin.devices.selectors import selector_causes
from localcluster.builtin.pods.pods import canonicalise

Object = dict[str, Any]
Names = Mapping[str, frozenset[str]]
"""The names of requests, each with the names of its subrequests."""

MOST = 32
"""Maximum number of requests, constraints, configurations, selectors and request names."""
MOST_ALTERNATIVES = 8
EFFECTS = ("NoExecute", "NoSchedule", "None")
_ONE_FORM = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_ATTRIBUTE = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are '
    "set"
)
_NO_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)


def default_spec(spec: Object) -> None:
    """Set default modes, counts and operators, and canonicalize quantities."""
    devices = spec.setdefault("devices", {})
    devices["requests"] = devices.get("requests") or None  # null if empty, as upstream
    for request in devices["requests"] or ():
        for one in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if one is not None:
                _default_request(one)


def _default_request(request: Object) -> None:
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1
    for toleration in request.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"
    canonicalise((request.get("capacity") or {}).get("requests"))


def request_names(spec: Object) -> Names:
    """Return the names that constraints, configurations and results may reference."""
    return {
        name_of(request): frozenset(name_of(one) for one in request.get("firstAvailable") or ())
        for request in (spec.get("devices") or {}).get("requests") or ()
    }


def spec_causes(spec: Object, at: str) -> list[Cause]:
    """Return the validation errors of the spec of a claim."""
    devices, at = spec.get("devices") or {}, f"{at}.devices"
    names = request_names(spec)

    def constraint(one: Object, where: str) -> list[Cause]:
        return _constraint(one, where, names)

    def config(one: Object, where: str) -> list[Cause]:
        return config_causes(one, where, names)

    causes = distinct(devices.get("requests") or (), f"{at}.requests", MOST, _request, name_of)
    causes += each(devices.get("constraints") or (), f"{at}.constraints", MOST, constraint)
    return causes + each(devices.get("config") or (), f"{at}.config", MOST, config)


def config_causes(config: Object, at: str, names: Names) -> list[Cause]:
    """Return the validation errors of a configuration."""
    causes = named_requests(config.get("requests") or (), f"{at}.requests", names)
    return causes + opaque(config.get("opaque"), f"{at}.opaque")


def named_requests(references: Any, at: str, names: Names) -> list[Cause]:
    """Return the validation errors of a list of request names."""

    def check(one: str, where: str) -> list[Cause]:
        return request_reference(one, where, names)

    return distinct(references, at, MOST, check, same)


def request_reference(value: str, at: str, names: Names) -> list[Cause]:
    """Return the validation errors of a name that must be that of a request or subrequest."""
    first, *rest = value.split("/")
    if len(rest) > 1:
        return [invalid(at, value, _NO_REQUEST)]
    causes = [cause for part in (first, *rest) for cause in label_name(part, at)]
    if first not in names or any(one not in names[first] for one in rest):
        causes.append(invalid(at, value, _NO_REQUEST))
    return causes


def _request(request: Object, at: str) -> list[Cause]:
    causes = label_name(request.get("name", ""), f"{at}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is not None and alternatives:
        causes.append(invalid(at, None, f"{_ONE_FORM}, but multiple fields are set"))
    elif exactly is not None:
        causes += _wanted(exactly, f"{at}.exactly")
    elif alternatives:
        where = f"{at}.firstAvailable"
        causes += distinct(alternatives, where, MOST_ALTERNATIVES, _alternative, name_of)
    else:
        causes.append(required(at, _ONE_FORM))
    return causes


def _alternative(request: Object, at: str) -> list[Cause]:
    return label_name(request.get("name", ""), f"{at}.name") + _wanted(request, at)


def _wanted(request: Object, at: str) -> list[Cause]:
    causes = required_subdomain(request.get("deviceClassName", ""), f"{at}.deviceClassName")
    causes += each(request.get("selectors") or (), f"{at}.selectors", MOST, selector_causes)
    causes += _count(request, at)
    for index, toleration in enumerate(request.get("tolerations") or ()):
        causes += _toleration(toleration, f"{at}.tolerations[{index}]")
    return causes


def _count(request: Object, at: str) -> list[Cause]:
    mode, count = request["allocationMode"], request.get("count", 0)
    if mode not in {"All", "ExactCount"}:
        return [not_supported(f"{at}.allocationMode", mode, ("All", "ExactCount"))]
    if mode == "All" and count:
        text = "must not be specified when allocationMode is 'All'"
        return [invalid(f"{at}.count", count, text)]
    if mode == "ExactCount" and count <= 0:
        return [invalid(f"{at}.count", count, "must be greater than zero")]
    return []


def _toleration(toleration: Object, at: str) -> list[Cause]:
    key, value = toleration.get("key", ""), toleration.get("value", "")
    operator, effect = toleration["operator"], toleration.get("effect", "")
    causes = label_key(key, f"{at}.key") if key else []
    if operator == "Exists":
        if value:
            causes.append(invalid(f"{at}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        causes += label_value(value, f"{at}.value")
    else:
        causes.append(not_supported(f"{at}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in EFFECTS:
        causes.append(not_supported(f"{at}.effect", effect, EFFECTS))
    return causes


def _constraint(constraint: Object, at: str, names: Names) -> list[Cause]:
    causes = named_requests(constraint.get("requests") or (), f"{at}.requests", names)
    for field in ("matchAttribute", "distinctAttribute"):
        if constraint.get(field) is not None:
            return causes + fully_qualified(constraint[field], f"{at}.{field}")
    return [*causes, required(at, _ONE_ATTRIBUTE)]
