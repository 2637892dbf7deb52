"""Groups created from pods that outlived these pods."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Final

from api.constants import POD_GROUP
from api.integration.pods.groups_from_pods import is_from_pods
from api.reading import annotations_of, dig, labels_of, text
from cli.cleanup.lingering import lingers
from cli.doctor.findings import About, Limited
from kube.client.meta import Json

_ACTION: Final = (
    "check the log of muster-controller for the error of the deletion; muster gc --check shows"
    " whether the group has pods now"
)


def check_group(kind: str, obj: Json, found: Limited, now: datetime) -> None:
    """Add a group that the controllers should have deleted; its pods are not read."""
    about = About.of(kind, obj)
    annotations = {key: text(value) for key, value in annotations_of(obj).items()}
    meta = SimpleNamespace(labels=labels_of(obj), annotations=annotations)
    if kind != POD_GROUP.kind or not is_from_pods(meta, about.name):
        return
    problem = lingers(meta.annotations, now)
    if problem and not dig(obj, "metadata", "deletionTimestamp"):
        found.warn(about, problem, _ACTION)
