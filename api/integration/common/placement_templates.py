"""What of a pod template decides where its pods may run: the template of an expected pod.

The API server defaults some fields of pods and not of templates; they are defaulted here, so that a
pod that comes asks for the same as the one that was expected.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from api.constants import MAX_EXPECTED_TEMPLATE
from api.pod_defaults import CONTAINERS, with_defaults
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
    spec = with_defaults(mapping(pod_template.get("spec")))
    made: Json = {key: spec[key] for key in _COPIED if spec.get(key)}
    for key in CONTAINERS:
        containers = [_container(it) for it in map(mapping, listing(spec.get(key)))]
        if containers:
            made[key] = containers
    requests = mapping(spec.get("resources")).get("requests")
    if requests:
        made["resources"] = {"requests": requests}
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


def _container(container: Mapping[str, Any]) -> Json:
    made: Json = {key: container[key] for key in ("name", "restartPolicy") if container.get(key)}
    resources = mapping(container.get("resources"))
    asked = {
        "requests": mapping(resources.get("requests")),
        "claims": listing(resources.get("claims")),
    }
    if any(asked.values()):
        made["resources"] = {key: value for key, value in asked.items() if value}
    ports = [_host_port(it) for it in map(mapping, listing(container.get("ports")))]
    if any(ports):
        made["ports"] = [it for it in ports if it]
    return made


def _host_port(port: Mapping[str, Any]) -> Json:
    """What counts of a port; nothing of one that takes none of the host."""
    if not port.get("hostPort"):
        return {}
    kept = {key: port[key] for key in ("hostIP", "protocol") if port.get(key)}
    return kept | {"containerPort": port.get("containerPort"), "hostPort": port["hostPort"]}
