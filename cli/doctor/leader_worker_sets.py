"""LeaderWorkerSets that ask for gangs and get none: admission did not see them being made."""

from __future__ import annotations

from api.integration.lws.view import read_lws
from cli.doctor.findings import About, Limited, warning
from cli.doctor.keys import check_keys
from kube.client.meta import Json

WITHOUT_MARKS = (
    "has no effect: the set was made before Muster's webhooks, or the gate LeaderWorkerSets, were"
    " there, and its pods belong to no group of its replicas"
)
ACTION = "delete the set and make it anew"


def check_set(kind: str, obj: Json, found: Limited) -> None:
    """Adds what nothing reads of one, and a mode that its pod templates do not follow."""
    check_keys(kind, obj, found)
    view = read_lws(obj)
    if not view.options.asks or view.is_marked or not found.takes(view.namespace):
        return
    about = About(kind, view.name, view.namespace)
    found.add(warning(found.check, about, f"{view.options.mode_path}: {WITHOUT_MARKS}", ACTION))
