"""Defaults of the API server in pods, but not in pod templates, that decide where pods may run.

They follow `SetDefaults_Pod` of Kubernetes: requests from limits, and host ports on the host's
network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from api.reading import listing, mapping, mappings

Json = dict[str, Any]

CONTAINERS: Final = ("containers", "initContainers")


def with_defaults(spec: Mapping[str, Any]) -> Json:
    """Return a copy of a pod's spec with the defaults."""
    made = dict(spec)
    on_host = spec.get("hostNetwork") is True
    for key in CONTAINERS:
        if isinstance(spec.get(key), list):
            made[key] = [_container(it, on_host) for it in spec[key]]
    containers = [it for key in CONTAINERS for it in listing(spec.get(key))]
    resources = _of_pod(mapping(spec.get("resources")), containers)
    return made | ({"resources": resources} if resources else {})


def _container(container: Any, on_host: bool) -> Any:
    """Return a container with the defaults; return other values for others to reject."""
    if not isinstance(container, Mapping):
        return container
    made = dict(container)
    resources = mapping(container.get("resources"))
    requests = {**mapping(resources.get("limits")), **mapping(resources.get("requests"))}
    if requests:
        made["resources"] = {**resources, "requests": requests}
    if on_host and container.get("ports"):
        made["ports"] = list(_on_host(container))
    return made


def _on_host(container: Mapping[str, Any]) -> Iterator[Json]:
    for port in mappings(container, "ports"):
        number = port.get("hostPort") or port.get("containerPort")
        yield {**port, "hostPort": number} if number else dict(port)


def _of_pod(resources: Mapping[str, Any], containers: list[Any]) -> Json:
    """Return the pod-level resources; a limit becomes a request if nothing else states one."""
    inside = {
        key
        for each in map(mapping, containers)
        for said in ("requests", "limits")
        for key in mapping(mapping(each.get("resources")).get(said))
    }
    limits = mapping(resources.get("limits"))
    missing = {key: it for key, it in limits.items() if key not in inside}
    requests = missing | dict(mapping(resources.get("requests")))
    return {**resources, "requests": requests} if requests else {}
