"""Delegation of a Job to a template: upstream's annotations, for pods of Muster's scheduler.

The Job's owner has a Workload, whose `controllerRef` names that owner. One annotation names the
template in the Workload, and another one may name the CompositePodGroup above the Job's group.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api import causes
from api.causes import Cause
from api.constants import (
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATIONS_PARENT_COMPOSITE,
    JOB,
    POD_GROUP,
)
from api.integration.common import objects
from api.integration.common.options import JOB_MODES, annotation_path, read_options
from api.integration.common.shared_claims import group_entries, noted_templates
from api.integration.common.templates import TemplateNotFoundError, find_template
from api.ownership import Owner
from api.reading import annotations_of, dig, text
from api.scheduler_names import USUAL, SchedulerNames

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Delegation:
    """The template that a Job names, and the CompositePodGroup above its group, if any."""

    template: str
    parent: str


def read_delegation(
    job: Mapping[str, Any], report: list[Cause], schedulers: SchedulerNames = USUAL
) -> Delegation | None:
    """Return the delegation of a Job (raw JSON); None unless Muster schedules its pods."""
    template = text(annotations_of(job).get(ANNOTATION_GROUP_TEMPLATE))
    scheduler = dig(job, "spec", "template", "spec", "schedulerName")
    # Other schedulers read the same annotations, for their own pods.
    if not template or scheduler not in schedulers:
        return None
    said = {key: text(annotations_of(job).get(key)) for key in ANNOTATIONS_PARENT_COMPOSITE}
    parents = {parent for parent in said.values() if parent}
    if len(parents) > 1:
        first, second = ANNOTATIONS_PARENT_COMPOSITE
        report.append(
            causes.invalid(
                annotation_path("", second),
                said[second],
                f"must be the same as {annotation_path('', first)} ({said[first]}): set only one "
                "of them",
            )
        )
    return Delegation(template, next((parent for parent in said.values() if parent), ""))


def delegated_group(
    job: Mapping[str, Any], group: str, delegation: Delegation, workload: Mapping[str, Any]
) -> Json:
    """Return the PodGroup of a delegated Job. Raises TemplateNotFoundError."""
    name = text(dig(workload, "metadata", "name"))
    template = find_template(workload, delegation.template)
    if template is None:
        raise TemplateNotFoundError(
            f"Workload {name} has no PodGroup template {delegation.template}, which annotation "
            f"{ANNOTATION_GROUP_TEMPLATE} names"
        )
    metadata = job["metadata"]
    owner = Owner(JOB, metadata["namespace"], metadata["name"], metadata["uid"])
    claims = group_entries(read_options(job, "", JOB_MODES, []).claims, noted_templates(job))
    fields = {**template.fields, **template.with_claims({"resourceClaims": claims})}
    return objects.group_object(POD_GROUP, owner, group, name, fields, parent=delegation.parent)
