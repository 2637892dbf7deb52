"""The objects on which a user looks for events about a group: the group and its owner."""

from typing import Final

from api.integration.kinds import OWNER_KINDS
from api.ownership import created_for
from kube.client.meta import ObjectMeta
from kube.client.resources import Resource
from kube.events.events import ObjectReference

_OWNERS: Final = {(it.kind.group, it.kind.kind): it.kind for it in OWNER_KINDS.values()}


def known_objects(resource: Resource, meta: ObjectMeta) -> list[ObjectReference]:
    """Return the objects that get an event about a group."""
    found = [ObjectReference.of(resource, meta)]
    owner = created_for(meta)
    known = _OWNERS.get(owner[:2]) if owner is not None else None
    if owner is not None and known is not None:
        kind, namespace = known.kind, meta.namespace
        found.append(ObjectReference(known.api_version, kind, namespace, owner.name, owner.uid))
    return found
