"""Admission of an object for `muster simulate`: its changes, or the reason for its rejection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from analysis.simulate.jobs import place
from analysis.simulate.stored_pods import PodAdmission
from api import inherit, priority
from api.causes import Cause
from api.constants import POD_GROUP
from api.defaults import defaults
from api.integration.common.templates import find_template
from api.reading import dig, text
from api.rules.validation import validate
from kube.base.errors import ConfigError
from kube.client.quantity import QuantityError
from scheduler.core.values.model import SINGLE_POD

Json = dict[str, Any]


class Admission:
    """Admission of groups and pods: the template's values, defaults, priority, rules.

    `pods` is the API server's admission, `workloads` are those in the manifests.
    """

    def __init__(self, pods: PodAdmission, workloads: Iterable[Json]) -> None:
        self._pods = pods
        self._workloads = {_key(obj["metadata"]): obj for obj in workloads}

    def admit(self, obj: Json) -> None:
        """Complete the object in place. Raises ConfigError if it would be rejected."""
        spec = obj.setdefault("spec", {})
        if obj["kind"] == SINGLE_POD:
            try:
                apply(obj, self._pods.store(obj), ())
                place(obj)
            except QuantityError as error:
                raise ConfigError(f"{_name(obj)}: {error}") from error
            return
        if obj["kind"] == POD_GROUP.kind and inherit.is_incomplete(spec):
            spec |= inherit.inherited_values(spec, self._template(obj, spec) or {})
        apply(obj, (), defaults(obj["kind"], obj))
        self.set_priority(obj, spec)
        if obj.get("apiVersion") == POD_GROUP.api_version:
            apply(obj, validate(obj["kind"], obj, None, "CREATE").causes, ())

    def _template(self, obj: Json, spec: Json) -> Mapping[str, Any] | None:
        workload, template = (
            text(dig(spec, "workloadRef", key)) for key in ("workloadName", "templateName")
        )
        found = self._workloads.get((obj["metadata"]["namespace"], workload), {})
        named = find_template(found, template)
        return None if named is None else named.fields

    def set_priority(self, obj: Json, spec: Json) -> None:
        resolved = priority.resolve(spec, self._pods.priority_classes)
        if isinstance(resolved, Cause):
            apply(obj, [resolved], ())
        else:
            apply(obj, (), resolved.operations(spec))


def apply(obj: Json, causes: Iterable[Cause], patch: Iterable[Mapping[str, Any]]) -> None:
    """Apply a webhook's response as an API server does. Raises ConfigError for a rejection."""
    faults = [f"{cause.field}: {cause.message}" for cause in causes]
    if faults:
        raise ConfigError(f"{_name(obj)} would be rejected: {'; '.join(faults)}")
    for operation in patch:
        *way, last = (_unescape(token) for token in operation["path"].split("/")[1:])
        holder: Any = obj
        for token in way:
            holder = holder[_place(holder, token)]
        at = _place(holder, last)
        if operation["op"] == "remove":
            del holder[at]
        elif operation["op"] == "add" and isinstance(holder, list):
            holder.insert(at, operation["value"])
        else:
            holder[at] = operation["value"]


def _key(meta: Json) -> tuple[str, str]:
    return (meta.get("namespace", ""), meta.get("name", ""))


def _name(obj: Json) -> str:
    return f"{obj['kind']} {obj['metadata'].get('name')}"


def _place(holder: Any, name: str) -> Any:
    """Return the key or index that a name of a path means."""
    if not isinstance(holder, list):
        return name
    return len(holder) if name == "-" else int(name)


def _unescape(token: str) -> str:
    # In this order (RFC 6901): otherwise `~01` would become `/`.
    return token.replace("~1", "/").replace("~0", "~")
