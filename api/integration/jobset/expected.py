"""`expectedPods` of the PodGroups of a JobSet, if some pods start after others run.

A gang of a complete JobSet, or a tree of mode Composite, waits for all of its pods. A JobSet that
creates some of them later (`startupPolicy: InOrder`, `dependsOn`) therefore states which pods will
come. Nothing is written if all pods are created at once, as those of one replicatedJob are.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from api import causes
from api.causes import Cause
from api.constants import (
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_REPLICATED_JOB,
    MAX_EXPECTED_KINDS,
    MAX_EXPECTED_PODS,
    MAX_EXPECTED_TEMPLATE,
)
from api.integration.common.options import COMPOSITE, GANG
from api.integration.common.placement_templates import encoded, encoded_size, placement_template
from api.integration.common.rules import no_slices
from api.integration.jobset.groups import pod_group_name
from api.integration.jobset.start_order import is_ordered, stages
from api.integration.jobset.view import JobSetView, ReplicatedJob

Json = dict[str, Any]

Counts = Callable[[ReplicatedJob, int], int]
"""A function that returns the number of pods of a Job, by replicatedJob and index."""

KINDS_TEXT: Final = (
    f"must be at most {MAX_EXPECTED_KINDS}, the kinds of pods that one gang can expect: these "
    "replicatedJobs start in order, and their pods differ. Use gang-mode Composite, or gang-mode "
    "on the replicatedJobs"
)
TEMPLATE_TEXT: Final = (
    f"must be at most {MAX_EXPECTED_TEMPLATE} bytes of labels, affinity, tolerations and other "
    "scheduling fields, because the gang expects these pods: remove some of them, or use "
    "gang-mode on the replicatedJobs"
)
SLICES_TEXT: Final = (
    "the gang expects pods that this order creates later, and these have no slice: use gang-mode "
    "on the replicatedJobs, or remove this annotation"
)
COUNT_TEXT: Final = (
    f"must be at most {MAX_EXPECTED_PODS} pods of one kind, because the gang expects these pods: "
    "use gang-mode on the replicatedJobs"
)


@dataclass(slots=True)
class _ExpectedPodKind:
    """Pods with the same requirements in one stage; `jobs` are their replicatedJobs.

    `template` lacks the label of the replicatedJob.
    """

    template: Json
    stage: int
    jobs: list[ReplicatedJob]


def expected_pods(
    view: JobSetView, jobs: list[ReplicatedJob], counts: Counts
) -> dict[str, list[Json]]:
    """Return `expectedPods` of each PodGroup that expects pods, by its name.

    `jobs` are the replicatedJobs with groups. The result is empty if none starts after another. A
    group beyond the limits expects nothing, and waits for its pods.
    """
    if not is_expecting(view, jobs):
        return {}
    found: dict[str, list[Json]] = {}
    for kinds in _kinds(view, jobs):
        entries = _entries(view, kinds, counts)
        found |= entries if _is_writable(view, kinds) else {group: [] for group in entries}
    return found


def faults(view: JobSetView) -> Iterator[Cause]:
    """Yield causes for an ordered JobSet whose groups would expect more than is allowed."""
    jobs = [job for job in view.wanted if not job.is_empty]
    if is_expecting(view, jobs):
        for options in (view.options, *(job.options for job in jobs)):
            yield from no_slices(options, SLICES_TEXT)
        for kinds in _kinds(view, jobs):
            yield from _faults(view, kinds)


def is_expecting(view: JobSetView, jobs: list[ReplicatedJob]) -> bool:
    """Return True if a gang of all these replicatedJobs starts some of them later."""
    return view.options.mode in {GANG, COMPOSITE} and is_ordered(view, jobs)


def _kinds(view: JobSetView, jobs: list[ReplicatedJob]) -> Iterator[list[_ExpectedPodKind]]:
    """Yield the kinds of pods of the one group, or of the groups of each replicatedJob."""
    stage_of = stages(view, jobs)
    labels = {JOBSET_LABEL_NAME: view.name}
    kinds = [
        _ExpectedPodKind(placement_template(job.pod_template, labels), stage_of[job.name], [job])
        for job in jobs
    ]
    if view.options.mode == COMPOSITE:
        yield from ([kind] for kind in kinds)
    else:
        # Merge only beyond the limit: merged entries lack the label of their replicatedJob.
        yield kinds if len(kinds) <= MAX_EXPECTED_KINDS else _merged(kinds)


def _merged(kinds: list[_ExpectedPodKind]) -> list[_ExpectedPodKind]:
    """Return the kinds merged, if pods of several replicatedJobs have the same requirements."""
    found: dict[tuple[str, int], _ExpectedPodKind] = {}
    for kind in kinds:
        same = found.setdefault((encoded(kind.template), kind.stage), replace(kind, jobs=[]))
        same.jobs += kind.jobs
    return list(found.values())


def _faults(view: JobSetView, kinds: list[_ExpectedPodKind]) -> Iterator[Cause]:
    if len(kinds) > MAX_EXPECTED_KINDS:
        yield causes.invalid("spec.replicatedJobs", len(kinds), KINDS_TEXT)
    for kind in kinds:
        first = kind.jobs[0]
        size = encoded_size(_labelled(kind))
        if size > MAX_EXPECTED_TEMPLATE:
            path = first.pod_spec_path.removesuffix(".spec")
            yield causes.invalid(path, size, TEMPLATE_TEXT)
        pods = sum(_size(view, job) for job in kind.jobs)
        if pods > MAX_EXPECTED_PODS:
            yield causes.invalid(f"{first.path}.replicas", pods, COUNT_TEXT)


def _is_writable(view: JobSetView, kinds: list[_ExpectedPodKind]) -> bool:
    # A rule rejects a template without containers, and with it the complete group.
    named = all(kind.template["spec"].get("containers") for kind in kinds)
    return named and not any(_faults(view, kinds))


def _size(view: JobSetView, job: ReplicatedJob) -> int:
    return job.members if view.options.mode == COMPOSITE else job.replicas * job.members


def _entries(
    view: JobSetView, kinds: list[_ExpectedPodKind], counts: Counts
) -> dict[str, list[Json]]:
    """Return the entries of the groups whose pods are of these kinds."""
    found: dict[str, list[Json]] = {}
    for kind in kinds:
        name, template = kind.jobs[0].name, _labelled(kind)
        for group, count in _counted(view, kind, counts).items():
            entry: Json = {"name": name, "count": min(count, MAX_EXPECTED_PODS)}
            stage = {"stage": kind.stage} if kind.stage else {}
            found.setdefault(group, []).append(entry | stage | {"template": template})
    return found


def _counted(view: JobSetView, kind: _ExpectedPodKind, counts: Counts) -> dict[str, int]:
    """Return the number of pods of the kind in each of its groups."""
    found: dict[str, int] = {}
    for job in kind.jobs:
        for index in job.indexes:
            group = pod_group_name(view, job, index)
            found[group] = found.get(group, 0) + counts(job, index)
    return found


def _labelled(kind: _ExpectedPodKind) -> Json:
    """Return the template with the label of the replicatedJob, if all pods belong to one."""
    if len(kind.jobs) > 1:
        return kind.template
    labels: Mapping[str, str] = kind.template["metadata"]["labels"]
    said = {**labels, JOBSET_LABEL_REPLICATED_JOB: kind.jobs[0].name}
    return kind.template | {"metadata": {"labels": said}}
