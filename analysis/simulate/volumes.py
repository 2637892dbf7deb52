"""Claims, volumes and StorageClasses of the files in a simulation, and the claims of StatefulSets.

A claim gets the default StorageClass as from the API server. If its class provisions volumes
immediately, it counts as bound to a volume that all nodes can use: where it will be is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec

from api.reading import annotations_of, dig, listing, mapping, text
from kube.base.errors import ConfigError
from kube.client.quantity import QuantityError
from kube.client.resources import PVCS, PVS, STORAGE_CLASSES
from scheduler.core.framework.events import Event
from scheduler.core.state.state import State
from scheduler.core.values.model import VolumeInfo
from scheduler.decoding.volume_decode import claim_info, class_info, volume_info
from scheduler.decoding.volume_objects import decode_claim, decode_class, decode_volume

Json = dict[str, Any]

VOLUME_KINDS: Final = {it.kind: it for it in (STORAGE_CLASSES, PVS, PVCS)}
"""The kinds, in the order in which they are added."""

_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"


def default_class(classes: Iterable[Json]) -> str:
    """Return the StorageClass of claims that name none: the newest default; empty without one."""
    defaults = [it for it in classes if annotations_of(it).get(_DEFAULT) == "true"]
    newest = max(
        defaults, key=lambda it: text(dig(it, "metadata", "creationTimestamp")), default={}
    )
    return text(dig(newest, "metadata", "name"))


def add_volumes(state: State, objects: Iterable[Json], default: str) -> list[str]:
    """Add the new ones among the objects; return notes. Raises ConfigError."""
    found = [obj for obj in objects if obj["kind"] in VOLUME_KINDS]
    default = default_class(obj for obj in found if obj["kind"] == STORAGE_CLASSES.kind) or default
    notes: list[str] = []
    for obj in sorted(found, key=lambda it: [*VOLUME_KINDS].index(it["kind"])):
        try:
            notes += _add(state, obj, default)
        except (msgspec.DecodeError, QuantityError) as error:
            name = mapping(obj.get("metadata")).get("name")
            raise ConfigError(f"{obj['kind']} {name}: {error}") from error
    if found:
        state.happened(Event.VOLUME)
    return notes


def _add(state: State, obj: Json, default: str) -> Iterator[str]:
    volumes, data = state.own_volumes, msgspec.json.encode(obj)
    if obj["kind"] == STORAGE_CLASSES.kind:
        volumes.set_class(class_info(decode_class(data)))
    elif obj["kind"] == PVS.kind:
        # A file has no phase: the PV controller would set it to Available.
        volumes.set_volume(replace(volume_info(decode_volume(data)), available=True))
    else:
        claim = claim_info(decode_claim(data))
        # A claim that exists in the cluster keeps its volume.
        if claim.key in volumes.claims:
            return
        named = "storageClassName" in mapping(obj.get("spec"))
        claim = claim if named else replace(claim, storage_class=default)
        found = volumes.classes.get(claim.storage_class)
        if found is not None and not found.waits and not claim.requested_volume:
            name = f"simulated-{'-'.join(claim.key)}"
            volumes.set_volume(VolumeInfo(name, claim=claim.key))
            claim = replace(claim, volume=name)
            yield (
                f"{PVCS.kind} {claim.key[1]}: StorageClass {found.name} provisions its volume"
                " immediately, on unknown nodes: its pods are placed as if all nodes could use it"
            )
        volumes.set_claim(claim)


def with_claims(owner: Json, pods: Iterable[Json]) -> Iterator[Json]:
    """Yield the pods of a StatefulSet, and the claims from its templates for them."""
    templates = listing(mapping(owner.get("spec")).get("volumeClaimTemplates"))
    for pod in pods:
        for template in templates:
            entry = text(dig(template, "metadata", "name"))
            meta = {"namespace": pod["metadata"]["namespace"]}
            meta["name"] = f"{entry}-{pod['metadata']['name']}"
            yield {"apiVersion": "v1", "kind": PVCS.kind} | template | {"metadata": meta}
            spec = pod.setdefault("spec", {})
            # As in the StatefulSet controller, a claim replaces a volume of the template with its
            # name.
            others = [it for it in listing(spec.get("volumes")) if it.get("name") != entry]
            source = {"persistentVolumeClaim": {"claimName": meta["name"]}}
            spec["volumes"] = [*others, {"name": entry} | source]
        yield pod
