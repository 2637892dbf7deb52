"""Which features a new object that may ask for groups (a Job, a StatefulSet, ...) uses.

Only what has an effect counts: where Muster makes no group, nothing is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from api.constants import (
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_TOPOLOGY,
    ANNOTATIONS_PARENT_COMPOSITE,
    STATEFUL_SET,
    KindName,
)
from api.features import Feature, Use
from api.integration.apps.admission import read_app
from api.integration.common.options import COMPOSITE, Options, annotation_path
from api.integration.job.admission import read_job
from api.integration.jobset.view import SCOPE_JOB, SCOPE_JOBSET, ReplicatedJob, read_jobset
from api.integration.lws.view import ANNOTATION_EXCLUSIVE, read_lws
from api.reading import annotations_of
from api.scheduler_names import SchedulerNames


def uses_of_job(job: Mapping[str, Any], schedulers: SchedulerNames) -> Iterator[Use]:
    """Those of a Job itself. What is asked of a JobSet's Job was asked of the JobSet."""
    view = read_job(job, schedulers)
    if view.asks:
        yield Use(Feature.JOB, view.options.mode_path)
        yield from _of_topology([view.options])
    elif view.delegation is not None and not view.from_jobset:
        yield Use(Feature.JOB, annotation_path("", ANNOTATION_GROUP_TEMPLATE))
        for key in ANNOTATIONS_PARENT_COMPOSITE:
            if annotations_of(job).get(key):
                yield Use(Feature.COMPOSITE_POD_GROUP, annotation_path("", key))


def uses_of_app(kind: KindName, obj: Mapping[str, Any]) -> Iterator[Use]:
    """Those of a StatefulSet or Deployment."""
    view = read_app(kind, obj)
    if view.options.asks:
        feature = Feature.STATEFUL_SET if kind == STATEFUL_SET else Feature.DEPLOYMENT
        yield Use(feature, view.options.mode_path)
        yield from _of_topology([view.options])


def uses_of_jobset(jobset: Mapping[str, Any]) -> Iterator[Use]:
    """Those of a JobSet and its replicatedJobs."""
    view = read_jobset(jobset)
    if not view.wanted:
        return
    composite = view.options.mode == COMPOSITE
    if view.options.asks:
        yield Use(Feature.JOBSET, view.options.mode_path)
        yield from _of_topology([view.options])
    if composite:
        yield Use(Feature.COMPOSITE_POD_GROUP, view.options.mode_path)
    for job in view.wanted:
        if not view.options.asks:
            yield Use(Feature.JOBSET, job.options.mode_path)
        yield from _of_topology(_levels(job, composite=composite))


def uses_of_lws(lws: Mapping[str, Any]) -> Iterator[Use]:
    """Those of a LeaderWorkerSet."""
    view = read_lws(lws)
    if not view.options.asks:
        return
    yield Use(Feature.LEADER_WORKER_SET, view.options.mode_path)
    if view.options.mode == COMPOSITE or view.leader_first:
        yield Use(Feature.COMPOSITE_POD_GROUP, view.options.mode_path)
    yield from _of_topology([view.options])
    if view.exclusive and not view.options.topology:
        yield Use(Feature.TOPOLOGY, annotation_path("", ANNOTATION_EXCLUSIVE))


def _levels(job: ReplicatedJob, *, composite: bool) -> Iterator[Options]:
    """The options of a replicatedJob that have an effect."""
    if composite and job.scope == SCOPE_JOB:
        yield job.outer
    if job.scope != SCOPE_JOBSET:
        yield job.options


def _of_topology(levels: Iterable[Options]) -> Iterator[Use]:
    for options in levels:
        if options.topology:
            key = ANNOTATION_PREFERRED_TOPOLOGY if options.preferred else ANNOTATION_TOPOLOGY
            yield Use(Feature.TOPOLOGY, options.at(key))
