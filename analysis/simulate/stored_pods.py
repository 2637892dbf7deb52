"""A pod from a file as the API server would store it, for `muster simulate`.

In the order of the API server's plugins: its own defaults, LimitRanges, the PriorityClass, the
RuntimeClass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from analysis.simulate import limit_ranges
from analysis.simulate.volumes import default_class
from api import causes, priority
from api.causes import Cause
from api.pod_defaults import with_defaults
from api.priority import PriorityClass
from api.reading import dig, listing, mapping, text
from kube.base.errors import Forbidden, NotFound
from kube.client.client import Client
from kube.client.quantity import parse_milli
from kube.client.resources import (
    LIMIT_RANGES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    Resource,
)

Json = dict[str, Any]

KINDS: Final = {it.kind: it for it in (LIMIT_RANGES, PRIORITY_CLASSES, RUNTIME_CLASSES)}
"""The kinds in manifests that change how pods are stored."""


@dataclass(frozen=True, slots=True)
class PodAdmission:
    """The objects of these kinds; `complete`: a RuntimeClass that is not here does not exist.

    `default_storage_class` is for claims that name none. `notes` name what could not be read.
    """

    priority_classes: tuple[PriorityClass, ...] = ()
    limit_ranges: tuple[Json, ...] = ()
    runtime_classes: dict[str, Json] = field(default_factory=dict)
    complete: bool = False
    default_storage_class: str = ""
    notes: tuple[str, ...] = ()

    async def with_cluster(self, client: Client) -> Self:
        """Return a copy with the cluster's objects of these kinds, as far as they may be read."""
        ranges, unread_ranges = await _listed(client, LIMIT_RANGES)
        classes, unread_classes = await _listed(client, RUNTIME_CLASSES)
        storage, unread_storage = await _listed(client, STORAGE_CLASSES)
        return replace(
            self,
            limit_ranges=tuple(ranges),
            runtime_classes={_key(it)[1]: it for it in classes},
            complete=not unread_classes,
            default_storage_class=default_class(storage),
            notes=(*unread_ranges, *unread_classes, *unread_storage),
        )

    def with_manifests(self, objects: Iterable[Json]) -> Self:
        """Return a copy with these manifests, which replace objects of the same name."""
        found = {(obj["kind"], *_key(obj)): obj for obj in objects if obj["kind"] in KINDS}
        of_kind = {kind: [it for key, it in found.items() if key[0] == kind] for kind in KINDS}
        classes = {it.name: it for it in self.priority_classes}
        ranges = {_key(it): it for it in (*self.limit_ranges, *of_kind[LIMIT_RANGES.kind])}
        given = [PriorityClass.of(it) for it in of_kind[PRIORITY_CLASSES.kind]]
        runtimes = {_key(it)[1]: it for it in of_kind[RUNTIME_CLASSES.kind]}
        return replace(
            self,
            priority_classes=tuple((classes | {it.name: it for it in given}).values()),
            limit_ranges=tuple(ranges.values()),
            runtime_classes=self.runtime_classes | runtimes,
        )

    def store(self, pod: Json) -> list[Cause]:
        """Complete the pod in place, or return why the API server would reject it.

        Raises kube.client.quantity.QuantityError.
        """
        pod["spec"] = spec = with_defaults(mapping(pod.get("spec")))
        limit_ranges.set_pod_requests(pod)
        here = [it for it in self.limit_ranges if _key(it)[0] == pod["metadata"]["namespace"]]
        for limit_range in here:
            limit_ranges.set_defaults(pod, limit_range)
        resolved = priority.resolve(spec, self.priority_classes)
        if isinstance(resolved, Cause):
            return [resolved]
        spec |= {it["path"].rpartition("/")[2]: it["value"] for it in resolved.operations(spec)}
        wrong = [*self._set_runtime(spec), *limit_ranges.contradictions(pod)]
        return [*wrong, *(it for each in here for it in limit_ranges.faults(pod, each))]

    def _set_runtime(self, spec: Json) -> Iterator[Cause]:
        """Set overhead, node selector and tolerations of the RuntimeClass; yield its errors.

        The texts are those of the RuntimeClass plugin.
        """
        name = text(spec.get("runtimeClassName"))
        found = self.runtime_classes.get(name)
        if found is None:
            # An unknown class may exist if the classes of the cluster could not be read.
            if name and self.complete:
                yield causes.forbidden(
                    "spec.runtimeClassName", f'pod rejected: RuntimeClass "{name}" not found'
                )
            return
        overhead = mapping(dig(found, "overhead", "podFixed"))
        if overhead and spec.get("overhead") and _amounts(spec["overhead"]) != _amounts(overhead):
            text_ = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            yield causes.forbidden("spec.overhead", text_)
        spec["overhead"] = dict(overhead or mapping(spec.get("overhead")))
        scheduling = mapping(found.get("scheduling"))
        selector, wanted = (
            mapping(spec.get("nodeSelector")),
            mapping(scheduling.get("nodeSelector")),
        )
        for key in sorted(key for key in wanted if selector.get(key, wanted[key]) != wanted[key]):
            yield causes.forbidden(
                f"spec.nodeSelector[{key}]",
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted[key]}",
            )
        spec["nodeSelector"] = {**selector, **wanted}
        tolerations = [*listing(spec.get("tolerations")), *listing(scheduling.get("tolerations"))]
        spec["tolerations"] = tolerations


async def _listed(client: Client, resource: Resource) -> tuple[list[Json], list[str]]:
    """Return the objects, none for a kind that is not served; or why they cannot be read."""
    try:
        return (await client.list(resource))["items"], []
    except NotFound:
        return [], []
    except Forbidden as error:
        return [], [f"left out: the effects of {resource.plural} on pods: {error}"]


def _amounts(quantities: Mapping[str, Any]) -> dict[str, int]:
    return {key: parse_milli(it) for key, it in quantities.items()}


def _key(obj: Json) -> tuple[str, str]:
    """Return namespace and name; for cluster-scoped kinds the namespace has no meaning."""
    meta = mapping(obj.get("metadata"))
    return text(meta.get("namespace")), text(meta.get("name"))
