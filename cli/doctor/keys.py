"""Annotations and labels under our prefix that have no effect, as findings."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from api.integration.kinds import OWNER_KINDS
from api.integration.unread_keys import unread_keys
from api.reading import controller_of
from cli.doctor.findings import About, Limited
from kube.client.meta import Json
from kube.client.resources import Resource

OF_OTHERS: Final = tuple(
    Resource(group, version, f"{kind.lower()}s", kind)
    for group, version, kinds in (
        ("apps", "v1", ("DaemonSet", "ReplicaSet")),
        ("kubeflow.org", "v1", ("PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")),
        ("sparkoperator.k8s.io", "v1beta2", ("ScheduledSparkApplication", "SparkApplication")),
    )
    for kind in kinds
)
"""Kinds that create pods and on which Muster reads no annotation."""

WITHOUT_MARKS: Final = (
    "has no effect: the object was created before Muster's webhooks were installed or the feature"
    " gate was on, and its pods belong to no group"
)
ACTION: Final = "recreate the object"


def check_others(kind: str, obj: Json, found: Limited) -> None:
    """Check an object of such a kind for keys that Muster does not read.

    An object with a controller carries what is written on its owner. The owner's finding suffices.
    """
    if not controller_of(obj):
        check_keys(kind, obj, found)


def check_keys(kind: str, obj: Json, found: Limited) -> None:
    """Add the keys of an object and its templates that Muster does not read."""
    about = About.of(kind, obj)
    # A namespace is its own tenant: the limit for findings applies per namespace.
    if kind == "Namespace":
        about = replace(about, namespace=about.name)
    for path, instead in unread_keys(kind, obj):
        # A search for the key that was meant takes long, and is needless for what is not shown.
        action = "" if found.full(about.namespace) else instead()
        found.warn(about, f"{path}: Muster does not read this key", action)


def check_owner(kind: str, obj: Json, found: Limited) -> None:
    """Check the keys of an owner, and its mode: its pod templates lack it without admission."""
    check_keys(kind, obj, found)
    path = OWNER_KINDS[kind].not_annotated(obj)
    if path:
        found.warn(About.of(kind, obj), f"{path}: {WITHOUT_MARKS}", ACTION)
