"""Label and field selectors, parsed once and then matched many times."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from localcluster.base.errors import bad_request
from localcluster.base.resources import ResourceInfo

_WORD = r"[^\s=!<>,()]+"
_SET = re.compile(rf"\s*({_WORD})\s+(in|notin)\s*\(([^()]*)\)\s*$")
_COMPARE = re.compile(rf"\s*({_WORD})\s*(==|=|!=|>|<)\s*([^\s=!<>,()]*)\s*$")
_EXISTS = re.compile(rf"\s*(!?)\s*({_WORD})\s*$")
_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if labels meet the condition.

        NotIn and DoesNotExist match an absent key too.
        """
        present = self.key in labels
        match self.operator:
            case "In":
                return present and labels[self.key] in self.values
            case "NotIn":
                return not present or labels[self.key] not in self.values
            case "Exists":
                return present
            case "DoesNotExist":
                return not present
            case _:
                return present and self._compare(labels[self.key])

    def _compare(self, value: str) -> bool:
        try:
            left, right = int(value), int(self.values[0])
        except ValueError:
            return False
        return left > right if self.operator == "Gt" else left < right


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A label selector: all of its requirements must match; without any it selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return True if the selector matches an object with these labels."""
        have = labels or {}
        return all(requirement.matches(have) for requirement in self.requirements)


_OPERATORS = {
    "=": "In",
    "==": "In",
    "!=": "NotIn",
    ">": "Gt",
    "<": "Lt",
    "in": "In",
    "notin": "NotIn",
}


def _requirement(text: str) -> Requirement:
    if found := _SET.match(text):
        values = tuple(value.strip() for value in found[3].split(","))
        return Requirement(found[1], _OPERATORS[found[2]], values)
    if found := _COMPARE.match(text):
        return Requirement(found[1], _OPERATORS[found[2]], (found[3],))
    if found := _EXISTS.match(text):
        return Requirement(found[2], "DoesNotExist" if found[1] else "Exists")
    raise bad_request(f"unable to parse requirement: {text.strip()!r} is not a label requirement")


@lru_cache(maxsize=512)
def parse_labels(text: str) -> LabelSelector:
    """Parse a label selector of a URL. Raises StatusError 400."""
    if not text.strip():
        return LabelSelector()
    return LabelSelector(tuple(_requirement(part) for part in _OUTSIDE_PARENTHESES.split(text)))


def from_object(selector: Mapping[str, Any]) -> LabelSelector:
    """Convert a metav1.LabelSelector: matchLabels and matchExpressions."""
    labels = (selector.get("matchLabels") or {}).items()
    requirements = [Requirement(key, "In", (value,)) for key, value in labels]
    for expression in selector.get("matchExpressions") or ():
        values = tuple(expression.get("values") or ())
        requirements.append(Requirement(expression["key"], expression["operator"], values))
    return LabelSelector(tuple(requirements))


Getter = Callable[[Mapping[str, Any]], str]


def _at(path: str, default: str = "") -> Getter:
    parts = path.split(".")

    def get(obj: Mapping[str, Any]) -> str:
        value: Any = obj
        for part in parts:
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            return default
        return str(value).lower() if isinstance(value, bool) else str(value)

    return get


def _event_source(obj: Mapping[str, Any]) -> str:
    return _at("source.component")(obj) or _at("reportingComponent")(obj)


_ANY: dict[str, Getter] = {
    "metadata.name": _at("metadata.name"),
    "metadata.namespace": _at("metadata.namespace"),
}
_REGARDING = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_BUILT_IN: dict[tuple[str, str], dict[str, Getter]] = {
    ("", "pods"): {
        **{
            path: _at(path)
            for path in (
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            )
        },
        "spec.hostNetwork": _at("spec.hostNetwork", "false"),
    },
    ("", "nodes"): {"spec.unschedulable": _at("spec.unschedulable", "false")},
    ("", "namespaces"): {"status.phase": _at("status.phase")},
    ("", "secrets"): {"type": _at("type")},
    ("", "events"): {
        **{f"involvedObject.{name}": _at(f"involvedObject.{name}") for name in _REGARDING},
        "reason": _at("reason"),
        "reportingComponent": _at("reportingComponent"),
        "source": _event_source,
        "type": _at("type"),
    },
    ("resource.k8s.io", "resourceslices"): {
        "spec.nodeName": _at("spec.nodeName"),
        "spec.driver": _at("spec.driver"),
    },
    ("batch", "jobs"): {"status.successful": _at("status.succeeded", "0")},
}


# These kinds include their name in the error about an unsupported field.
_TOLD_WITH_KIND = {("resource.k8s.io", "resourceslices")}


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms of a field's getter, a value, and whether the two must be equal or differ."""

    terms: tuple[tuple[Getter, str, bool], ...] = ()
    name: str | None = None

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Return True if the selector matches the object."""
        return all((get(obj) == value) is equal for get, value, equal in self.terms)


def parse_fields(info: ResourceInfo, text: str) -> FieldSelector:
    """Parse a field selector of a URL. Raises StatusError 400."""
    terms: list[tuple[Getter, str, bool]] = []
    exact_name: str | None = None
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, equal, value = _field_term(part)
        terms.append((_getter(info, key), value, equal))
        if key == "metadata.name" and equal:
            exact_name = value
    return FieldSelector(tuple(terms), exact_name)


def _field_term(part: str) -> tuple[str, bool, str]:
    for operator, equal in (("!=", False), ("==", True), ("=", True)):
        key, found, value = part.partition(operator)
        if found:
            return key.strip(), equal, value.strip()
    raise bad_request(f"invalid selector: {part!r}; can't understand {part!r}")


def _getter(info: ResourceInfo, key: str) -> Getter:
    known = _ANY.get(key) or _BUILT_IN.get(info.collection, {}).get(key)
    if known is None and key in info.selectable_fields:
        known = _at(key)
    if known is None:
        told = info.collection in _TOLD_WITH_KIND
        kind = f" for {info.api_version}, Kind={info.kind}" if told else ""
        raise bad_request(f"field label not supported{kind}: {key}")
    return known
