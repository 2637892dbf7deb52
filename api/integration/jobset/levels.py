"""The constraints on one Job's pods at each level of its groups: required topology, mode All.

The levels are read from the new Job, the lowest first: from its annotations, and from the JobSet's
options, which admission copies to the Job template. The templates of a user's Workload replace
both.
"""

from collections.abc import Mapping
from typing import Any, Final

from api import names
from api.constants import ANNOTATION_JOBSET_OPTIONS, POD_GROUP
from api.group_affinity import AffinityScope
from api.integration.common.autoscalers import Level
from api.integration.common.options import (
    ALL,
    COMPOSITE,
    JOB_MODES,
    REPLICATED_JOB_MODES,
    Options,
    read_options,
    read_outer_options,
)
from api.integration.common.templates import (
    WorkloadTemplate,
    choose_template,
    find_template,
    templates_of,
)
from api.integration.jobset.groups import jobset_labels
from api.integration.jobset.view import SCOPE_JOB, SCOPE_JOBSET
from api.reading import annotations_of, dig, labels_of, mapping, mappings, text

_KEYS: Final = ("mode", "topology", "disruption-mode", "provisioning-request", "shared-claims")


def note_of(jobset: Options) -> str:
    """Return the JobSet's options that its Jobs need; empty if there are none.

    This is the annotation `jobset-options`, as in `mode=Composite,topology=rack`.
    """
    if not jobset.asks:
        return ""
    topology = "" if jobset.preferred else jobset.topology
    disruption = jobset.disruption if jobset.disruption == ALL else ""
    mode = jobset.mode if jobset.mode == COMPOSITE else ""
    claims = "" if mode else "+".join(jobset.claims)
    said = zip(_KEYS, (mode, topology, disruption, jobset.request, claims), strict=True)
    return ",".join(f"{key}={value}" for key, value in said if value)


def levels_of(
    job: Mapping[str, Any], scope: str, namespace: str, workload: Mapping[str, Any] | None
) -> list[Level]:
    """Return the levels of a Job; `scope` is empty for a group of the Job's own.

    `workload` is the one that a user created for the Job or its JobSet. The result is empty if it
    has no template for the Job: the group is not created before there is one.
    """
    if workload is None:
        if scope:
            return _levels_in_jobset(job, scope)
        return [_level(AffinityScope.POD_GROUP, read_options(job, "", JOB_MODES, []))]
    templates = templates_of(workload)
    wanted = names.template_name(*_template_of(job, scope), namespace)
    leaf = choose_template(templates, POD_GROUP.kind, wanted, alone=True)
    return [] if leaf is None else _levels_from(templates, leaf, deep=_is_composite(job, scope))


def levels_of_template(workload: Mapping[str, Any], name: str) -> list[Level]:
    """Return the levels of a Job that is delegated to this template, if the Workload has it."""
    leaf = find_template(workload, name)
    # The template alone: no label selects the pods of a composite above it, which may have pods of
    # other owners.
    return [] if leaf is None else _levels_from([], leaf, deep=False)


def _levels_in_jobset(job: Mapping[str, Any], scope: str) -> list[Level]:
    jobset, own = jobset_options(job), read_options(job, "", REPLICATED_JOB_MODES, [])
    if _is_composite(job, scope):
        levels = (own, read_outer_options(job, "", []), jobset)
        return [_level(*each) for each in zip(AffinityScope, levels, strict=True)]
    return [_level(AffinityScope.POD_GROUP, jobset if scope == SCOPE_JOBSET else own)]


def _template_of(job: Mapping[str, Any], scope: str) -> tuple[str, str]:
    """Return prefix and name of the template that Muster would create for the Job's group."""
    jobset, replicated_job, _ = jobset_labels(labels_of(job))
    if not scope:
        return "pg-job", text(dig(job, "metadata", "name"))
    return "pg", jobset if scope == SCOPE_JOBSET else replicated_job


def _is_composite(job: Mapping[str, Any], scope: str) -> bool:
    return scope == SCOPE_JOB and jobset_options(job).mode == COMPOSITE


def jobset_options(job: Mapping[str, Any]) -> Options:
    """Return the options that `note_of` wrote for a JobSet's Job; ignore any others."""
    note = text(annotations_of(job).get(ANNOTATION_JOBSET_OPTIONS))
    said = dict(part.partition("=")[::2] for part in note.split(","))
    mode, topology, disruption, request, claims = (said.get(key, "") for key in _KEYS)
    shared = tuple(name for name in claims.split("+") if names.is_dns_label(name))
    return Options(
        mode=mode, topology=topology, disruption=disruption, request=request, claims=shared
    )


def _level(scope: AffinityScope, options: Options) -> Level:
    topology = "" if options.preferred else options.topology
    return Level(scope, topology, options.disruption == ALL)


def _levels_from(
    templates: list[WorkloadTemplate], leaf: WorkloadTemplate, *, deep: bool
) -> list[Level]:
    by_name = {it.name: it for it in templates}
    chain = [leaf]
    while deep and chain[-1].parent in by_name and len(chain) < len(AffinityScope):
        chain.append(by_name[chain[-1].parent])
    return [_template_level(*each) for each in zip(AffinityScope, chain, strict=False)]


def _template_level(scope: AffinityScope, template: WorkloadTemplate) -> Level:
    entries = mappings(template.fields, "schedulingConstraints", "topology")
    first = entries[0] if entries else {}
    topology = "" if first.get("preferred") else text(first.get("key"))
    return Level(scope, topology, "all" in mapping(template.fields.get("disruptionMode")))
