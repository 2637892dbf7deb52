"""What of a pod template decides where its pods may run: the template of an expected pod.

The API server defaults some fields of pods and not of templates; they are defaulted here, so that a
pod that comes asks for the same as the one that was expected.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from api.constants import MAX_EXPECTED_TEMPLATE
from api.reading import labels_of, listing, mapping

Json = dict[str, Any]

_COPIED: Final = (
    "schedulerName",
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)

_ANYWHERE: Final = frozenset(
    {"configMap", "downwardAPI", "emptyDir", "hostPath", "image", "nfs", "projected", "secret"}
)
"""Sources of volumes that each node can have."""


def placement_template(pod_template: Mapping[str, Any], labels: Mapping[str, str]) -> Json:
    """The pruned template; `labels` are those that its owner adds to the pods."""
    spec = mapping(pod_template.get("spec"))
    made: Json = {key: spec[key] for key in _COPIED if spec.get(key)}
    on_host = spec.get("hostNetwork") is True
    for key in ("containers", "initContainers"):
        containers = [_container(it, on_host) for it in map(mapping, listing(spec.get(key)))]
        if containers:
            made[key] = containers
    resources = _of_pod(mapping(spec.get("resources")), listing(spec.get("containers")))
    if resources:
        made["resources"] = resources
    volumes = [it for it in map(mapping, listing(spec.get("volumes"))) if not _ANYWHERE & it.keys()]
    if volumes:
        made["volumes"] = volumes
    said = {**labels_of(pod_template), **labels}
    return ({"metadata": {"labels": said}} if said else {}) | {"spec": made}


def encoded(template: Json) -> str:
    """As JSON, equal for equal templates; one nested too deep for that is too large."""
    try:
        return json.dumps(template, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    except RecursionError:
        return " " * (MAX_EXPECTED_TEMPLATE + 1)


def encoded_size(template: Json) -> int:
    """Bytes as JSON."""
    return len(encoded(template).encode(errors="surrogatepass"))


def _container(container: Mapping[str, Any], on_host: bool) -> Json:
    made: Json = {key: container[key] for key in ("name", "restartPolicy") if container.get(key)}
    resources = mapping(container.get("resources"))
    asked = {**mapping(resources.get("limits")), **mapping(resources.get("requests"))}
    said = {"requests": asked, "claims": listing(resources.get("claims"))}
    if any(said.values()):
        made["resources"] = {key: value for key, value in said.items() if value}
    ports = list(_host_ports(container, on_host))
    if ports:
        made["ports"] = ports
    return made


def _host_ports(container: Mapping[str, Any], on_host: bool) -> Iterator[Json]:
    for port in map(mapping, listing(container.get("ports"))):
        number = port.get("hostPort") or (on_host and port.get("containerPort"))
        if number:
            kept = {key: port[key] for key in ("hostIP", "protocol") if port.get(key)}
            yield kept | {"containerPort": port.get("containerPort"), "hostPort": number}


def _of_pod(resources: Mapping[str, Any], containers: list[Any]) -> Json:
    """Requests of the whole pod: a limit is one where neither pod nor containers have another."""
    asked = dict(mapping(resources.get("requests")))
    inside = {
        key
        for each in map(mapping, containers)
        for said in ("requests", "limits")
        for key in mapping(mapping(each.get("resources")).get(said))
    }
    limits = mapping(resources.get("limits"))
    asked |= {key: it for key, it in limits.items() if key not in asked and key not in inside}
    return {"requests": asked} if asked else {}
