"""The groups that the controllers would create for pods in manifests, in each form of request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from analysis.simulate.dry_admission import apply
from api import names
from api.constants import (
    COSCHEDULING,
    GROUP,
    LABEL_COSCHEDULING,
    LABEL_SUBSET,
    PLUGINS_POD_GROUP,
    POD_GROUP,
    VERSION,
    WORKLOAD,
    KindName,
)
from api.conversion import ConversionError, convert
from api.groups import Form, WorkloadForm, groups_of_object, is_native, workload_form_of
from api.integration.common import objects
from api.integration.common.templates import find_root_template
from api.integration.pods.coscheduling import coscheduling_objects, subsets_of
from api.integration.pods.groups_from_pods import (
    GroupDescription,
    ask_of,
    check_pod,
    chosen,
    group_object,
)
from api.ownership import Owner
from api.reading import annotations_of, dig, labels_of, text
from kube.base.errors import ConfigError
from scheduler.core.state.state import State
from scheduler.core.values.model import SINGLE_POD, PodInfo

Json = dict[str, Any]
Name = tuple[str, str]
"""Namespace and name."""

_COSCHEDULING: Final = {kind.group: kind for kind in (COSCHEDULING, PLUGINS_POD_GROUP)}


def coscheduling_kind(obj: Json) -> KindName | None:
    """Return the kind of a PodGroup of KEP-3370 or of scheduler-plugins; None for others."""
    group = text(obj.get("apiVersion")).rpartition("/")[0]
    return _COSCHEDULING.get(group) if obj["kind"] == POD_GROUP.kind else None


def as_stored(obj: Json) -> Json:
    """Return a Workload or group of Muster in the stored version. Raises ConfigError."""
    wanted = f"{GROUP}/{VERSION}"
    if obj.get("apiVersion") in (None, wanted):
        return obj
    try:
        return convert(obj, wanted)
    except ConversionError as error:
        raise ConfigError(f"{obj['kind']} {obj['metadata'].get('name')}: {error}") from error


def groups_for_pods(state: State, found: list[Json]) -> Iterator[Json]:
    """Yield the groups of the pods among the objects, unless they exist.

    Raises ConfigError for invalid values.
    """
    pods = [obj for obj in found if obj["kind"] == SINGLE_POD]
    there = {_name(obj) for obj in found if _is_group(obj)}
    made = [
        *_of_coscheduling(found, pods),
        *_of_workloads(state, found, pods),
        *_of_annotations(pods),
    ]
    for obj in made:
        if _is_group(obj) and (_name(obj) in there or _exists(state, _name(obj))):
            continue
        yield obj


def in_its_group(state: State, pod: Json, info: PodInfo) -> PodInfo:
    """Return the pod in the existing group that an earlier version of Muster named, if it is so."""
    form = workload_form_of(pod)
    if form is None or info.group != names.implicit_pod_group(*form):
        return info
    return replace(info, group=_implicit_pod_group(state, info.namespace, form))


def _implicit_pod_group(state: State, namespace: str, form: WorkloadForm) -> str:
    earlier = names.earlier_name(*form)
    group = state.known_groups.get((POD_GROUP.kind, namespace, earlier))
    spec = group.spec if group is not None else None
    if spec is not None and (spec.workload, spec.template) == form[:2]:
        return earlier
    return names.implicit_pod_group(*form)


def _of_coscheduling(found: Iterable[Json], pods: Iterable[Json]) -> Iterator[Json]:
    """Yield the objects for a PodGroup of KEP-3370 or scheduler-plugins that a pod names.

    Only its pods have the priority, and the subset.
    """
    members: dict[Name, list[Json]] = {}
    for pod in pods:
        if _form(pod) is Form.COSCHEDULING:
            members.setdefault(_named(pod, LABEL_COSCHEDULING), []).append(pod)
    for obj in found:
        kind = coscheduling_kind(obj)
        mine = members.get(_name(obj), [])
        if kind is None or not mine:
            continue
        priority = text(dig(mine[0], "spec", "priorityClassName"))
        alone = len(subsets_of(obj)) == 1
        said = {text(labels_of(pod).get(LABEL_SUBSET)) for pod in mine} if alone else {""}
        made = [coscheduling_objects(kind, obj, None, priority, it) for it in sorted(said)]
        yield from {(*_name(it), it["kind"]): it for each in made for it in each}.values()


def _of_workloads(state: State, found: Iterable[Json], pods: Iterable[Json]) -> Iterator[Json]:
    """Yield a group for each template and replica key of Workloads that pods name."""
    workloads = {_name(obj): obj for obj in found if obj["kind"] == WORKLOAD.kind}
    for namespace, form in dict.fromkeys(_forms(pods)):
        workload = workloads.get((namespace, form.name), {})
        template = find_root_template(workload, form.pod_group)
        if template is not None:
            owner = Owner(WORKLOAD, namespace, form.name, "")
            name = _implicit_pod_group(state, namespace, form)
            yield objects.group_object(POD_GROUP, owner, name, form.name, dict(template.fields))


def _forms(pods: Iterable[Json]) -> Iterator[tuple[str, WorkloadForm]]:
    for pod in pods:
        form = workload_form_of(pod)
        if form is not None and _form(pod) is Form.WORKLOAD:
            yield pod["metadata"]["namespace"], form


def _of_annotations(pods: Iterable[Json]) -> Iterator[Json]:
    asks: dict[Name, Counter[GroupDescription]] = {}
    for pod in pods:
        groups = groups_of_object(pod, ours=True)
        if not groups:
            continue
        apply(pod, check_pod(groups, pod), ())
        spec = pod.get("spec") or {}
        said = (spec.get("priorityClassName") or "", spec.get("preemptionPolicy") or "")
        ask = ask_of(groups[0], annotations_of(pod), *said)
        if ask is not None:
            key = (pod["metadata"]["namespace"], groups[0].name)
            asks.setdefault(key, Counter())[ask] += 1
    for key, counted in asks.items():
        yield group_object(*key, chosen(counted), None)


def _form(pod: Json) -> Form | None:
    groups = groups_of_object(pod, ours=True)
    return groups[0].form if groups else None


def _named(pod: Json, label: str) -> Name:
    return pod["metadata"]["namespace"], text(labels_of(pod).get(label))


def _name(obj: Json) -> Name:
    return obj["metadata"]["namespace"], text(obj["metadata"].get("name"))


def _is_group(obj: Json) -> bool:
    own = coscheduling_kind(obj) is None and not is_native(obj)
    return obj["kind"] == POD_GROUP.kind and own


def _exists(state: State, name: Name) -> bool:
    group = state.known_groups.get((POD_GROUP.kind, *name))
    return group is not None and group.spec is not None
