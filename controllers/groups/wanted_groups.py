"""Names, parents and expected pods of wanted groups: pure functions."""

from collections.abc import Iterator, Mapping

from api import names
from api.constants import ANNOTATION_STANDS_FOR
from controllers.cache.objects import COMPOSITES, POD_GROUPS
from kube.client.meta import Json


def expecting(wanted: Json, expected: Mapping[str, list[Json]], notes: Mapping[str, str]) -> Json:
    """Return a PodGroup with its expected pods and `notes`; return other groups unchanged."""
    metadata = wanted["metadata"]
    pods = expected.get(pods_name_of(wanted))
    if wanted["kind"] != POD_GROUPS.kind or pods is None:
        return wanted
    metadata = metadata | {"annotations": {**metadata["annotations"], **notes}}
    return wanted | {"metadata": metadata, "spec": wanted["spec"] | {"expectedPods": pods}}


def pods_name_of(group: Json) -> str:
    """Return the name by which its pods name a wanted group."""
    metadata = group["metadata"]
    return str(metadata["annotations"].get(ANNOTATION_STANDS_FOR) or metadata["name"])


def below(groups: list[Json]) -> Iterator[Json]:
    """Yield the wanted groups, each with the real name of its parent."""
    # A parent may stand for its usual name, because another owner has that one.
    own = {
        pods_name_of(it): it["metadata"]["name"] for it in groups if it["kind"] == COMPOSITES.kind
    }
    for group in groups:
        parent = group["spec"].get("parentCompositePodGroupName")
        above = {"parentCompositePodGroupName": own.get(parent, parent)} if parent else {}
        yield group | {"spec": group["spec"] | above}


def substitute_group(wanted: Json, uid: str) -> Json:
    """Return the group of an owner with this UID that stands for the usual one."""
    metadata = wanted["metadata"]
    usual = metadata["name"]
    own = {"name": names.substitute_name(usual, uid)}
    notes = {"annotations": metadata["annotations"] | {ANNOTATION_STANDS_FOR: usual}}
    return wanted | {"metadata": metadata | own | notes}
