"""The reason that an owner without a group reports for its wait.

This applies to a gang that was rejected, or whose pods do not exist yet.
"""

from __future__ import annotations

from typing import Final

from analysis.explain.plain_text import clean
from api.constants import ANNOTATION_WAITING_FOR, DEPLOYMENT, LEADER_WORKER_SET, STATEFUL_SET
from api.integration.kinds import CREATOR_KINDS, OWNER_KINDS
from api.reading import annotations_of, text
from kube.base.errors import Forbidden, NotFound
from kube.client.client import Client

_SHORT: Final = {LEADER_WORKER_SET: "lws", STATEFUL_SET: "sts", DEPLOYMENT: "deploy"}
NAMES: Final = {
    kind: tuple(filter(None, (kind.kind.lower(), kind.plural, _SHORT.get(kind))))
    for kind in (*(it.kind for it in OWNER_KINDS.values()), *CREATOR_KINDS)
}
"""The kinds that Muster writes annotations on, with kubectl's names for them."""

KINDS: Final = {name: resource.kind for resource, names in NAMES.items() for name in names}


async def owner_lines(client: Client, what: str, namespace: str) -> list[str]:
    """Return the reason on the owner `kind/name`; none for other kinds, or without an annotation.

    Raises kube errors.
    """
    word, _, name = what.partition("/")
    kind = word.lower().partition(".")[0]
    resource = next((it for it, names in NAMES.items() if kind in names), None)
    if resource is None or not name:
        return []
    try:
        notes = annotations_of(await client.get(resource, name, namespace))
    # The caller then reports that there is no such group.
    except (NotFound, Forbidden):
        return []
    said = text(notes.get(ANNOTATION_WAITING_FOR))
    about = f"{resource.kind} {namespace}/{name}: has no group"
    return [about, f"  waiting for: {clean(said)}"] if said else []
