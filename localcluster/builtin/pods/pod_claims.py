"""Validation of the resource claims of pods and their containers."""

from collections.abc import Iterable
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import duplicate, invalid, not_found, required
from localcluster.base.meta import label_problem, subdomain_problem

Object = dict[str, Any]

_ONE_OF = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
_AT_MOST = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def entry_names(spec: Object) -> list[str]:
    """Return the names by which a pod's containers may use claims."""
    return [one["name"] for one in spec.get("resourceClaims") or () if one.get("name")]


def entry_causes(entries: Iterable[Object], at: str) -> list[Cause]:
    """Return the validation errors of a pod's resource claims."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        where, name = f"{at}[{index}]", entry.get("name", "")
        if not name:
            causes.append(required(f"{where}.name"))
        elif name in seen:
            causes.append(duplicate(f"{where}.name", name))
        elif problem := label_problem(name):
            causes.append(invalid(f"{where}.name", name, problem))
        seen.add(name)
        causes += _source_causes(entry, where)
    return causes


def _source_causes(entry: Object, at: str) -> list[Cause]:
    said = [name for name in _SOURCES if entry.get(name) is not None]
    causes = [] if len(said) == 1 else [invalid(at, entry, _AT_MOST if said else _ONE_OF)]
    return causes + [
        invalid(f"{at}.{name}", entry[name], problem)
        for name in said
        if (problem := subdomain_problem(entry[name]))
    ]


def use_causes(uses: Iterable[Object], at: str, entries: list[str]) -> list[Cause]:
    """Return the validation errors of the claims that a container uses."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, use in enumerate(uses):
        where, name, request = f"{at}[{index}]", use.get("name", ""), use.get("request", "")
        if not name:
            causes.append(required(where))
            continue
        causes += _overlap_causes(where, name, request, seen)
        if name not in entries:
            listed = f": {', '.join(sorted(entries))}" if entries else " which is empty"
            text = f"must be one of the names in pod.spec.resourceClaims{listed}"
            causes.append(not_found(where, name, text))
    return causes


def _overlap_causes(at: str, name: str, request: str, seen: set[str]) -> list[Cause]:
    """Return errors if a claim is used twice, or both as one and by request."""
    if name in seen:
        return [duplicate(at, name)]
    causes: list[Cause] = []
    key = f"{name}/{request}" if request else name
    if request and (problem := label_problem(request)):
        causes.append(invalid(f"{at}.request", request, problem))
    if key in seen:
        causes.append(duplicate(at, key))
    elif not request:
        causes += [duplicate(at, name) for one in seen if one.startswith(f"{name}/")]
    seen.add(key)
    return causes


def status_causes(statuses: Iterable[Object], entries: list[str], at: str) -> list[Cause]:
    """Return the validation errors of the statuses of claims created for a pod."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, status in enumerate(statuses):
        where, name = f"{at}[{index}]", status.get("name", "")
        if name not in entries:
            text = "must match the name of an entry in `spec.resourceClaims`"
            causes.append(invalid(f"{where}.name", name, text))
        if name in seen:
            causes.append(duplicate(f"{where}.name", name))
        seen.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None and (problem := subdomain_problem(claim)):
            causes.append(invalid(f"{where}.resourceClaimName", claim, problem))
    return causes


def extended_causes(status: Object, spec: Object, at: str) -> list[Cause]:
    """Return the errors of the claim that backs a pod's extended resources."""
    uses, causes = status.get("requestMappings") or [], list[Cause]()
    if not uses:
        text = "at least one request mapping is required"
        causes.append(required(f"{at}.requestMappings", text))
    containers = {
        one["name"]: (one.get("resources") or {}).get("requests") or {}
        for one in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    }
    lists = "spec.initContainers.{0} or spec.containers.{0}"
    for index, use in enumerate(uses):
        where = f"{at}.requestMappings[{index}]"
        container, resource = use.get("containerName", ""), use.get("resourceName", "")
        if container not in containers:
            text = f"must match the name of an entry in {lists.format('name')}"
            causes.append(invalid(f"{where}.containerName", container, text))
        elif resource not in containers[container]:
            entries = lists.format("resources.requests")
            text = f"must match the extended resource name of an entry in {entries}"
            causes.append(invalid(f"{where}.resourceName", resource, text))
        if problem := label_problem(use.get("requestName", "")):
            causes.append(invalid(f"{at}.requestName", use.get("requestName", ""), problem))
        if use in uses[:index]:
            causes += [
                duplicate(f"{where}.{name}", use[name])
                for name in ("containerName", "resourceName", "requestName")
            ]
    claim = status.get("resourceClaimName", "")
    if not claim:
        causes.append(required(f"{at}.resourceClaimName"))
    elif problem := subdomain_problem(claim):
        causes.append(invalid(f"{at}.resourceClaimName", claim, problem))
    return causes
