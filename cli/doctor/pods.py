"""Pods without a node that no scheduler takes."""

from __future__ import annotations

import difflib
from datetime import datetime, timedelta
from typing import Final

from api.constants import (
    DEFAULT_SCHEDULER_NAME,
    LABEL_POD_GROUP,
    LABEL_WORKLOAD,
    SCHEDULER_NAME,
)
from api.reading import condition_of, dig, labels_of, listing, mapping, text
from cli.doctor.findings import About, Check, Limited
from kube.base.clock import moment
from kube.client.meta import Json

PATIENCE: Final = timedelta(seconds=60)
"""Time that a pod may wait for its first condition."""


def check_pod(pod: Json, found: Limited, now: datetime) -> None:
    """Add the problem of a pod without a node whose scheduler does not handle it."""
    meta, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    if (
        # A pod that is being deleted, is bound or has scheduling gates is not for a scheduler.
        meta.get("deletionTimestamp")
        or spec.get("nodeName")
        or listing(spec.get("schedulingGates"))
    ):
        return
    if text(dig(pod, "status", "phase")) in {"Succeeded", "Failed"}:
        return
    about = About.of("Pod", pod)
    chosen = text(spec.get("schedulerName"))
    labels = labels_of(pod)
    grouped = next((key for key in (LABEL_POD_GROUP, LABEL_WORKLOAD) if labels.get(key)), "")
    rename = f"set spec.schedulerName: {SCHEDULER_NAME} in the template of its pods"
    if chosen == SCHEDULER_NAME:
        made = moment(text(meta.get("creationTimestamp")))
        if made is None or now - made <= PATIENCE or condition_of(pod, "PodScheduled"):
            return
        problem = (
            f"it uses schedulerName {SCHEDULER_NAME}, which has not tried it for"
            f" {(now - made).total_seconds():.0f} s"
        )
        action = "check that a scheduler of Muster runs and is the leader (see the check leases)"
        found.add(Check(found.check, about).error(problem, action))
    elif grouped:
        problem = f"it names a group ({grouped}), but {chosen} schedules it, and not as a gang"
        found.warn(about, problem, rename)
    elif _misspelt(chosen):
        found.warn(about, f"its schedulerName {chosen} is not one of Muster's", rename)


def _misspelt(name: str) -> bool:
    # The time of difflib grows with the square of the length, and users choose the name.
    if not name or name == DEFAULT_SCHEDULER_NAME or len(name) > 2 * len(SCHEDULER_NAME):
        return False
    return bool(difflib.get_close_matches(name, [SCHEDULER_NAME], cutoff=0.8))
