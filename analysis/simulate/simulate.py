"""`muster simulate`: manifests added to a copy of the cluster, and decided.

Jobs, JobSets, LeaderWorkerSets and kinds with pod templates become the groups and pods that the
webhooks and controllers would create, by the same functions. Every pod is as the API server would
store it, and decided as if it were Muster's. No object is sent to the cluster.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from analysis.explain.explain import (
    blocker_lines,
    explain_lines,
    headline,
    placement_lines,
    plan_lines,
    qualified_name,
    refusal_lines,
)
from analysis.simulate.deciding import (
    Decided,
    Setup,
    carry_out,
    decided,
    known_in,
    new_among,
    roots_not_ready,
    waiting_roots,
)
from analysis.simulate.devices import DEVICE_KINDS, SimulatedDevices
from analysis.simulate.dry_admission import Admission, apply
from analysis.simulate.groups import as_stored, coscheduling_kind, groups_for_pods, in_its_group
from analysis.simulate.jobs import job_of_jobset, pod_of_job
from analysis.simulate.kinds import (
    AS_THEY_ARE,
    LIST,
    OF_PARTS,
    check_elements,
    is_simulated,
    job_of,
    not_simulated_line,
    of_others,
    pods_of_parts,
    without_nulls,
)
from analysis.simulate.sets import of_lws
from analysis.simulate.stored_pods import KINDS as POD_RULES
from analysis.simulate.stored_pods import PodAdmission
from analysis.simulate.trainer import (
    RUNTIMES,
    Runtimes,
    jobset_of,
    runtime_of,
    runtimes_of,
    without_runtime,
)
from analysis.simulate.trees import below_root, one_root_each
from analysis.simulate.volumes import VOLUME_KINDS, add_volumes, with_claims
from api import features
from api.constants import (
    COMPOSITE_POD_GROUP,
    CRON_JOB,
    JOB,
    JOBSET,
    LEADER_WORKER_SET,
    MAX_EXPECTED_PODS,
    NATIVE_GROUP,
    POD_GROUP,
    TRAIN_JOB,
    WORKLOAD,
)
from api.features import Feature, FeatureGates
from api.groups import is_native
from api.integration.common.embedding_kind import EmbeddingKind
from api.integration.common.minimum import NO_PODS
from api.integration.common.owner_kind import Review
from api.integration.job.admission import job_admission, job_groups
from api.integration.jobset.admission import jobset_admission, jobset_expected
from api.integration.jobset.groups import jobset_objects
from api.integration.jobset.start_order import later
from api.integration.jobset.view import members_of, read_jobset
from api.integration.kinds import EMBEDDING_KINDS, SINGLE_GROUP_KINDS
from api.integration.single_group.kind import NO_UPDATE, SingleGroupKind, single_group
from api.reading import integer
from api.scheduler_names import USUAL, SchedulerNames, is_open
from kube.base.errors import ConfigError
from kube.client.quantity import QuantityError
from scheduler.core.explain.explain import explain
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import SINGLE_POD, GroupKey
from scheduler.decoding import decode
from scheduler.decoding.objects import Workload, group_of, pod_of
from scheduler.expected.pods import ExpectedPods
from scheduler.support.config import ExpectedLimits
from scheduler.support.kinds import NATIVE_GROUPS
from scheduler.watch.workload_templates import templates_of

Json = dict[str, Any]

MOST_OBJECTS: Final = 200_000
"""Groups and pods that the documents may expand to."""

MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of functions that rely on the schema validation of API servers."""

_UID = "00000000-0000-0000-0000-000000000000"
_SUFFIX = "new"
"""Replaces the characters that an API server appends to a generateName."""


class _Rules(NamedTuple):
    """Settings of admission; `expects`: groups may wait for pods that come later.

    `runtimes` are those of TrainJobs.
    """

    schedulers: SchedulerNames
    expects: bool
    runtimes: Runtimes


@dataclass(frozen=True, slots=True)
class SimulatedRoot:
    """A root that is new, and the lines that explain where it fits, or why it does not.

    `evicted` is the number of pods that preemption evicts before it fits.
    """

    kind: str
    namespace: str
    name: str
    fits: bool
    explanation: list[str]
    evicted: int = 0


class Simulation(NamedTuple):
    """The roots in the order in which they were decided, and notes on all manifests."""

    roots: list[SimulatedRoot]
    notes: list[str]

    @property
    def lines(self) -> list[str]:
        """A block for each root, and the notes."""
        return [line for root in self.roots for line in root.explanation] + self.notes

    @property
    def fits(self) -> bool:
        """True if all roots fit, some of them after preemption."""
        return all(root.fits for root in self.roots)


def simulate(
    state: State,
    documents: Iterable[Json],
    namespace: str,
    budget: SearchBudget,
    pods: PodAdmission = PodAdmission(),
    *,
    schedulers: SchedulerNames = USUAL,
    gates: FeatureGates = features.USUAL,
) -> Simulation:
    """Add the documents to the state and decide what is new, in the order of the queue.

    `pods` are the defaults that the API server applies to pods, `schedulers` are Muster's names,
    `gates` the features that are on. Raises ConfigError for what admission rejects.
    """
    preempts, before = Feature.PREEMPTION in gates, known_in(state)
    setup = Setup(budget, preempts=preempts, pods=pods, schedulers=schedulers, gates=gates)
    notes = add_all(state, documents, namespace, setup, most=MOST_OBJECTS)
    new = list(new_among(waiting_roots(state), before))
    roots = [_decide(state, entity, setup) for entity in new]
    for group in roots_not_ready(state, before):
        text = [*explain_lines(state, group, budget, gates)]
        roots.append(SimulatedRoot(*group.key, False, text))
    return Simulation(roots, notes)


class TooManyError(ConfigError):
    """The manifests expand to too many groups and pods."""


def add_all(
    state: State, documents: Iterable[Json], namespace: str, setup: Setup, *, most: int
) -> list[str]:
    """Add the objects of the documents to the state, `most` at most; return notes.

    Raises ConfigError for an object that admission rejects or that is malformed, and if no document
    has a kind that can be simulated; TooManyError for more objects.
    """
    try:
        return _add_all(state, documents, namespace, setup, most)
    except MALFORMED as error:
        raise ConfigError(f"an object does not match the schema of its kind ({error!r})") from error


def _add_all(
    state: State, documents: Iterable[Json], namespace: str, setup: Setup, most: int
) -> list[str]:
    documents, schedulers, gates = list(documents), setup.schedulers, setup.gates
    runtimes = runtimes_of(documents, namespace)
    rules = _Rules(schedulers, Feature.EXPECTED_PODS in gates, runtimes)
    # Expanded on demand: too many replicas are rejected before they fill the memory.
    expanded = (obj for each in documents for obj in _well_formed(each, namespace, rules))
    objects: list[Json] = []
    for obj in one_root_each(state, expanded):
        setup.pause()
        if len(objects) == most:
            raise TooManyError(
                f"the manifests expand to more than {most} groups and pods: use fewer replicas"
            )
        objects.append(obj)
    if runtimes and not objects:
        kind, _, name = next(iter(runtimes))
        raise ConfigError(
            f"{kind} {name}: no TrainJob in the files uses it: add one, which creates the pods"
        )
    unknown = [obj for obj in objects if not is_simulated(obj)]
    # The expansion replaces a TrainJob by its JobSet, unless its runtime is missing.
    lacking = [obj for obj in objects if obj["kind"] == TRAIN_JOB.kind and is_simulated(obj)]
    objects = [obj for obj in objects if obj["kind"] != TRAIN_JOB.kind or not is_simulated(obj)]
    pods = setup.pods
    notes = [*pods.notes, *without_runtime(lacking, others=len(unknown) < len(objects))]
    notes += not_simulated_line(unknown, others=len(unknown) < len(objects))
    # PriorityClasses and LimitRanges in the files apply to all pods, in any order of documents.
    pods = pods.with_manifests(objects)
    state.modest_classes |= {it.name for it in pods.priority_classes if it.preempts_never}
    objects = [obj for obj in objects if is_simulated(obj) and obj["kind"] not in POD_RULES]
    notes += of_others(objects, schedulers)
    notes += add_volumes(state, objects, pods.default_storage_class)
    objects = [obj for obj in objects if obj["kind"] not in VOLUME_KINDS]
    objects += groups_for_pods(state, objects)
    objects = [obj for obj in objects if coscheduling_kind(obj) is None]
    admission = Admission(pods, [obj for obj in objects if obj["kind"] == WORKLOAD.kind])
    devices = SimulatedDevices(state)
    others = [each for each in objects if each["kind"] not in DEVICE_KINDS]
    for obj in (each for each in others if each["kind"] != WORKLOAD.kind):
        setup.pause()
        if is_native(obj):
            # Kubernetes' own admission fills in the priority of its groups.
            admission.set_priority(obj, obj.setdefault("spec", {}))
        else:
            admission.admit(obj)
    # After admission, which may add resourceClaims to groups, and before the pods that use these.
    devices.add_all(objects)
    native = any(map(is_native, others)) or any(
        key[0] in NATIVE_GROUPS for key in state.known_groups
    )
    for obj in others:
        _add(state, obj, schedulers, devices, gates, native=native)
    if Feature.EXPECTED_PODS in gates and any(map(_expects_pods, objects)):
        _expect(state, objects, schedulers, devices)
    return notes


def _expect(
    state: State, objects: Iterable[Json], schedulers: SchedulerNames, devices: SimulatedDevices
) -> None:
    """Let new groups expect the pods that they announce. Raises ConfigError."""
    expected = ExpectedPods(state, ExpectedLimits(MAX_EXPECTED_PODS), schedulers)
    expected.claims.serve(templates=True)
    for template, spec in devices.specs.items():
        expected.claims.on_template_changed(template, spec)
    for obj in objects:
        if _expects_pods(obj):
            group = group_of(obj)
            key = (group.metadata.namespace, group.metadata.name)
            for info in expected.on_group_changed(key, group).set:
                if info.unclaimed:
                    raise ConfigError(f"PodGroup {key[1]}: {info.name}: {info.unclaimed}")
                state.set_pod(info)


def _expects_pods(obj: Json) -> bool:
    spec = obj.get("spec") or {}
    return obj["kind"] == POD_GROUP.kind and not is_native(obj) and bool(spec.get("expectedPods"))


def id_of(key: GroupKey) -> str:
    """Return the ID of a workload in messages: `NAMESPACE/KIND/NAME`."""
    return f"{key[1]}/{key[0]}/{key[2]}"


def _decide(state: State, entity: Group | Pod, setup: Setup) -> SimulatedRoot:
    name = entity.info.name if isinstance(entity, Pod) else ""
    lines = [headline(entity) if isinstance(entity, Group) else f"{SINGLE_POD} {name}"]
    decision = decided(state, entity, setup)
    if decision.placement is not None:
        return _carry_out(state, decision, decision.placement, lines)
    assert isinstance(decision.outcome, Refusal)
    blocker = explain(state, decision.outcome)
    if isinstance(entity, Group) and blocker.at != entity.key:
        lines.append(f"  waits for {qualified_name(blocker.at)}")
    lines += (f"  {line}" for line in blocker_lines(blocker))
    refused = refusal_lines(state, entity, decision.outcome, None, setup.gates)
    lines += (f"  {line}" for line in refused)
    return SimulatedRoot(*entity.key, False, lines)


def _carry_out(
    state: State, decision: Decided, placed: Placement, lines: list[str]
) -> SimulatedRoot:
    """Carry out the decision. Roots that are decided later must not use the capacity again."""
    plan = decision.plan
    evicts = plan is not None and plan.cost is not None
    told = [*placement_lines(state, placed, "fits after preemption" if evicts else "fits")]
    told += plan_lines(plan) if plan is not None else ()
    evicted = sum(not pod.info.expected for pod in plan.pods) if plan is not None else 0
    carry_out(state, decision)
    lines += (f"  {line}" for line in told)
    return SimulatedRoot(*decision.entity.key, True, lines, evicted)


def _well_formed(document: Json, namespace: str, rules: _Rules) -> Iterator[Json]:
    """Expand the document as `_expand`. Raises ConfigError also for a malformed object."""
    try:
        # The functions of webhooks and controllers rely on the schema validation of API servers.
        yield from _expand(document, namespace, rules)
    except MALFORMED as error:
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        raise ConfigError(
            f"{document['kind']} {name}: does not match the schema of its kind ({error!r})"
        ) from error


def _expand(document: Json, namespace: str, rules: _Rules) -> Iterator[Json]:
    """Yield the groups and pods of an object, or the object itself if it has none."""
    made: Json = without_nulls(document)
    meta = made.setdefault("metadata", {})
    meta.setdefault("namespace", namespace)
    meta.setdefault("name", meta.get("generateName", "") + _SUFFIX)
    kind = made["kind"]
    if kind in RUNTIMES and is_simulated(made):
        return
    if is_simulated(made):
        check_elements(made)
    if not is_simulated(made) or kind in AS_THEY_ARE or coscheduling_kind(made) is not None:
        yield made
    elif is_native(made):
        # Its Workload only has the templates from which controllers create groups.
        if kind != WORKLOAD.kind:
            yield made
    elif kind == LIST:
        for item in made.get("items") or ():
            yield from _expand(item, namespace, rules)
    elif kind in (POD_GROUP.kind, COMPOSITE_POD_GROUP.kind, WORKLOAD.kind):
        yield as_stored(made)
    else:
        yield from _of_owner(made, rules)


def _of_owner(owner: Json, rules: _Rules) -> Iterator[Json]:
    """Yield the groups and pods that Muster and the owner's controller create."""
    kind, meta = owner["kind"], owner["metadata"]
    meta.setdefault("uid", f"simulated-{kind}-{meta['namespace']}-{meta.get('name')}")
    if kind == CRON_JOB.kind:
        owner, kind = job_of(owner), JOB.kind
    if kind == TRAIN_JOB.kind:
        runtime = runtime_of(owner, rules.runtimes)
        if runtime is None:
            yield owner
        else:
            check_elements(runtime)
            yield from _of_owner(jobset_of(owner, without_nulls(runtime)), rules)
    elif kind == JOBSET.kind:
        yield from below_root(owner, _of_jobset(owner, rules))
    elif kind == JOB.kind:
        yield from below_root(owner, _of_job(owner, rules.schedulers))
    elif kind == LEADER_WORKER_SET.kind:
        yield from below_root(owner, of_lws(owner, rules.schedulers, expects=rules.expects))
    elif kind in SINGLE_GROUP_KINDS:
        made = _of_single_group(SINGLE_GROUP_KINDS[kind], owner, rules.schedulers)
        yield from below_root(owner, made)
    elif kind in EMBEDDING_KINDS:
        yield from _of_embedded(EMBEDDING_KINDS[kind], owner, rules)
    elif kind in OF_PARTS:
        yield from pods_of_parts(owner)
    else:
        yield from _of_template(owner)


def _of_embedded(kind: EmbeddingKind, owner: Json, rules: _Rules) -> Iterator[Json]:
    """Yield the groups and pods of the object that this one creates."""
    embedded = kind.embedded(owner)
    if embedded is not None:
        named = {"apiVersion": kind.inner.kind.api_version, "kind": kind.inner.kind.kind}
        yield from _of_owner(copy.deepcopy({**named, **embedded}), rules)


def _of_single_group(
    kind: SingleGroupKind, owner: Json, schedulers: SchedulerNames
) -> Iterator[Json]:
    admitted = kind.admit(owner, Review("CREATE", uid=_UID, schedulers=schedulers))
    apply(owner, admitted.causes, admitted.patch)
    # The patch would replace the template's own values: admission rejects these first.
    view = kind.read(owner)
    if view.managed and view.options.asks and view.pods:
        yield single_group(view, NO_UPDATE, 0)
    of_parts = owner["kind"] in OF_PARTS
    yield from with_claims(owner, pods_of_parts(owner) if of_parts else _of_template(owner))


def _of_template(owner: Json) -> Iterator[Json]:
    """Yield the pods of a kind with one template and a number of replicas."""
    spec, meta = owner.get("spec") or {}, owner["metadata"]
    replicas = integer(spec.get("replicas"))
    for index in range(1 if replicas is None else replicas):
        pod = copy.deepcopy(spec.get("template") or {})
        inner = pod.setdefault("metadata", {})
        inner |= {"name": f"{meta.get('name')}-{index}", "namespace": meta["namespace"]}
        yield {"apiVersion": "v1", "kind": SINGLE_POD} | pod


def _of_jobset(jobset: Json, rules: _Rules) -> Iterator[Json]:
    schedulers, expects, _ = rules
    admitted = jobset_admission(jobset, Review("CREATE", schedulers=schedulers, expects=expects))
    apply(jobset, admitted.causes, admitted.patch)
    view = read_jobset(jobset)
    expected = jobset_expected(jobset, lambda _job, _group: (None, NO_PODS)) if expects else {}
    for obj in jobset_objects(view):
        if entries := expected.get(obj["metadata"]["name"]):
            obj["spec"]["expectedPods"] = entries
        yield obj
    # Held places of the group represent the pods that are created after others.
    waiting = later(view, [job for job in view.annotated if not job.is_empty]) if expected else ()
    for replicated in jobset.get("spec", {}).get("replicatedJobs") or ():
        members = members_of(replicated["template"]["spec"])
        replicas = replicated.get("replicas", 1) if members else 0
        if replicated["name"] in waiting:
            continue
        for index in range(replicas):
            yield from _of_job(job_of_jobset(jobset, replicated, index), schedulers)


def _of_job(job: Json, schedulers: SchedulerNames) -> Iterator[Json]:
    admitted = job_admission(job, Review("CREATE", uid=_UID, schedulers=schedulers))
    apply(job, admitted.causes, admitted.patch)
    yield from job_groups(job)
    for index in range(members_of(job["spec"])):
        yield pod_of_job(job, index)


def _add(
    state: State,
    obj: Json,
    schedulers: SchedulerNames,
    devices: SimulatedDevices,
    gates: FeatureGates,
    *,
    native: bool,
) -> None:
    """Add an object. `native` means that pods name native groups by their field."""
    meta = obj["metadata"]
    meta.setdefault("uid", f"simulated-{meta['namespace']}-{meta.get('name')}")
    # Later than all existing objects: it comes after all others of its priority.
    meta.setdefault("creationTimestamp", "9999-01-01T00:00:00Z")
    try:
        if obj["kind"] == WORKLOAD.kind:
            workload = msgspec.convert(obj, Workload, strict=False)
            state.set_templates((meta["namespace"], meta.get("name", "")), templates_of(workload))
            return
        if obj["kind"] != SINGLE_POD:
            group = group_of(obj)
            kind = f"{obj['kind']}.{NATIVE_GROUP}" if is_native(obj) else obj["kind"]
            state.set_group(decode.group_spec(kind, group, gates))
            return
        if is_open(obj.setdefault("spec", {}).get("schedulerName")):
            obj["spec"]["schedulerName"] = schedulers.default
        info = decode.pod_info(pod_of(obj), schedulers=schedulers, native=native)
        devices.check(obj)
        state.set_pod(devices.with_claims(obj, in_its_group(state, obj, info)))
    except (msgspec.ValidationError, QuantityError) as error:
        raise ConfigError(f"{obj['kind']} {meta.get('name')}: {error}") from error
