"""Wanted groups as they are written: their names, parents, and the pods that they expect. Pure."""

from collections.abc import Iterator, Mapping

from api import names
from api.constants import ANNOTATION_STANDS_FOR
from controllers.cache.objects import COMPOSITES, POD_GROUPS
from kube.client.meta import Json


def expecting(wanted: Json, expected: Mapping[str, list[Json]], notes: Mapping[str, str]) -> Json:
    """A wanted group with the pods that it expects, and `notes`; others say nothing of that."""
    metadata = wanted["metadata"]
    pods = expected.get(pods_name_of(wanted))
    if wanted["kind"] != POD_GROUPS.kind or pods is None:
        return wanted
    metadata = metadata | {"annotations": {**metadata["annotations"], **notes}}
    return wanted | {"metadata": metadata, "spec": wanted["spec"] | {"expectedPods": pods}}


def pods_name_of(group: Json) -> str:
    """The name by which its pods name a wanted group."""
    metadata = group["metadata"]
    return str(metadata["annotations"].get(ANNOTATION_STANDS_FOR) or metadata["name"])


def below(groups: list[Json]) -> Iterator[Json]:
    """The wanted groups, each below the parent that stands for the one that it gives."""
    own = {
        pods_name_of(it): it["metadata"]["name"] for it in groups if it["kind"] == COMPOSITES.kind
    }
    for group in groups:
        parent = group["spec"].get("parentCompositePodGroupName")
        above = {"parentCompositePodGroupName": own.get(parent, parent)} if parent else {}
        yield group | {"spec": group["spec"] | above}


def standing_in(wanted: Json, uid: str) -> Json:
    """The group of an owner with this UID that stands for the usual one."""
    metadata = wanted["metadata"]
    usual = metadata["name"]
    own = {"name": names.standing_for(usual, uid)}
    notes = {"annotations": metadata["annotations"] | {ANNOTATION_STANDS_FOR: usual}}
    return wanted | {"metadata": metadata | own | notes}
