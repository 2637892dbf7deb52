"""Capacity requests for complete gangs: Cluster Autoscaler's ProvisioningRequest.

A request has the name of its root, so that pods can state from their creation which request stands
for them. Cluster Autoscaler excludes such pods from its usual scale-up, and adds nodes for the
PodTemplates of the request. A template has only fields that decide where a pod fits: no
environment, no commands, no secrets.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from api import names
from api.constants import (
    ANNOTATION_ATTEMPT,
    ANNOTATION_CONSUMES_REQUEST,
    ANNOTATION_PROVISIONING_CLASS,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
)
from api.ownership import Owner
from api.reading import dig, labels_of, listing, mapping, mappings, text

Json = dict[str, Any]

CHECK_CAPACITY: Final = "check-capacity"
BEST_EFFORT_ATOMIC: Final = "best-effort-atomic-scale-up"
CLASSES: Final = (CHECK_CAPACITY, BEST_EFFORT_ATOMIC)
"""The values of the annotation `provisioning-request`."""

MOST_POD_SETS: Final = 32
"""PodTemplates of one request, the limit of the CRD."""

_SUFFIX: Final = ".autoscaling.x-k8s.io"
_OF_POD: Final = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "runtimeClassName",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
)
_OF_CONTAINER: Final = ("name", "image", "resources", "restartPolicy")
# The claims of generic ephemeral volumes are named after their pod, which no template can express.
_VOLUMES: Final = (
    "persistentVolumeClaim",
    "awsElasticBlockStore",
    "azureDisk",
    "gcePersistentDisk",
    "iscsi",
    "rbd",
)
_LABEL_KEYS: Final = ("matchLabelKeys", "mismatchLabelKeys")


@dataclass(frozen=True, slots=True)
class Root(Owner):
    """The root group of a request; `request` is the request's name, by which pods know it."""

    request: str


def class_name(asked: str) -> str:
    """Return the provisioning class for a value of the annotation; empty for others."""
    return f"{asked}{_SUFFIX}" if asked in CLASSES else ""


def consumed(root: str, asked: str) -> dict[str, str]:
    """Return the annotations of pods for which the request of a root (its name) stands."""
    return {ANNOTATION_CONSUMES_REQUEST: root, ANNOTATION_PROVISIONING_CLASS: class_name(asked)}


def pod_template(pod: Mapping[str, Any]) -> Json:
    """Return metadata and spec of a template: the fields that decide where a pod fits.

    The pod is raw JSON of any structure. Pods of one Job have one template, whatever their names,
    indexes and tokens are.
    """
    spec = mapping(pod.get("spec"))
    kept: Json = {key: spec[key] for key in _OF_POD if spec.get(key) not in (None, {}, [])}
    own_network = spec.get("hostNetwork") is True
    for key in ("initContainers", "containers"):
        found = [_container(it, own_network) for it in mappings(spec, key)]
        if found:
            kept[key] = found
    volumes = [_volume(it) for it in mappings(spec, "volumes")]
    if any(volumes):
        kept["volumes"] = [it for it in volumes if it]
    terms = list(_terms(spec))
    kept = _without_merged_keys(kept, terms)
    said = labels_of(pod)
    # Other labels differ between the pods of a Job, and would need a template for each.
    labels = {key: said[key] for key in sorted(_selected_keys(terms)) if key in said}
    return {"metadata": {"labels": labels}, "spec": kept}


def shape_of(pod: Mapping[str, Any]) -> bytes:
    """Return a digest of 16 bytes, equal for pods that one PodTemplate describes."""
    written = json.dumps(pod_template(pod), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).digest()[:16]


def pod_sets(root: Root, shapes: Mapping[bytes, int]) -> dict[str, int]:
    """Return the name of the PodTemplate for each shape, and the number of its waiting pods."""
    return {template_name(root, shape): count for shape, count in shapes.items() if count > 0}


def template_name(root: Root, shape: bytes) -> str:
    """Return the PodTemplate of one shape, different for each root and each content."""
    return names.pod_template(root.name, f"{root.uid}/{shape.hex()}")


def template_object(root: Root, name: str, template: Mapping[str, Any]) -> Json:
    """Return the PodTemplate with the content from `pod_template`."""
    return root.generated(POD_TEMPLATE, name) | {"template": dict(template)}


def request_object(root: Root, asked: str, wanted: Mapping[str, int], attempt: int) -> Json:
    """Return the request for these PodTemplates; `attempt` counts requests for the same from 1."""
    made = root.generated(PROVISIONING_REQUEST, root.request)
    made["metadata"]["annotations"][ANNOTATION_ATTEMPT] = str(attempt)
    sets = [
        {"podTemplateRef": {"name": name}, "count": count} for name, count in sorted(wanted.items())
    ]
    return made | {"spec": {"provisioningClassName": class_name(asked), "podSets": sets}}


def _container(container: Mapping[str, Any], own_network: bool) -> Json:
    kept = {key: container[key] for key in _OF_CONTAINER if container.get(key) is not None}
    ports = mappings(container, "ports")
    taken = [dict(it) for it in ports if it.get("hostPort") or own_network]
    return kept | ({"ports": taken} if taken else {})


def _volume(volume: Mapping[str, Any]) -> Json:
    source = next((key for key in _VOLUMES if volume.get(key) is not None), None)
    return {} if source is None else {"name": volume.get("name"), source: volume[source]}


def _terms(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all terms of a pod spec that select pods by labels."""
    yield from mappings(spec, "topologySpreadConstraints")
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = mapping(dig(spec, "affinity", kind))
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        yield from mappings(affinity, required)
        preferred = listing(affinity.get("preferredDuringSchedulingIgnoredDuringExecution"))
        yield from (mapping(mapping(it).get("podAffinityTerm")) for it in preferred)


def _selected_keys(terms: list[Mapping[str, Any]]) -> set[str]:
    """Return the labels in the pod's own terms, the only ones that affect where it fits."""
    found: set[str] = set()
    for term in terms:
        found |= _keys_of_selector(term)
        for field in _LABEL_KEYS:
            found.update(filter(None, map(text, listing(term.get(field)))))
    return found


def _keys_of_selector(term: Mapping[str, Any]) -> set[str]:
    selector = mapping(term.get("labelSelector"))
    expressions = mappings(selector, "matchExpressions")
    return {*mapping(selector.get("matchLabels")), *(text(it.get("key")) for it in expressions)}


def _without_merged_keys(spec: Json, terms: list[Mapping[str, Any]]) -> Json:
    """Return the spec without matchLabelKeys that the API server merged into the selectors."""
    # A pod may have them in both places, but the API server rejects a template that does.
    if not any(term.get(field) for term in terms for field in _LABEL_KEYS):
        return spec
    copy: Json = json.loads(json.dumps(spec))
    for term in _terms(copy):
        assert isinstance(term, dict)
        merged = _keys_of_selector(term)
        for field in _LABEL_KEYS:
            left = [key for key in listing(term.get(field)) if key not in merged]
            if left:
                term[field] = left
            else:
                term.pop(field, None)
    return copy
