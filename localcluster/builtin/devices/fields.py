"""Validation that the device kinds share: names, lists, node selectors, opaque data."""

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import msgspec

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import (
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
)
from localcluster.base.meta import (
    label_problem,
    label_value_problem,
    qualified_name_problem,
    subdomain_problem,
)

Object = dict[str, Any]
Check = Callable[[Any, str], list[Cause]]

DRIVER_BYTES = 63
POOL_BYTES = 253
ID_BYTES = 32
OPAQUE_BYTES = 10 * 1024
IMMUTABLE = "field is immutable"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NO_IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for "
    "validation is '[A-Za-z_][A-Za-z0-9_]*')"
)


def problem_causes(value: str, at: str, problem: str | None) -> list[Cause]:
    """Return the problem as a list of one cause, or an empty list."""
    return [invalid(at, value, problem)] if problem else []


def label_name(value: str, at: str) -> list[Cause]:
    """Return the errors of a value that must be a DNS label."""
    return problem_causes(value, at, label_problem(value))


def subdomain(value: str, at: str) -> list[Cause]:
    """Return the errors of a value that must be a DNS subdomain."""
    return problem_causes(value, at, subdomain_problem(value))


def required_subdomain(value: str, at: str) -> list[Cause]:
    """Return the errors of a required value that must be a DNS subdomain."""
    return subdomain(value, at) if value else [required(at)]


def label_key(value: str, at: str) -> list[Cause]:
    """Return the errors of a value that must be a label key."""
    causes = problem_causes(value, at, qualified_name_problem(value))
    if not value:  # the API server reports the pattern's error too
        causes += problem_causes(value, at, qualified_name_problem("-"))
    return causes


def label_value(value: str, at: str) -> list[Cause]:
    """Return the errors of a value that must be a label value."""
    return problem_causes(value, at, label_value_problem(value))


def driver(value: str, at: str) -> list[Cause]:
    """Return the errors of a driver's name."""
    if not value:
        return [required(at)]
    causes = [too_long(at, DRIVER_BYTES)] if len(value) > DRIVER_BYTES else []
    return causes + problem_causes(value, at, subdomain_problem(value.lower()))


def pool(value: str, at: str) -> list[Cause]:
    """Return the errors of a pool's name: subdomains separated by slashes."""
    if not value:
        return [required(at)]
    causes = [too_long(at, POOL_BYTES)] if len(value) > POOL_BYTES else []
    return causes + [cause for part in value.split("/") for cause in subdomain(part, at)]


def identifier(value: str, at: str) -> list[Cause]:
    """Return the errors of the name of an attribute or a capacity within its domain."""
    causes = [too_long(at, ID_BYTES)] if len(value) > ID_BYTES else []
    return causes + ([] if _IDENTIFIER.match(value) else [invalid(at, value, _NO_IDENTIFIER)])


def qualified(value: str, at: str) -> list[Cause]:
    """Return the errors of the name of an attribute or a capacity."""
    parts = value.split("/")
    if len(parts) == 1:
        return identifier(value, at)
    if len(parts) > 2:
        return []
    domain, name = parts
    causes = driver(domain, at) if domain else [invalid(at, "", "the domain must not be empty")]
    return causes + (
        identifier(name, at) if name else [invalid(at, "", "the name must not be empty")]
    )


def fully_qualified(value: str, at: str) -> list[Cause]:
    """Return the errors of an attribute's name, which must include its domain."""
    causes = qualified(value, at)
    if "/" not in value:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        causes.append(invalid(at, value, text))
    return causes


def each(items: Iterable[Any], at: str, most: int, check: Check) -> list[Cause]:
    """Return the errors of the items of a list, or a single error if the list is too long."""
    found = list(items)
    if len(found) > most:
        return [too_many(at, len(found), most)]
    return [cause for index, one in enumerate(found) for cause in check(one, f"{at}[{index}]")]


def distinct(
    items: Iterable[Any], at: str, most: int, check: Check, key: Callable[[Any], Hashable]
) -> list[Cause]:
    """Return the errors of a list like `each`, and one for each duplicate key."""
    found = list(items)
    causes = each(found, at, most, check)
    if len(found) > most:
        return causes
    seen: set[Hashable] = set()
    for index, one in enumerate(found):
        if key(one) in seen:
            causes.append(duplicate(f"{at}[{index}]", key(one)))
        seen.add(key(one))
    return causes


def same(value: Any) -> Any:
    """Return the item itself as its key."""
    return value


def name_of(value: Object) -> str:
    """Return the name as the key of an item."""
    return str(value.get("name", ""))


def immutable(new: Any, old: Any, at: str) -> list[Cause]:
    """Return the error for a changed value, if it changed."""
    return [] if new == old else [invalid(at, new, IMMUTABLE)]


def opaque(value: Object | None, at: str) -> list[Cause]:
    """Return the validation errors of a driver's opaque parameters."""
    if value is None:
        return [required(at)]
    causes = driver(value.get("driver", ""), f"{at}.driver")
    return causes + raw(value.get("parameters"), f"{at}.parameters")


def raw(value: Any, at: str) -> list[Cause]:
    """Return the validation errors of data that only a driver interprets."""
    if value is None:
        return [required(at)]
    return [too_long(at, OPAQUE_BYTES)] if len(msgspec.json.encode(value)) > OPAQUE_BYTES else []


def node_name(value: str, at: str) -> list[Cause]:
    """Return the errors of a node's name."""
    return subdomain(value, at)


_WITH_VALUES = ("In", "NotIn")
_WITHOUT = ("Exists", "DoesNotExist")
_BAD_OPERATOR = "not a valid selector operator"


def node_selector(value: Object, at: str) -> list[Cause]:
    """Return the validation errors of a node selector."""
    terms, where = value.get("nodeSelectorTerms") or [], f"{at}.nodeSelectorTerms"
    if not terms:
        return [required(where, "must have at least one node selector term")]
    causes: list[Cause] = []
    for index, term in enumerate(terms):
        for number, one in enumerate(term.get("matchExpressions") or ()):
            causes += _expression(one, f"{where}[{index}].matchExpressions[{number}]")
        for number, one in enumerate(term.get("matchFields") or ()):
            causes += _field(one, f"{where}[{index}].matchFields[{number}]")
    return causes


def _expression(one: Object, at: str) -> list[Cause]:
    operator, values = one.get("operator", ""), one.get("values") or []
    causes: list[Cause] = []
    if operator in _WITH_VALUES:
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            causes.append(required(f"{at}.values", text))
    elif operator in _WITHOUT:
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden(f"{at}.values", text))
    elif operator in {"Gt", "Lt"}:
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(required(f"{at}.values", text))
    else:
        causes.append(invalid(f"{at}.operator", operator, _BAD_OPERATOR))
    causes += label_key(one.get("key", ""), f"{at}.key")
    return causes


def _field(one: Object, at: str) -> list[Cause]:
    operator, values = one.get("operator", ""), one.get("values") or []
    causes: list[Cause] = []
    if operator not in _WITH_VALUES:
        causes.append(invalid(f"{at}.operator", operator, _BAD_OPERATOR))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(required(f"{at}.values", text))
    if one.get("key") != "metadata.name":
        causes.append(invalid(f"{at}.key", one.get("key", ""), "not a valid field selector key"))
        return causes
    for index, value in enumerate(values):
        causes += node_name(value, f"{at}.values[{index}]")
    return causes
