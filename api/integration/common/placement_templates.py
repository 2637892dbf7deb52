"""The template of an expected pod: the part of a pod template that decides where its pods may run.

The API server sets some defaults in pods and not in templates. They are set here, so that the pod
requests the same as the expected one.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from api.constants import MAX_EXPECTED_TEMPLATE
from api.pod_defaults import CONTAINERS, with_defaults
from api.reading import labels_of, listing, mapping, mappings

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
"""Volume sources that any node can provide."""


def placement_template(pod_template: Mapping[str, Any], labels: Mapping[str, str]) -> Json:
    """Return the pruned template; `labels` are those that its owner adds to the pods."""
    spec = with_defaults(mapping(pod_template.get("spec")))
    made: Json = {key: spec[key] for key in _COPIED if spec.get(key)}
    for key in CONTAINERS:
        containers = [_container(it) for it in mappings(spec, key)]
        if containers:
            made[key] = containers
    requests = mapping(spec.get("resources")).get("requests")
    if requests:
        made["resources"] = {"requests": requests}
    volumes = [it for it in mappings(spec, "volumes") if not _ANYWHERE & it.keys()]
    if volumes:
        made["volumes"] = volumes
    said = {**labels_of(pod_template), **labels}
    return ({"metadata": {"labels": said}} if said else {}) | {"spec": made}


def encoded(template: Json) -> str:
    """Return the template as JSON, equal for equal templates."""
    try:
        return json.dumps(template, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    except RecursionError:
        # Nested too deeply for the encoder. Any text over the limit leads to a rejection.
        return " " * (MAX_EXPECTED_TEMPLATE + 1)


def encoded_size(template: Json) -> int:
    """Return the size as JSON in bytes."""
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
    ports = [_host_port(it) for it in mappings(container, "ports")]
    if any(ports):
        made["ports"] = [it for it in ports if it]
    return made


def _host_port(port: Mapping[str, Any]) -> Json:
    """Return the used fields of a port; none if it does not use a host port."""
    if not port.get("hostPort"):
        return {}
    kept = {key: port[key] for key in ("hostIP", "protocol") if port.get(key)}
    return kept | {"containerPort": port.get("containerPort"), "hostPort": port["hostPort"]}
