"""Owners that request groups and get none: admission did not see their creation."""

from __future__ import annotations

from api.integration.kinds import OWNER_KINDS
from api.reading import dig, text
from cli.doctor.findings import About, Limited, warning
from cli.doctor.keys import check_keys
from kube.client.meta import Json

WITHOUT_MARKS = (
    "has no effect: the object was created before Muster's webhooks were installed or the feature"
    " gate was on, and its pods belong to no group"
)
ACTION = "recreate the object"


def check_owner(kind: str, obj: Json, found: Limited) -> None:
    """Add the keys of an owner that nothing reads, and a mode that its pod templates lack."""
    check_keys(kind, obj, found)
    path = OWNER_KINDS[kind].unmarked(obj)
    namespace, name = (text(dig(obj, "metadata", key)) for key in ("namespace", "name"))
    if path and found.takes(namespace):
        about = About(kind, name, namespace)
        found.add(warning(found.check, about, f"{path}: {WITHOUT_MARKS}", ACTION))
